"""Probability distributions: of given inputs, and of stochastic relations."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from assay.array_types import Floats
from assay.errors import InputError
from assay.model.language.normal import normal_quantile
from assay.model.language.quantity import Quantity, check_dimension, format_number, parse_quantity
from assay.model.language.units import DIMENSIONLESS, Unit, parse_unit

if TYPE_CHECKING:
    import numpy as np

# kind: (parameter names, whether each is measured in the variable's unit)
KINDS: Final[dict[str, tuple[tuple[str, ...], tuple[bool, ...]]]] = {
    "normal": (("mean", "standard deviation"), (True, True)),
    "lognormal": (("median", "sigma of the logarithm"), (True, False)),
    "uniform": (("lower", "upper"), (True, True)),
    "triangular": (("lower", "mode", "upper"), (True, True, True)),
}
Z90: Final = 1.6448536269514727
"""A 90 % interval of a normal distribution reaches this many standard deviations either way."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution with its parameters in base units; `empirical` holds its sample."""

    kind: str
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse parameters that describe no distribution."""
        p = self.parameters
        if not p or not all(math.isfinite(value) for value in p):
            raise InputError(f"{self.kind}: expected finite parameters, got {list(p)}")
        if self.kind != "empirical":
            if self.kind not in KINDS:
                raise InputError(
                    f'unknown distribution "{self.kind}"', f"known: {', '.join(KINDS)}, empirical"
                )
            names = KINDS[self.kind][0]
            if len(p) != len(names):
                raise InputError(
                    f"{self.kind}: expected {len(names)} parameters ({', '.join(names)}), got {len(p)}"
                )
        if not are_valid_parameters(self.kind, p):
            raise InputError(
                f"{self.kind}({', '.join(map(format_number, p))}): parameters out of order or negative spread"
            )

    def quantile(self, probability: Floats) -> Floats:
        """Quantiles (inverse CDF) at the given probabilities."""
        import numpy as np

        if self.kind == "empirical":
            return np.asarray(np.quantile(np.asarray(self.parameters), probability))
        return quantile(self.kind, probability, tuple(np.float64(p) for p in self.parameters))

    def median(self) -> float:
        """The median, used where a single number represents the distribution."""
        p = self.parameters
        if self.kind == "empirical":
            ordered = sorted(p)
            middle = len(ordered) // 2
            return (
                ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
            )
        return median(self.kind, p)


def median(kind: str, parameters: tuple[float, ...]) -> float:
    """The median of a distribution of the given kind."""
    if kind == "uniform":
        return (parameters[0] + parameters[1]) / 2
    if kind == "triangular":
        lower, mode, upper = parameters
        if upper == lower:
            return lower
        if mode >= (lower + upper) / 2:
            return lower + math.sqrt((upper - lower) * (mode - lower) / 2)
        return upper - math.sqrt((upper - lower) * (upper - mode) / 2)
    return parameters[0]


def are_valid_parameters(kind: str, parameters: tuple[Any, ...]) -> Any:
    """Whether finite parameters, numbers or arrays of them, are those of a distribution."""
    p = parameters
    if kind == "normal":
        return p[1] >= 0
    if kind == "lognormal":
        return (p[0] > 0) & (p[1] >= 0)
    if kind == "uniform":
        return p[0] <= p[1]
    if kind == "triangular":
        return (p[0] <= p[1]) & (p[1] <= p[2])
    return True


def quantile(kind: str, probability: Floats, parameters: tuple[Floats | np.float64, ...]) -> Floats:
    """Quantiles of a distribution whose parameters may themselves be arrays."""
    import numpy as np

    result: Floats
    if kind == "normal":
        result = parameters[0] + parameters[1] * normal_quantile(probability)
    elif kind == "lognormal":
        result = parameters[0] * np.exp(parameters[1] * normal_quantile(probability))
    elif kind == "uniform":
        result = parameters[0] + (parameters[1] - parameters[0]) * probability
    else:
        lower, mode, upper = parameters
        width = np.where(upper > lower, upper - lower, 1.0)
        split = (mode - lower) / width
        left = lower + np.sqrt(np.maximum(probability * width * (mode - lower), 0.0))
        right = upper - np.sqrt(np.maximum((1 - probability) * width * (upper - mode), 0.0))
        result = np.where(upper > lower, np.where(probability < split, left, right), lower)
    return result


def interval90(lower: float, upper: float) -> Distribution:
    """The distribution whose central 90 % lies between two values.

    Lognormal when both are positive, since such quantities err by factors; normal otherwise.
    """
    if lower > upper:
        raise InputError(f"90 % interval {lower:g}..{upper:g}: the lower end lies above the upper")
    if lower > 0:
        # The root of the ratio neither overflows nor moves an interval of width zero.
        middle = lower * math.sqrt(upper / lower)
        return Distribution("lognormal", (middle, math.log(upper / lower) / (2 * Z90)))
    return Distribution("normal", ((lower + upper) / 2, (upper - lower) / (2 * Z90)))


_CALL = re.compile(r"\s*([a-z0-9]+)\s*\(([^()]*)\)\s*(.*)$", re.DOTALL)
_BETWEEN = re.compile(r"\.\.|\bto\b")


def parse_given(
    name: str, text: str, expected: Unit, *, difference: bool = False
) -> float | Distribution:
    """Read what a user gives for a variable: a quantity or a distribution.

    A `difference` ignores the zero point of degC.

    >>> parse_given("gpu.power", "500 W", parse_unit("W"))
    500.0
    >>> parse_given("gpu.power", "uniform(450, 550) W", parse_unit("W")).kind
    'uniform'
    >>> round(parse_given("gpu.power", "450..550 W", parse_unit("W")).median(), 3)
    497.494
    """
    if match := _CALL.match(text):
        return _parse_call(name, text, match, expected, difference)
    read = partial(parse_quantity, difference=difference)
    if ends := _split_range(text):
        upper = read(ends[1])
        check_dimension(name, upper.unit, expected)
        lower = read(ends[0])
        if lower.unit == DIMENSIONLESS:
            # `450..550 W` states the unit once, for both ends.
            lower = Quantity(upper.unit.to_coherent(lower.value), upper.unit)
        check_dimension(name, lower.unit, expected)
        return interval90(lower.value, upper.value)
    quantity = read(text)
    check_dimension(name, quantity.unit, expected, text.strip())
    return quantity.value


def _split_range(text: str) -> tuple[str, str] | None:
    """The two ends of an interval; None if the text is no interval.

    >>> _split_range("450..550 W"), _split_range("1 to 2 W"), _split_range("500 W")
    (('450', '550 W'), ('1', '2 W'), None)
    """
    stripped = text.strip()
    # A lower end has a character at least.
    match = _BETWEEN.search(stripped, 1)
    if match is None or match.end() == len(stripped):
        return None
    return stripped[: match.start()].rstrip(), stripped[match.end() :].lstrip()


def _parse_call(
    name: str, text: str, match: re.Match[str], expected: Unit, difference: bool
) -> Distribution:
    kind, arguments, unit_text = match.groups()
    unit = parse_unit(unit_text)
    if difference:
        unit = unit.without_offset()
    if kind not in KINDS and kind != "empirical":
        raise InputError(
            f'unknown distribution "{kind}" for {name}',
            f"known: {', '.join(KINDS)}, empirical, and LOWER..UPPER",
        )
    check_dimension(name, unit, expected)
    try:
        numbers = [float(argument) for argument in arguments.split(",")]
    except ValueError:
        raise InputError(
            f'malformed distribution "{text.strip()}" for {name}: expected numbers',
            'write for example "normal(500, 20) W"',
        ) from None
    if kind == "empirical":
        return Distribution(kind, tuple(unit.to_coherent(value) for value in numbers))
    measured = KINDS[kind][1]
    if len(numbers) == len(measured):
        numbers = [
            _scaled(unit, value, position, kind) if in_unit else value
            for position, (value, in_unit) in enumerate(zip(numbers, measured, strict=True))
        ]
    return Distribution(kind, tuple(numbers))


def _scaled(unit: Unit, value: float, position: int, kind: str) -> float:
    # A spread is a difference: it takes the unit's scale but not its zero point.
    if kind == "normal" and position == 1:
        return value * float(unit.scale)
    return unit.to_coherent(value)
