"""The unit that a question asks for, such as "in GiB" or "how many tons": the answer is given in it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.errors import InputError
from assay.model.language.units import Unit, parse_unit

_UNITS: Final = {
    "gib": "GiB", "mib": "MiB", "tib": "TiB", "kib": "KiB", "gb": "GB", "mb": "MB", "tb": "TB",
    "gigabyte": "GB", "gig": "GB", "terabyte": "TB", "megabyte": "MB", "kilobyte": "kB",
    "kb": "kB", "wh": "Wh", "kwh": "kWh", "mwh": "MWh", "gwh": "GWh", "joule": "J", "ton": "t",
    "tonne": "t", "kg": "kg", "kilogram": "kg", "gram": "g", "kw": "kW", "mw": "MW", "watt": "W", "kilowatt": "kW",
    "megawatt": "MW",
    "tb/s": "TB/s", "gb/s": "GB/s", "gbit/s": "Gbit/s", "btu": "BTU/h",
    "ms": "ms", "millisecond": "ms", "microsecond": "us", "second": "s", "minute": "min", "hour": "h", "day": "day",
}  # fmt: skip
"""Units by the words for them; a ton of a question is a metric one."""
_ASKED: Final = re.compile(
    rf"(?:^|\b(?:in|how many) )(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})s?\b(?!\s*(?:/|per\b))"
)
_TAKEN_FROM: Final = re.compile(r"/(?:GPU|node|request)$")
_OF_ONE: Final = re.compile(r"/(?:token|kWh)$")
_BTU: Final = 3.412141633
"""British thermal units by the hour of a watt: 3,600 J over 1,055.056 (International Table BTU)."""


def asked_unit(reading: Reading) -> str:
    """The word of the unit that the question asks for, or nothing."""
    match = _ASKED.search(reading.rest)
    return match["unit"] if match else ""


def _in_btu(outcome: Outcome, value: float, shown: str) -> Outcome:
    """A power in British thermal units by the hour, which no unit of the graph is."""
    given = parse_unit(_TAKEN_FROM.sub("", shown))
    if given.powers != parse_unit("W").powers:
        raise InputError(f"BTU: the answer is {outcome.result.text}", "leave the unit out")
    whole = value * float(given.scale) * _BTU
    text = f"{rounded(whole, 4)} BTU/h ({outcome.text})"
    return replace(outcome, text=text, value=whole, unit="BTU/h")


def in_asked_unit(outcome: Outcome, reading: Reading) -> Outcome:
    """The answer in the unit that the question asks for, its interval too."""
    word = asked_unit(reading)
    value, shown = outcome.number
    if not word or value is None or outcome.verdict or outcome.choice:
        return outcome
    name = _UNITS[word]
    if outcome.written is not None and outcome.written[1] == name:
        return outcome
    outcome = replace(outcome, written=None)
    if word == "btu":
        return _in_btu(outcome, value, shown)
    tokens = reading.get("per_tokens")
    if tokens and outcome.value is None and shown.endswith("/token"):
        # So many Wh for each thousand tokens: of the tokens, as asked for.
        value, shown = value * tokens, shown.removesuffix("/token")
        outcome = replace(outcome, value=value, unit=shown)
    wanted = parse_unit(name)
    shown = _TAKEN_FROM.sub("", shown.replace("/(s*GPU)", "/s"))
    given = parse_unit(shown)
    if wanted.powers != given.powers and outcome.value is None:
        # So many kB of each token, or kg of each kWh.
        given = parse_unit(_OF_ONE.sub("", shown))
    if wanted.powers != given.powers:
        if outcome.value is not None:
            # A figure of the question's own making, such as interruptions in some days.
            return outcome
        raise InputError(f"{name}: the answer is {outcome.result.text}", "leave the unit out")
    if wanted == given:
        return outcome
    digits = 4 if outcome.result.lo is None else 3
    text = f"{rounded(_converted(value, given, wanted), digits)} {name} ({outcome.text})"
    if outcome.value is not None:
        return replace(outcome, text=text, value=_converted(value, given, wanted), unit=name)
    result = outcome.result
    lo, hi = (
        None if end is None else _converted(end, given, wanted) for end in (result.lo, result.hi)
    )
    value = _converted(value, given, wanted)
    return replace(outcome, text=text, result=replace(result, value=value, unit=name, lo=lo, hi=hi))


def _converted(value: float, given: Unit, wanted: Unit) -> float:
    return value * float(given.scale / wanted.scale)
