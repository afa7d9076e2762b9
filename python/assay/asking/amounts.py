"""Amounts that answers compute from a figure, as people write them: $11,310, 0.28 Wh, 45 min."""

from __future__ import annotations

import math
import re
from typing import Final

from assay.model.language.figures import FigureText, figure
from assay.model.language.units import parse_unit

_LONG: Final = re.compile(r"(?<![\d.])\d{5,}|(?<=\$)\d{4,}")
_COUNTED: Final = re.compile(r"(?<![\w.])\d(?:\.\d+)?e\+?(?:0?\d|1[0-4])\b")
"""Numbers below 1e15 with an exponent: those that people write out."""
_SMALL_ENERGY: Final = 0.1
"""Kilowatt-hours below which an energy is written in watt-hours, whatever its size."""


def amount(value: float, unit: str, *ends: float) -> str:
    """A value in a unit of handy size, with its thousands apart; with as many digits as its interval has.

    >>> amount(11310.47, "USD"), amount(0.00028, "kWh")
    ('$11,310', '0.28 Wh')
    """
    if unit == "kWh" and value < _SMALL_ENERGY:
        return f"{1e3 * value:.4g} Wh"
    return with_thousands(_figure(value, unit, *ends).text)


def interval(value: float, unit: str, lower: float | None, upper: float | None) -> str:
    """Both ends of an interval in the unit that the value is written in; nothing where they are one.

    >>> interval(45.0, "min", 33.0, 64.0)
    '33 to 64 min'
    """
    if lower is None or upper is None:
        return ""
    if unit == "kWh" and value < _SMALL_ENERGY:
        return f"{1e3 * lower:.2g} to {1e3 * upper:.2g} Wh"
    shown = _figure(value, unit, lower, upper)
    if not shown.lower or shown.lower == shown.upper:
        return ""
    return with_thousands(f"{shown.sign}{shown.lower} to {shown.sign}{shown.upper}{shown.unit}")


def with_thousands(text: str) -> str:
    """The text with commas in its long numbers, and without exponents of numbers that people count.

    >>> with_thousands("$860000"), with_thousands("1.302e+10 weights")
    ('$860,000', '13,020,000,000 weights')
    """
    text = _COUNTED.sub(lambda match: f"{float(match[0]):.0f}", text)
    return _LONG.sub(lambda match: f"{int(match[0]):,}", text)


def rounded(value: float, digits: int = 4) -> str:
    """A number of some digits, with its thousands apart.

    >>> rounded(12345.6)
    '12,350'
    """
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def _figure(value: float, unit: str, *ends: float) -> FigureText:
    parsed = parse_unit(unit)
    scale = float(parsed.scale)
    if not math.isfinite(value):
        return FigureText("no value", "", "", "", "")
    return figure(value * scale, parsed, *(end * scale for end in ends))
