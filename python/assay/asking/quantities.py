"""Numbers in a question: a table of patterns with the field's unit words, each for one slot.

A pattern is tried on the masked text in the order of the table, and what it matches is taken. A new
kind of number is one entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from assay.asking.text import MASKS

Convert = Callable[[re.Match[str]], Any]

_MAGNITUDES: Final = {
    "": 1.0, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9,
    "billion": 1e9, "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip
_COUNTED: Final = {
    "a": 1, "an": 1, "one": 1, "single": 1, "a single": 1, "two": 2, "three": 3, "four": 4,
    "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16,
    "hundred": 100, "a hundred": 100, "a thousand": 1000, "a couple of": 2, "half a": 0.5,
}  # fmt: skip
_SECONDS: Final = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0,
    "second": 1.0, "seconds": 1.0,
}  # fmt: skip
_DAYS: Final = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.0, "year": 365.0, "night": 0.5}
_RATES: Final = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
                 "hour": 3600.0, "day": 86400.0}  # fmt: skip

_N = r"(?<![\w.])(?P<n>\d+(?:\.\d+)?(?:e\+?\d+)?)"
_K = _N + r"\s*(?P<m>k|thousand)?"
_M = _N + r"\s*(?P<m>k|mn|m|bn|b|tn|t|thousand|million|billion|trillion)?"
_NUMBERED = (
    r"(?P<n>\d+(?:\.\d+)?|"
    + "|".join(w for w in sorted(_COUNTED, key=len, reverse=True) if w not in ("a", "an"))
    + r")(?P<m>k)?"
)
_COUNT = r"(?P<n>\d+(?:\.\d+)?|" + "|".join(sorted(_COUNTED, key=len, reverse=True)) + r")(?P<m>k)?"
_IS = (
    r"\s*(?:length|size|rate)?"
    r"\s*(?:of|is|at|=|:|to|with|goes to|rises to|falls to|drops to|becomes)?"
    r"\s*(?:only|just|about|around)?\s*"
)
_WITHIN = (
    r"\s*(?:latency)?\s*(?:has to|must|should|to)?\s*(?:be|is|stays?|stay)?"
    r"\s*(?:<=?|under|below|within|less than|at most|no more than|up to|max(?:imum)?|limit|slo|of|=|:)?"
    r"\s*(?:of)?\s*"
)
_TIME = r"(?P<u>ms|milliseconds?|s|secs?|seconds?)\b"
_PER = r"\s*(?:/|per|an?|each|every)\s*"
_TOK = r"\s*-?(?:tokens?|toks?|t)\b"
_GPU_NAME = MASKS["accelerator"] + "+"
_USD = r"(?:\$\s*(?P<n>\d+(?:\.\d+)?)\s*(?P<m>k|m)?|(?P<n2>\d+(?:\.\d+)?)\s*(?:usd|dollars?|bucks))"
_TTFT = r"(?:ttft|time[ -]to[ -]first[ -]token|first[ -]token(?: latency| time)?)"
_TPOT = r"(?:tpot|itl|time per output token|inter[ -]token latency|time between tokens)"
_SPEED = r"(?:(?:tok|toks|tokens?|t)\s*(?:/|per|a)\s*(?:s|sec|second)|tps)\b"
_EACH = r"\s*(?:(?:/|per|for each|for every|for a|each|a)\s*)(?:user|request|stream|customer|person|client|session)?\b"
_LOAD = r"(?:utili[sz]ation|utili[sz]ed|load factor|occupancy)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A slot, what its numbers look like, and what a match means."""

    slot: str
    expression: re.Pattern[str]
    convert: Convert


def _number(match: re.Match[str]) -> float:
    groups = match.groupdict()
    text = groups.get("n") or groups.get("n2") or "1"
    value = float(_COUNTED.get(text, 0) or text)
    return value * _MAGNITUDES[groups.get("m") or ""]


def _tokens(match: re.Match[str]) -> int:
    """A number of tokens or GPUs, in which 32k is 32,768: k after a power of two is 1,024."""
    value, groups = _number(match), match.groupdict()
    bare = float(_COUNTED.get(groups["n"], 0) or groups["n"])
    if groups.get("m") == "k" and bare.is_integer() and bin(int(bare)).count("1") == 1:
        return int(bare) * 1024
    return round(value)


