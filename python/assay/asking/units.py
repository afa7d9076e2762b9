"""The unit that a question asks for, such as "in GiB" or "how many tons": the answer is given in it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

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
    "ms": "ms", "millisecond": "ms", "second": "s", "minute": "min", "hour": "h", "day": "day",
}  # fmt: skip
"""Units by the words for them; a ton of a question is a metric one."""
_ASKED: Final = re.compile(rf"\b(?:in|how many) (?P<unit>{'|'.join(_UNITS)})s?\b(?!\s*(?:/|per\b))")
_TAKEN_FROM: Final = re.compile(r"/(?:GPU|node|request)$")


def asked_unit(reading: Reading) -> str:
    """The word of the unit that the question asks for, or nothing."""
    match = _ASKED.search(reading.rest)
    return match["unit"] if match else ""


def in_asked_unit(outcome: Outcome, reading: Reading) -> Outcome:
    """The answer in the unit that the question asks for, its interval too."""
    word = asked_unit(reading)
    value, shown = outcome.number
    if not word or value is None or outcome.verdict or outcome.choice:
        return outcome
    name = _UNITS[word]
    tokens = reading.get("per_tokens")
    if tokens and outcome.value is None and shown.endswith("/token"):
        # So many Wh for each thousand tokens: of the tokens, as asked for.
        value, shown = value * tokens, shown.removesuffix("/token")
        outcome = replace(outcome, value=value, unit=shown)
    wanted, given = parse_unit(name), parse_unit(_TAKEN_FROM.sub("", shown))
    if wanted.powers != given.powers:
        if outcome.value is not None:
            # A figure of the question's own making, such as interruptions in some days.
            return outcome
        raise InputError(f"{name}: the answer is {outcome.result.text}", "leave the unit out")
    if wanted == given:
        return outcome
    digits = 4 if outcome.result.lo is None else 3
    text = f"{_rounded(_converted(value, given, wanted), digits)} {name} ({outcome.text})"
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


def _rounded(value: float, digits: int) -> str:
    return f"{float(f'{value:.{digits}g}'):,.10g}"
