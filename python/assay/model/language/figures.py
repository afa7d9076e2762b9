"""Values as people read them: few digits, in a unit of handy size.

An interval decides the digits: two significant ones of its width, so that what is printed is what is
known. Without an interval four significant digits are printed. A value keeps its variable's display
unit while it is between a tenth and ten thousand there; else another prefix, or another unit of
time, is chosen. Exact values are in `--json`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from assay.model.language.unit_table import BINARY, DECIMAL, DEFINITIONS, PREFIXED_BASES
from assay.model.language.units import Unit, parse_unit

_SMALLEST: Final = 0.1
_LARGEST: Final = 10_000.0
_DIGITS: Final = 4
"""Significant digits of a value without an interval."""

_ROUNDING: Final = 1e-12
"""Relative width of an interval that says nothing but how sums were rounded."""

_MOST_WHOLE: Final = 1e7
"""Whole numbers below this are printed in full."""

_TIMES: Final = ("ps", "ns", "us", "ms", "s", "min", "h", "day", "year")
_MASSES: Final = ("ug", "mg", "g", "kg", "t", "kt", "Mt")
_THOUSANDS: Final = ("p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Z")
_BYTES: Final = ("", "k", "M", "G", "T", "P", "E")
_NEVER: Final = ("USD", "token", "request", "K", "m", "mol", "cd")
"""Units that nobody writes with a prefix in this field."""

_WORDS: Final = {"h": "hour", "d": "day", "yr": "year", "min": "minute"}
_LARGE_SUMS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


class FigureText(NamedTuple):
    """A value and its interval as text; `unit` follows the value, `sign` precedes it."""

    value: str
    lower: str
    upper: str
    sign: str
    unit: str

    @property
    def text(self) -> str:
        """The value with its unit."""
        return f"{self.sign}{self.value}{self.unit}"

    @property
    def interval(self) -> str:
        """The 90 % interval in the same unit; empty for a certain value."""
        return f" (90 %: {self.lower} to {self.upper})" if self.lower else ""


def figure(
    value: float, unit: Unit, lower: float | None = None, upper: float | None = None
) -> FigureText:
    """Print a value in base units for people, in or near a display unit.

    >>> print(*figure(6.03e-8, parse_unit("USD/token"), 5.09e-8, 7.56e-8)[:3])
    0.060 0.051 0.076
    >>> figure(6.03e-8, parse_unit("USD/token"), 5.09e-8, 7.56e-8).text
    '$0.060 per million tokens'
    >>> figure(25e-3, parse_unit("us")).text
    '25 ms'
    >>> figure(700.0, parse_unit("W"), 700.0, 700.0000000000002).text
    '700 W'
    """
    ends = () if lower is None or upper is None or _is_one(lower, upper) else (lower, upper)
    chosen = _Scale.of(value, unit)
    shown = [chosen.convert(number) for number in (value, *ends)]
    # Cents count in plain sums and prices, not in millions of dollars.
    texts = _round(shown, money=bool(chosen.sign) and chosen.factor >= 1)
    low, high = texts[1:] if ends else ("", "")
    return FigureText(texts[0], low, high, chosen.sign, chosen.suffix)


def _is_one(lower: float, upper: float) -> bool:
    """Whether an interval is as narrow as the rounding of what computed it."""
    return math.isclose(lower, upper, rel_tol=_ROUNDING)


def figure_column(values: Sequence[float], unit: Unit) -> tuple[str, list[str]]:
    """A unit that suits the largest of several values, and all of them in it.

    Values that differ keep as many digits as tell them apart, up to nine.

    >>> figure_column([3.000078e-6, 1.75e-6], parse_unit("USD/token"))
    ('USD per million tokens', ['3', '1.75'])
    """
    scale, texts = _alike(values, unit)
    name = f"{'USD' if scale.sign else ''}{scale.suffix}".strip()
    return name or "1", texts


def figure_range(first: float, second: float, unit: Unit) -> str:
    """Two values in one unit, with as many digits as tell them apart.

    >>> figure_range(6.11e-8, 6.42e-8, parse_unit("USD/token"))
    '$0.0611 to $0.0642 per million tokens'
    """
    scale, texts = _alike((first, second), unit)
    return " to ".join(f"{scale.sign}{text}" for text in texts) + scale.suffix


def _alike(values: Sequence[float], unit: Unit) -> tuple[_Scale, list[str]]:
    """The scale that suits the largest value, and all of them in it."""
    finite = [value for value in values if math.isfinite(value)]
    scale = _Scale.of(max(finite, key=abs, default=0.0), unit)
    shown = [scale.convert(value) for value in values]
    # Values that are not finite are all printed as a dash.
    distinct = len({number if math.isfinite(number) else None for number in shown})
    for digits in range(_DIGITS, 10):
        texts = [_significant(number, digits) for number in shown]
        if len(set(texts)) == distinct:
            break
    return scale, texts


def _significant(number: float, digits: int) -> str:
    if not math.isfinite(number):
        return "-"
    if number == int(number) and abs(number) < _MOST_WHOLE:
        return str(int(number))
    return _at(number, _place(number) - (digits - 1), strip=True)


class _Scale(NamedTuple):
    """A unit to print in: a factor on the value in `unit`, and what is written around it."""

    unit: Unit
    factor: float
    sign: str
    suffix: str

    @classmethod
    def of(cls, value: float, unit: Unit) -> _Scale:
        if unit.text == "1":
            return cls(unit, 1.0, "", "")
        if unit.text.split("/")[0] == "USD":
            return _money(value, unit)
        chosen = min(unit_choices(unit), key=lambda other: _awkwardness(value, other, unit))
        return cls(chosen, 1.0, "", f" {chosen.text}")

    def convert(self, value: float) -> float:
        return self.unit.from_coherent(value) * self.factor


def _money(value: float, unit: Unit) -> _Scale:
    per = unit.text.partition("/")[2]
    if per == "token":
        return _Scale(unit, 1e6, "$", " per million tokens")
    if per:
        names = [_WORDS.get(name, name) for name in per.strip("()").split("*")]
        # The thing that is paid for comes first: GPU-hour, not hour-GPU.
        names.sort(key=lambda name: name in _WORDS.values() or name == "month")
        return _Scale(unit, 1.0, "$", f" per {'-'.join(names)}")
    for size, word in _LARGE_SUMS:
        if abs(unit.from_coherent(value)) >= size:
            return _Scale(unit, 1 / size, "$", f" {word}")
    return _Scale(unit, 1.0, "$", "")


def _awkwardness(value: float, other: Unit, own: Unit) -> tuple[bool, float]:
    """The order of preference: the own unit while the value is handy in it, then near 1 to 1000."""
    size = abs(other.from_coherent(value))
    if other == own and (size == 0 or _SMALLEST <= size < _LARGEST):
        return False, 0.0
    if not size or not math.isfinite(size):
        return True, 0.0
    return True, abs(math.log10(size) - 1.5)


def unit_choices(unit: Unit) -> Iterator[Unit]:
    """Units of the same dimension with another prefix of the first factor."""
    yield unit
    if unit.offset or unit.text == "%":
        return
    head, slash, rest = unit.text.partition("/")
    if "*" in head or "(" in head or "^" in head:
        return
    for other in _siblings(head):
        text = f"{other}{slash}{rest}"
        if text != unit.text:
            yield parse_unit(text)


def _siblings(name: str) -> Sequence[str]:
    if name in ("d", "yr") or name in _TIMES:
        return _TIMES
    if name in _MASSES:
        return _MASSES
    for prefix in BINARY:
        if name.startswith(prefix) and name[len(prefix) :] in ("B", "byte"):
            return [f"{other}B" for other in ("", *BINARY)]
    if name == "byte":
        return [f"{prefix}B" for prefix in _BYTES]
    for prefix in ("", *DECIMAL):
        base = name[len(prefix) :]
        if name.startswith(prefix) and base not in _NEVER and _takes_prefixes(base):
            return [f"{other}{base}" for other in (_BYTES if base == "B" else _THOUSANDS)]
    return ()


def _takes_prefixes(base: str) -> bool:
    return base in PREFIXED_BASES or (base in DEFINITIONS and DEFINITIONS[base][2])


def _round(numbers: Sequence[float], *, money: bool) -> list[str]:
    """Texts of a value and, if there are more, the ends of its interval, to the same place."""
    value, *ends = numbers
    if not all(map(math.isfinite, numbers)):
        return [f"{number:.{_DIGITS}g}" for number in numbers]
    if not ends:
        if value == int(value) and abs(value) < _MOST_WHOLE and not money:
            return [str(int(value))]
        place = _place(value) - (_DIGITS - 1)
        if money and abs(value) >= 1:
            return [_at(value, max(place, -2), strip=False)]
        return [_at(value, place, strip=True)]
    place = _place(ends[1] - ends[0]) - 1
    nearest = min((abs(end) for end in numbers if end), default=1.0)
    # An end far below the width keeps a significant digit, so that it does not become zero.
    place = min(place, _place(nearest))
    return [_at(number, place, strip=False) for number in numbers]


def _place(number: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(abs(number))) if number else 0


def _at(number: float, place: int, *, strip: bool) -> str:
    """The number rounded at a decimal place."""
    if place < -8 or abs(number) >= 1e9:
        digits, exponent = f"{number:.{max(_place(number) - place, 0)}e}".split("e")
        if strip and "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return f"{digits}e{int(exponent)}"
    if place > 0:
        return str(round(number / 10**place) * 10**place)
    text = f"{number:.{-place}f}"
    return text.rstrip("0").rstrip(".") if strip and "." in text else text