def _seconds(match: re.Match[str]) -> float:
    return _number(match) * _SECONDS[match["u"]]


def _days(match: re.Match[str]) -> float:
    return _number(match) * _DAYS[match["u"].removesuffix("s")]


def _rate(match: re.Match[str]) -> float:
    return _number(match) / _RATES[match.groupdict().get("u") or "s"]


def _share(match: re.Match[str]) -> float:
    return _number(match) / 100


def _cents(match: re.Match[str]) -> float:
    return _number(match) / 100


def _inverse(match: re.Match[str]) -> float:
    return 1 / _number(match)


def _text(match: re.Match[str]) -> str:
    return match[0].strip()


_UP = r"(?:rises?|rose|increases?|goes? up|go up|went up|up|grows?|climbs?|\+|plus|jumps?|surges?)"
_DOWN = r"(?:falls?|drops?|decreases?|goes? down|go down|down|-|minus|sinks?|shrinks?|cut)"
_FALLS: Final = re.compile(_DOWN + r"|cheaper|lower|less")


def _factor(match: re.Match[str]) -> float:
    text = match[0]
    if re.search(r"doubl|twice", text):
        return 2.0
    if re.search(r"tripl", text):
        return 3.0
    if re.search(r"hal[fv]", text):
        return 0.5
    share = _number(match) / 100
    down = _FALLS.search(text)
    return 1 - share if down else 1 + share


def _is(value: Any) -> Convert:
    return lambda match: value


def _format(match: re.Match[str]) -> str:
    text = re.sub(r"[\s-]", "", match["f"])
    return {
        "bfloat16": "bf16", "fp16": "f16", "float16": "f16", "16bit": "bf16", "8bit": "fp8", "fp4": "nvfp4",
        "4bit": "int4", "awq": "int4", "gptq": "int4", "w4a16": "int4", "fp32": "f32", "w8a8": "int8",
    }.get(text, text)  # fmt: skip


_FORMAT = (
    r"(?P<f>bf16|bfloat16|fp16|float16|fp32|fp8|int8|int4|nvfp4|mxfp4|fp4|awq|gptq|w4a16|w8a8"
    r"|(?:4|8|16)[ -]?bits?)"
)

