"""Numbers with units, read from text and printed for people."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from assay.errors import InputError, UnitError
from assay.model.language.units import DIMENSIONLESS, Unit, parse_unit

_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = re.compile(
    rf"\s*([+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?\d+)?)\s*(.*)$", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in base units, with the unit it was given in."""

    value: float
    unit: Unit

    def __str__(self) -> str:
        return format_quantity(self.value, self.unit)


def parse_quantity(text: str, *, difference: bool = False) -> Quantity:
    """Read a number and its unit; a `difference` ignores the zero point of degC.

    >>> parse_quantity("0.08 USD/kWh").value
    2.2222222222222224e-08
    >>> parse_quantity("80 GB").value
    80000000000.0
    """
    match = _NUMBER.match(text)
    if not match:
        raise InputError(
            f'malformed value "{text.strip()}": expected a finite number, then a unit',
            'write for example "80 GB"',
        )
    digits, unit_text = match.groups()
    if unit_text.startswith(","):
        raise InputError(
            f'malformed value "{text.strip()}": commas do not group digits here',
            "write 1_000_000 or 1e6",
        )
    unit = parse_unit(unit_text)
    if difference:
        unit = unit.without_offset()
    value = unit.to_coherent(float(digits))
    if not math.isfinite(value):
        raise InputError(f'value "{text.strip()}" is too large: expected a finite number')
    return Quantity(value, unit)


def as_difference(quantity: Quantity) -> Quantity:
    """The quantity as a difference: 10 degC is 10 K, since both ends have the same zero point.

    >>> round(as_difference(parse_quantity("10 degC")).value, 9)
    10.0
    """
    unit = quantity.unit
    if not unit.offset:
        return quantity
    return Quantity(unit.from_coherent(quantity.value) * float(unit.scale), unit.without_offset())


def check_dimension(what: str, unit: Unit, expected: Unit, number: str = "1") -> None:
    """Refuse a unit of another kind than expected, naming both and the nearest mistake.

    `number` is what stands before the unit, for the example of a hint.
    """
    if unit.same_dimension(expected):
        return
    if unit.is_dimensionless and unit.is_coherent:
        raise UnitError(
            f"{what} has no unit: expected one of the dimension of {expected}",
            f'write for example {what}="{number} {expected}"',
        )
    hint = None
    for counted in ("GPU", "node", "token", "request"):
        per, times = parse_unit(f"1/{counted}"), parse_unit(counted)
        if (unit * per).same_dimension(expected):
            hint = f"{what} is per {counted}: write {unit}/{counted}"
        elif (unit * times).same_dimension(expected):
            hint = f"{what} is in {expected}: write {unit}*{counted}"
    raise UnitError(f"unit mismatch in {what}: expected {expected}, got {unit}", hint)


def format_number(value: float) -> str:
    """Up to nine significant digits; whole numbers in full while they stay readable."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.9g}"


def format_quantity(value: float, unit: Unit) -> str:
    """Print a value given in base units in `unit`.

    >>> format_quantity(3.6e6, parse_unit("kWh"))
    '1 kWh'
    """
    text = format_number(unit.from_coherent(value))
    if unit.text == "%":
        return f"{text} %"
    return text if unit.text == DIMENSIONLESS.text else f"{text} {unit.text}"
