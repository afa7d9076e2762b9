"""What numbers in a question look like, and what a match of one means."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from assay.asking.text import MASKS
from assay.errors import InputError

Convert = Callable[[re.Match[str]], Any]

_MAGNITUDES: Final = {
    "": 1.0, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9,
    "billion": 1e9, "mtok": 1e6, "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip
_COUNT_WORDS: Final = {
    "a": 1, "an": 1, "one": 1, "single": 1, "a single": 1, "two": 2, "three": 3, "four": 4,
    "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16,
    "hundred": 100, "a hundred": 100, "a thousand": 1000, "a couple of": 2, "half a": 0.5,
    "dual": 2, "quad": 4,
}  # fmt: skip
_SECONDS: Final = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0,
    "second": 1.0, "seconds": 1.0,
}  # fmt: skip
_DAYS: Final = {
    "hour": 1 / 24,
    "hr": 1 / 24,
    "h": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 30.0,
    "year": 365.0,
    "night": 0.5,
}
_WHOLE: Final = 1e-6
WORDS_OF_A_TOKEN: Final = 0.75
"""English words by token: 100 tokens are about 75 words (OpenAI, "What are tokens and how to count them?")."""
_RATES: Final = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "m": 60.0, "minute": 60.0, "h": 3600.0,
                 "hour": 3600.0, "day": 86400.0}  # fmt: skip

NUMBER = r"(?<![\w.])(?P<n>\d+(?:\.\d+)?(?:e\+?\d+)?)"
LENGTH = NUMBER + r"\s*(?P<m>k|thousand)?(?!\s?[bmt]\b)(?![\d.])"
"""Tokens of a prompt, an answer or a context: never the size of a model, such as 70b."""
AMOUNT = NUMBER + r"\s*(?P<m>k|mn|m|bn|b|tn|t|thousand|million|billion|trillion)?"
AMOUNT_OF = NUMBER + r"(?:\s*(?P<m>thousand|million))?"
COUNTED = (
    r"(?P<n>\d+(?:\.\d+)?|"
    + "|".join(w for w in sorted(_COUNT_WORDS, key=len, reverse=True) if w not in ("a", "an"))
    + r")(?P<m>k)?"
)
COUNT = (
    r"(?P<n>\d+(?:\.\d+)?|" + "|".join(sorted(_COUNT_WORDS, key=len, reverse=True)) + r")(?P<m>k)?"
)
IS = (
    r"\s*(?:length|size|rate)?"
    r"\s*(?:of|is|at|=|:|to|with|(?:goes|rises|falls|drops|improves|changes) to|becomes)?"
    r"\s*(?:only|just|about|around)?\s*"
)
WITHIN = (
    r"\s*(?:latency)?\s*(?:has to|must|should|to)?\s*(?:be|is|stays?|stay)?"
    r"\s*(?:<=?|under|below|within|less than|at most|no more than|up to|max(?:imum)?|limit|slo|of|=|:"
    r"|exceeds?|reaches|hits)?"
    r"\s*(?:of)?\s*"
)
DURATION = r"(?P<u>ms|milliseconds?|s|secs?|seconds?)\b"
PER = r"\s*(?:/|per|an?|each|every)\s*"
TOKENS = r"\s*-?(?:tokens?|toks?|t)\b"
SPENT = (
    "(?:"
    + "|".join(
        f"(?<={figure} {word} )"
        for figure in (
            "cost",
            "price",
            "energy",
            "electricity",
            "emissions",
            "carbon",
            "co2",
            "water",
        )
        for word in ("of", "for")
    )
    + ")"
)
"""Before tokens that are an amount to pay for: of what is spent so many are no length."""
GPU_NAME = MASKS["accelerator"] + "+"
USD = (
    r"(?:\$\s*(?P<n>\d+(?:\.\d+)?)(?!\.?\d)(?:\s*(?P<m>k|mn|m|bn|b|thousand|million|billion)\b)?"
    r"|(?P<n2>\d+(?:\.\d+)?)\s*(?:usd|dollars?|bucks|\$))"
)
LIMIT = (
    r"(?:(?:for|at|costs?|rents? for|available for|is|are) )?(?:<=?|\b(?:under|below|within|less than|lower than"
    r"|cheaper than|at most|no more than|not more than|up to|max(?:imum)?(?: of)?|limit of|budget of))\s*"
)
"""Words that make a price a limit of one."""
TARIFF = (
    r"(?:\b(?:electricity|power|energy)\s*(?:prices?|costs?|rates?|tariffs?)?"
    r"\s*(?:is|are|at|of|=|:)?\s*(?:only|just|about|around)?\s*)?"
)
TTFT = r"(?:ttft|time[ -]to[ -]first[ -]token|first[ -]token(?: latency| time)?)"
TPOT = r"(?:tpot|itl|time per output token|inter[ -]token latency|time between tokens)"
SPEED = r"(?:(?:tok|toks|tokens?|t)\s*(?:/|per|a)\s*(?:s|sec|second)|tps)\b"
EACH = r"\s*(?:(?:/|per|for each|for every|for a|each|a)\s*)(?:user|request|stream|customer|person|client|session)?\b"
NOT_A_RATE = r"(?!\s*(?:/|per|an? )\s*(?:s|sec|second|min|minute|h|hour|day|week|month)\b)"
LOAD = r"(?:utili[sz]ation|utili[sz]ed|load factor|occupancy|\bload)"


_POINTED: Final = re.compile(r"[1-9]\d{0,2}\.\d{3}")
"""Thousands with a point, where a number has no decimals."""


def number(match: re.Match[str]) -> float:
    """The number of a match, in digits or as a word, with its magnitude."""
    groups = match.groupdict()
    text = groups.get("n") or groups.get("n2") or "1"
    value = float(_COUNT_WORDS.get(text, 0) or text)
    return value * _MAGNITUDES[groups.get("m") or groups.get("w") or ""]


def tokens(match: re.Match[str]) -> int:
    """A number of tokens or GPUs, in which 32k is 32,768: k after a power of two is 1,024."""
    value, groups = number(match), match.groupdict()
    bare = float(_COUNT_WORDS.get(groups["n"], 0) or groups["n"])
    if groups.get("m") == "k" and bare.is_integer() and bin(int(bare)).count("1") == 1:
        return int(bare) * 1024
    if not groups.get("m") and _POINTED.fullmatch(groups["n"]):
        return round(1000 * value)
    if abs(value - round(value)) > _WHOLE:
        raise InputError(
            f'"{match[0].strip()}": expected a whole number, got {value:g}', "say a whole number"
        )
    return round(value)


def dollars(match: re.Match[str]) -> float:
    """A price in whole dollars, in which 30.000 is 30,000."""
    groups = match.groupdict()
    text = groups.get("n") or groups.get("n2") or ""
    return number(match) * (1000 if not groups.get("m") and _POINTED.fullmatch(text) else 1)


_RATES_OF_BYTES: Final = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def byte_rate(match: re.Match[str]) -> float:
    """Bytes per second, from bytes or bits."""
    bits = match["b"] in ("bit", "bits", "bps")
    return float(match["n"]) * _RATES_OF_BYTES[match["m"]] / (8 if bits else 1)


def seconds(match: re.Match[str]) -> float:
    """A time in seconds."""
    return number(match) * _SECONDS[match["u"]]


def days(match: re.Match[str]) -> float:
    """A time in days."""
    return number(match) * _DAYS[match["u"].removesuffix("s").replace("hr", "hour")]


def period(match: re.Match[str]) -> float:
    """The days of a period that a figure is wanted for."""
    groups = match.groupdict()
    return _DAYS[
        {"dai": "day", "annual": "year"}.get(groups["v"], groups["v"]) or groups["u"] or "year"
    ]


def per_day(match: re.Match[str]) -> float:
    """A number by the day, from one by another time."""
    return number(match) / _DAYS[match["u"]]


def samples(match: re.Match[str]) -> float:
    """The tokens of so many samples of a length."""
    return number(match) * float(match["each"]) * (1000 if match["each_m"] else 1)


def percentile(match: re.Match[str]) -> str:
    """A percentile by its short name."""
    return "p" + (re.search(r"\d\d", match[0]) or ["50"])[0]


def rate(match: re.Match[str]) -> float:
    """A rate per second."""
    return number(match) / _RATES[match.groupdict().get("u") or "s"]


def share(match: re.Match[str]) -> float:
    """A percentage as a share."""
    return number(match) / 100


def cents(match: re.Match[str]) -> float:
    """Cents in dollars."""
    return number(match) / 100


def per_hour(match: re.Match[str]) -> float:
    """Dollars by the hour, from those by the day, the week, the month or the year."""
    return number(match) / (24 * _DAYS[match["u"].removesuffix("ly").replace("dai", "day")])


def english_words(match: re.Match[str]) -> int:
    """Tokens of so many words of English text."""
    return round(number(match) / WORDS_OF_A_TOKEN)


def kilowatt_hours(match: re.Match[str]) -> float:
    """Energy in kWh."""
    return number(match) * {"": 1e-3, "k": 1.0, "m": 1e3, "g": 1e6}[match["e"] or ""]


def kilowatts(match: re.Match[str]) -> float:
    """Power in kW."""
    return number(match) * {"k": 1.0, "m": 1e3, "g": 1e6}[match["e"]]


def flop_rate(match: re.Match[str]) -> float:
    """A rate in FLOP/s."""
    return number(match) * {"t": 1e12, "p": 1e15}[match["e"]]


def kelvin(match: re.Match[str]) -> float:
    """A temperature in kelvins, from one in kelvins or degrees Celsius."""
    return number(match) + (0.0 if match["t"].startswith("k") else 273.15)


def thousandth(match: re.Match[str]) -> float:
    """What is stated by the MWh, by the kWh."""
    return number(match) / 1000


def inverse(match: re.Match[str]) -> float:
    """The time of one, from how many there are in a second."""
    return 1 / number(match)


UP = r"(?:rises?|rose|increases?|goes? up|go up|went up|up|grows?|climbs?|\+|plus|jumps?|surges?)"
DOWN = r"(?:falls?|drops?|decreases?|goes? down|go down|down|-|minus|sinks?|shrinks?|cut)"
_FALLS: Final = re.compile(DOWN + r"|cheaper|lower|less")


def factor(match: re.Match[str]) -> float:
    """What a change multiplies by."""
    text = match[0]
    if re.search(r"doubl|twice", text):
        return 2.0
    if re.search(r"tripl", text):
        return 3.0
    if re.search(r"hal[fv]", text):
        return 0.5
    share = number(match) / 100
    down = _FALLS.search(text)
    return 1 - share if down else 1 + share


def constant(value: Any) -> Convert:
    """A value that the words of a pattern mean, whatever they are."""
    return lambda match: value


def weight_format(match: re.Match[str]) -> str:
    """A format of numbers by the name that the catalog has for it."""
    text = re.sub(r"[\s-]", "", match["f"])
    return {
        "bfloat16": "bf16", "fp16": "f16", "float16": "f16", "16bit": "bf16", "8bit": "fp8", "fp4": "nvfp4",
        "4bit": "int4", "awq": "int4", "gptq": "int4", "w4a16": "int4", "fp32": "f32", "w8a8": "int8",
        "16bits": "bf16", "8bits": "fp8", "4bits": "int4", "q8": "q8_0", "halfprecision": "bf16",
    }.get(text, text)  # fmt: skip


def block_format(match: re.Match[str]) -> str:
    """A format of GGUF files: Q4 and Q4_K are Q4_K_M, as llama.cpp takes them."""
    from assay.planner import gguf_mixes

    text = match["f"].replace("-", "_")
    return gguf_mixes.canonical(text) or text


FORMAT = (
    r"(?P<f>bf16|bfloat16|fp16|float16|fp32|fp8|int8|int4|nvfp4|mxfp4|fp4|awq|gptq|w4a16|w8a8"
    r"|(?:4|8|16)[ -]?bits?|half[ -]precision)"
)
BLOCK_FORMAT = (
    r"(?P<f>i?q[2-8](?:[_-](?:[01]|k(?:[_-][sml])?|xx?s|nl))?)\b(?:\s*(?:gguf|quants?|quantized))?"
)