_TABLE: Final[tuple[tuple[str, str, Convert], ...]] = (
    # What is paid.
    ("electricity_price", _USD + _PER + r"kwh", _number),
    ("electricity_price", _N + r"\s*(?:cents?|ct|c)" + _PER + r"kwh", _cents),
    (
        "rent",
        _USD
        + _PER
        + r"(?:gpu[- ]?)?(?:h|hr|hour)\b(?:"
        + _PER
        + r"(?:gpu|card|"
        + _GPU_NAME
        + r"))?",
        _number,
    ),
    ("rent", _USD + _PER + r"(?:gpu|card|" + _GPU_NAME + r")" + _PER + r"(?:h|hr|hour)\b", _number),
    (
        "gpu_price",
        r"(?:gpu|card|"
        + _GPU_NAME
        + r")\s*(?:price|costs?)"
        + _IS
        + _USD
        + r"(?!\s*/)(?:"
        + _PER
        + r"(?:gpu|card))?",
        _number,
    ),
    ("gpu_price", _USD + _PER + r"(?:gpu|card|piece)\b", _number),
    # Service levels and speeds.
    ("ttft_limit", _TTFT + _WITHIN + _N + r"\s*" + _TIME, _seconds),
    (
        "ttft_limit",
        r"(?:(?:<=?|under|below|within|less than)\s*)?"
        + _N
        + r"\s*"
        + _TIME
        + r"\s*(?:for |of )?(?:the )?"
        + _TTFT,
        _seconds,
    ),
    ("tpot_limit", _TPOT + _WITHIN + _N + r"\s*" + _TIME, _seconds),
    (
        "tpot_limit",
        r"(?:(?:<=?|under|below|within|less than)\s*)?"
        + _N
        + r"\s*"
        + _TIME
        + r"\s*(?:for |of )?(?:the )?"
        + _TPOT,
        _seconds,
    ),
    ("tpot_limit", _N + r"\s*" + _SPEED + _EACH, _inverse),
    ("speed", _M + r"\s*" + _SPEED, _number),
    (
        "rate",
        _M
        + r"\s*(?:requests?|reqs?|queries|calls|prompts)"
        + _PER
        + r"(?P<u>sec(?:ond)?|s|min(?:ute)?|hour|h|day)\b",
        _rate,
    ),
    ("rate", _M + r"\s*(?:rps|qps|rq/s)\b", _rate),
    # Lengths.
    (
        "tokens",
        r"(?P<n>\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(?P<m>mn|m|bn|b|tn|t|million|billion|trillion)\s*(?:training )?tokens?",
        _number,
    ),
    ("tokens", r"(?P<n>\d+(?:\.\d+)?)\s*(?P<m>t|trillion|tn)\b", _number),
    ("tokens", r"(?P<n>\d+(?:\.\d+)?e\+?\d+|\d{7,})\s*(?:training )?tokens?", _number),
    (
        "prefix_hits",
        r"(?:prefix|cache)(?:[ -]cach\w+)?(?:[ -]hits?)?(?:[ -]rate)?" + _IS + _N + r"\s*%",
        _share,
    ),
    (
        "prefix_hits",
        _N + r"\s*%\s*(?:of )?(?:the )?(?:prefix|cache)(?:[ -]cach\w*)?(?:[ -]hits?)?(?:[ -]rate)?",
        _share,
    ),
    (
        "prompt",
        _K
        + r"(?:"
        + _TOK
        + r")?\s*-?\s*(?:prompts?|inputs?|isl|(?:tokens? )?in(?=\s*(?:,|/|and|\d|$)))(?:\s*tokens?)?",
        _tokens,
    ),
    (
        "prompt",
        r"(?:prompts?|inputs?|isl)(?:\s*tokens?)?" + _IS + _K + r"(?:" + _TOK + r")?",
        _tokens,
    ),
    (
        "output",
        _K
        + r"(?:"
        + _TOK
        + r")?\s*-?\s*(?:outputs?|completions?|answers?|generated|osl|(?:tokens? )?out)\b(?:\s*tokens?)?",
        _tokens,
    ),
    ("output", r"(?<=generate )" + _K + _TOK, _tokens),
    ("output", r"(?<=generating )" + _K + _TOK, _tokens),
    (
        "output",
        r"(?:outputs?|osl|answers?|completions?)(?:\s*tokens?)?" + _IS + _K + r"(?:" + _TOK + r")?",
        _tokens,
    ),
    (
        "context",
        _K
        + r"(?:"
        + _TOK
        + r")?\s*-?\s*(?:of )?(?:context|ctx|sequence)(?:[ -](?:length|window|len|size))?",
        _tokens,
    ),
    (
        "context",
        r"(?:context|ctx|sequence|seq)(?:[ -](?:length|window|len))?"
        + _IS
        + _K
        + r"(?:"
        + _TOK
        + r")?",
        _tokens,
    ),
    (
        "context",
        _K + r"\s*-\s*token(?=\s*(?:conversations?|sequences?|requests?|chats?|sessions?))",
        _tokens,
    ),
    ("context", r"\b(?:with|of|for)\s+(?P<n>\d+)\s*(?P<m>k)\s*tokens\b", _tokens),
    ("context", r"\bat\s+(?P<n>\d+)\s*(?P<m>k)\b(?:" + _TOK + r")?", _tokens),
    # How many.
    ("tensor", r"(?:tp|tensor[ -]parallel(?:ism)?(?: size| degree)?)" + _IS + _N, _tokens),
    (
        "per_replica",
        r"(?<=" + MASKS["accelerator"] + r")s?\s+(?:each|per (?:replica|instance|copy))",
        _is(True),
    ),
    (
        "gpus",
        r"(?<![\w.])"
        + _NUMBERED
        + r"\s*(?:x\s*)?(?:of (?:the )?)?(?:gpus?\b|-gpu\b|(?="
        + _GPU_NAME
        + r"))(?!\s*(?:hours?|hrs?|price))",
        _tokens,
    ),
    ("gpus", r"(?<=" + MASKS["accelerator"] + r")s?\s*x\s*(?P<n>\d+)\b", _tokens),
    (
        "nodes",
        r"(?<![\w.])"
        + _NUMBERED
        + r"\s*(?:x\s*)?(?:nodes?|servers?|machines|boxes|(?="
        + MASKS["node"]
        + r"))",
        _tokens,
    ),
    (
        "concurrency",
        r"(?<![\w.])(?<!per )(?:at |with )?"
        + _NUMBERED
        + r"\s*(?:concurrent|simultaneous|parallel|active|running)?"
        + r"\s*(?:users?|sessions?|conversations?|streams?|chats?|clients?|customers|people)\b",
        _tokens,
    ),
    (
        "concurrency",
        r"(?<![\w.])(?<!per )(?:at |with )?(?P<n>\d+)(?P<m>k)?"
        r"\s*(?:concurrent|simultaneous|parallel|active|running)?\s*requests?\b"
        r"(?!\s*(?:/|per|a )\s*(?:s|sec|second|min|hour|day))",
        _tokens,
    ),
    ("concurrency", r"(?:batch(?:[ -]size)?|concurrency|bs)" + _IS + _N, _tokens),
    (
        "days",
        r"(?:in|within|for|over|under|during|after|by)?\s*(?<![\w.])"
        + _COUNT
        + r"\s*(?P<u>hours?|days?|weeks?|months?|years?|night)\b",
        _days,
    ),
    # How well.
    ("load", _LOAD + _IS + _N + r"\s*%", _share),
    ("load", _N + r"\s*%\s*(?:of )?(?:" + _LOAD + r"|load|busy|used|of the time)", _share),
    ("pue", r"pue" + _IS + _N, _number),
    (
        "percentile",
        r"\bp(?:50|90|99)\b|median|(?:50|90|99)th percentile",
        lambda m: "p" + (re.search(r"\d\d", m[0]) or ["50"])[0],
    ),
    (
        "factor",
        r"(?:doubles?|doubled|twice|triples?|tripled|halves?|halved)\b(?:\s*as (?:high|much|expensive))?",
        _factor,
    ),
    ("factor", r"(?:(?:" + _UP + "|" + _DOWN + r")\s*(?:by)?)\s*" + _N + r"\s*%", _factor),
    ("factor", _N + r"\s*%\s*(?:cheaper|lower|less|more expensive|more|higher|dearer)", _factor),
    # Formats.
    ("kv_format", _FORMAT + r"\s*kv(?:[ -]?cache)?", _format),
    ("kv_format", r"kv(?:[ -]?cache)?\s*(?:in|of|at|as)\s*" + _FORMAT, _format),
    (
        "native",
        r"(?:in )?(?:its|their|the)?\s*(?:checkpoint\s*)?(?:own|native|published|original)"
        r"\s*(?:format|precision|quantization)",
        _is(True),
    ),
    (
        "format",
        r"(?<![\w.])" + _FORMAT + r"\b(?:\s*(?:weights|precision|quantized|quantization))?",
        _format,
    ),
    # How it is paid for.
    (
        "offer",
        r"\b(?:spot|pre-?emptible|interruptible)(?: (?:instances?|prices?|market|gpus))?\b",
        _is("spot"),
    ),
    (
        "offer",
        r"\b(?:reserved|committed|reservations?)(?: (?:instances?|prices?|capacity))?\b",
        _is("reserved"),
    ),
    ("offer", r"\bon[ -]demand(?: (?:instances?|prices?))?\b", _is("on-demand")),
    (
        "finance",
        r"\b(?:buy|buying|bought|own|owned|owning|purchase|purchased|purchasing|on[ -]prem(?:ises)?)\b",
        _is("buy"),
    ),
    ("finance", r"\b(?:rent|rented|renting|rental|leas(?:e|ed|ing)|in the cloud)\b", _is("rent")),
    ("tuning", r"\b(?:q?lora)\b(?:\s*adapters?)?(?:\s*fine[ -]?tun(?:e|ed|es|ing))?", _is("lora")),
    ("tuning", r"\bfine[ -]?tun(?:e|ed|es|ing)\b[^,.]{0,60}?\bwith q?lora\b", _is("lora")),
    ("tuning", r"\b(?:full )?fine[ -]?tun(?:e|ed|es|ing)\b|\bsft\b", _is("full")),
)

PATTERNS: Final = tuple(
    Pattern(slot, re.compile(expression), convert) for slot, expression, convert in _TABLE
)
