"""Units of measurement with exact scales: parsed once, checked symbolically, never at run time.

A unit is a product of powers of base units times an exact rational scale.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

from assay.errors import UnitError
from assay.model.language.unit_table import (
    BASE_UNITS,
    BINARY,
    DECIMAL,
    DEFINITIONS,
    NOT_UNITS,
    PREFIXED_BASES,
)

Powers = tuple[Fraction | int, ...]
_NO_POWERS: Final[Powers] = (0,) * len(BASE_UNITS)


class Unit:
    """A product of base units with an exact scale.

    >>> parse_unit("kWh").scale
    Fraction(3600000, 1)
    >>> parse_unit("bit") == parse_unit("B")
    False
    """

    __slots__ = ("_text", "offset", "powers", "scale")

    def __init__(
        self,
        powers: Powers,
        scale: Fraction = Fraction(1),
        text: str = "",
        offset: Fraction = Fraction(0),
    ) -> None:
        """Build a unit; `offset` is the zero point of a temperature scale."""
        self.powers = powers
        self.scale = scale
        self.offset = offset
        self._text = text

    @property
    def text(self) -> str:
        """The unit as written, else its name or product of base units."""
        return self._text or _describe(self.powers, self.scale)

    @property
    def is_dimensionless(self) -> bool:
        """Whether no base unit remains; the scale may still differ from one."""
        return self.powers == _NO_POWERS

    @property
    def is_coherent(self) -> bool:
        """Whether numbers in this unit equal numbers in base units."""
        return self.scale == 1 and self.offset == 0

    def same_dimension(self, other: Unit) -> bool:
        """Whether both measure the same kind of quantity, at whatever scale."""
        return self.powers == other.powers

    def coherent(self) -> Unit:
        """Return the unit of the same dimension with scale one."""
        return self if self.is_coherent else Unit(self.powers)

    def __mul__(self, other: Unit) -> Unit:
        self._refuse_offset()
        other._refuse_offset()
        powers = tuple(a + b for a, b in zip(self.powers, other.powers, strict=True))
        return Unit(powers, self.scale * other.scale)

    def __truediv__(self, other: Unit) -> Unit:
        self._refuse_offset()
        other._refuse_offset()
        powers = tuple(a - b for a, b in zip(self.powers, other.powers, strict=True))
        return Unit(powers, self.scale / other.scale)

    def __pow__(self, exponent: Fraction | int) -> Unit:
        self._refuse_offset()
        powers = tuple(_normal(power * exponent) for power in self.powers)
        return Unit(powers, _exact_power(self, Fraction(exponent)))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Unit)
            and self.powers == other.powers
            and self.scale == other.scale
            and self.offset == other.offset
        )

    def __hash__(self) -> int:
        return hash((self.powers, self.scale, self.offset))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Unit({self.text!r})"

    def to_coherent(self, value: float) -> float:
        """Convert a number in this unit to base units, rounding once."""
        if self.offset:
            return float(Fraction(value) * self.scale + self.offset)
        return scale_exactly(value, self.scale)

    def from_coherent(self, value: float) -> float:
        """Convert a number in base units to this unit, rounding once."""
        if self.offset:
            return float((Fraction(value) - self.offset) / self.scale)
        return value if self.scale == 1 else scale_exactly(value, 1 / self.scale)

    def without_offset(self) -> Unit:
        """The unit of a difference, which has no zero point."""
        return Unit(self.powers, self.scale, self.text) if self.offset else self

    def _refuse_offset(self) -> None:
        if self.offset:
            raise UnitError(
                f"{self.text} has its own zero point and cannot be part of a product",
                "use K in products and differences",
            )


def scale_exactly(value: float, scale: Fraction) -> float:
    """Multiply by an exact rational with a single rounding; infinities and NaN pass through."""
    if scale == 1 or value != value or value in (float("inf"), float("-inf")):
        return value
    try:
        return float(Fraction(value) * scale)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _normal(power: Fraction | int) -> Fraction | int:
    if isinstance(power, Fraction) and power.denominator == 1:
        return power.numerator
    return power


def _exact_power(unit: Unit, exponent: Fraction) -> Fraction:
    if unit.scale == 1 or exponent.denominator == 1:
        return Fraction(unit.scale ** int(exponent)) if unit.scale != 1 else Fraction(1)
    if exponent.denominator == 2:
        top, bottom = isqrt(unit.scale.numerator), isqrt(unit.scale.denominator)
        if top * top == unit.scale.numerator and bottom * bottom == unit.scale.denominator:
            return Fraction(top, bottom) ** exponent.numerator
    raise UnitError(
        f"{unit} to the power {exponent} has no exact scale",
        "declare the quantity in a coherent unit (s, B, J, ...) and choose another for display",
    )


def _describe(powers: Powers, scale: Fraction) -> str:
    if name := _names().get((powers, scale)):
        return name
    above = [
        _factor(name, power) for name, power in zip(BASE_UNITS, powers, strict=True) if power > 0
    ]
    below = [
        _factor(name, -power) for name, power in zip(BASE_UNITS, powers, strict=True) if power < 0
    ]
    text = "*".join(above) or "1"
    if below:
        text += "/" + (below[0] if len(below) == 1 else "(" + "*".join(below) + ")")
    if scale != 1:
        text = f"{scale} {text}"
    return text


@lru_cache(maxsize=1)
def _names() -> dict[tuple[Powers, Fraction], str]:
    """Names for derived units, so that a message says J rather than kg*m^2/s^2."""
    named = (
        "N", "Pa", "J", "W", "C", "V", "F", "ohm", "S", "H", "bit", "min", "h", "Wh", "kWh", "%",
    )  # fmt: skip
    units = {"1/s": _lookup("Hz")} | {name: _lookup(name) for name in named}
    return {(unit.powers, unit.scale): name for name, unit in units.items()}


def _factor(name: str, power: Fraction | int) -> str:
    if power == 1:
        return name
    return f"{name}^({power})" if isinstance(power, Fraction) else f"{name}^{power}"


def _base(name: str) -> Unit:
    index = BASE_UNITS.index(name)
    return Unit(tuple(int(i == index) for i in range(len(BASE_UNITS))), text=name)


DIMENSIONLESS: Final = Unit(_NO_POWERS, text="1")

# What no unit of measurement exceeds. Units are read from input, and exact powers without a
# limit would let one word of it take all memory.
_LONGEST: Final = 200
_HIGHEST: Final = 99
_LARGEST_SCALE_BITS: Final = 20_000

_TOKEN: Final = re.compile(r"\s*(?:(\*\*|[*/^()])|([A-Za-z$%]+)|([+-]?\d+(?:\.\d+)?))")


@lru_cache(maxsize=4096)
def parse_unit(text: str) -> Unit:
    """Read a unit such as `GB/s`, `USD/kWh`, `FLOP/(s*GPU)` or `1`.

    >>> parse_unit("W*h") == parse_unit("J")
    False
    >>> parse_unit("Gbit/s").scale
    Fraction(125000000, 1)
    """
    stripped = text.strip()
    if stripped in ("", "1"):
        return DIMENSIONLESS
    if stripped == "degC":
        return Unit(_base("K").powers, Fraction(1), "degC", Fraction(27315, 100))
    unit = _Parser(stripped).parse()
    return Unit(unit.powers, unit.scale, stripped)


class _Parser:
    """Recursive descent over products, quotients, powers and parentheses."""

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= _LONGEST else f"{text[:40]}..."
        self.tokens: list[str] = []
        if len(text) > _LONGEST:
            raise self.malformed(f"longer than {_LONGEST} characters")
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if not match:
                raise self.malformed(f'unexpected "{text[position:].strip()[:1]}"')
            self.tokens.append(match.group().strip())
            position = match.end()
        self.next = 0

    def malformed(self, why: str) -> UnitError:
        return UnitError(
            f'malformed unit "{self.text}": {why}', "write for example GB/s or USD/(GPU*h)"
        )

    def parse(self) -> Unit:
        unit = self.product()
        if self.next < len(self.tokens):
            raise self.malformed(f'unexpected "{self.tokens[self.next]}"')
        return unit

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def advance(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def product(self) -> Unit:
        unit = self.power()
        while (token := self.peek()) and token != ")":
            if token in ("*", "/"):
                self.advance()
            factor = self.power()
            unit = unit / factor if token == "/" else unit * factor
        return unit

    def power(self) -> Unit:
        unit = self.atom()
        if self.peek() in ("^", "**"):
            self.advance()
            exponent = self.exponent()
            size = max(unit.scale.numerator.bit_length(), unit.scale.denominator.bit_length())
            magnitude = abs(Fraction(exponent))
            if magnitude > _HIGHEST or size * magnitude > _LARGEST_SCALE_BITS:
                raise self.malformed(f"exponent {exponent} is too large")
            unit = unit**exponent
        return unit

    def exponent(self) -> Fraction | int:
        token = self.advance()
        if token != "(":
            return self.number(token)
        value = self.number(self.advance())
        if self.peek() == "/":
            self.advance()
            divisor = self.number(self.advance())
            if divisor == 0:
                raise self.malformed("an exponent divides by zero")
            value = Fraction(value) / divisor
        if self.advance() != ")":
            raise self.malformed("unclosed parenthesis")
        return _normal(value)

    def number(self, token: str) -> Fraction | int:
        try:
            return _normal(Fraction(token))
        except ValueError:
            raise self.malformed(f'expected an exponent, got "{token or "nothing"}"') from None

    def atom(self) -> Unit:
        token = self.advance()
        if token == "(":
            unit = self.product()
            if self.advance() != ")":
                raise self.malformed("unclosed parenthesis")
            return unit
        if token == "1":
            return DIMENSIONLESS
        if not token or not (token[0].isalpha() or token[0] in "$%"):
            raise self.malformed(f'expected a unit, got "{token or "nothing"}"')
        return _lookup(token)


@lru_cache(maxsize=1024)
def _lookup(name: str) -> Unit:
    if name in BASE_UNITS:
        return _base(name)
    if name in DEFINITIONS:
        definition, scale, _ = DEFINITIONS[name]
        unit = _Parser(definition).parse()
        return Unit(unit.powers, unit.scale * Fraction(scale), name)
    for prefix, power in BINARY.items():
        if name.startswith(prefix) and name[len(prefix) :] in ("B", "byte", "bit", "b"):
            unit = _lookup(name[len(prefix) :])
            return Unit(unit.powers, unit.scale * 1024**power, name)
    for prefix, power in DECIMAL.items():
        rest = name[len(prefix) :]
        if name.startswith(prefix) and (
            rest in PREFIXED_BASES or (rest in DEFINITIONS and DEFINITIONS[rest][2])
        ):
            unit = _lookup(rest)
            return Unit(unit.powers, unit.scale * Fraction(10) ** power, name)
    raise UnitError(f'unknown unit "{name}"', _suggest(name))


def _suggest(name: str) -> str:
    if name in NOT_UNITS:
        return f"write {NOT_UNITS[name]}"
    if name[1:] in NOT_UNITS and name[:1] in DECIMAL:
        return f"write {name[:1]}{NOT_UNITS[name[1:]]}"
    if name == "degC":
        return "degC stands alone; use K in products and differences"
    return "units are SI, B, bit, FLOP, USD, token, request, GPU, node and what is built from them"
