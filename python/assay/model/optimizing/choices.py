"""Choices and axes: lists of values, ranges, variants of a relation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.array_types import Floats
from assay.errors import InputError
from assay.model.inputs import Given, check_value, read_given, read_whole
from assay.model.language.distributions import Distribution
from assay.model.language.variables import Variable
from assay.model.selection import find_variant

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


VARIANT_PREFIX = "variant:"
SPACINGS = ("linear", "log")
_LOG_RATIO = 10.0
_MOST_WHOLE = 100_000


@dataclass(frozen=True, slots=True)
class Discrete:
    """A variable that takes one of several values, in base units."""

    variable: Variable
    values: Floats


@dataclass(frozen=True, slots=True)
class Continuous:
    """A variable that takes any value between two ends, in base units."""

    variable: Variable
    lower: float
    upper: float

    @property
    def in_decades(self) -> bool:
        """Whether the range is wide enough to be sampled on a logarithmic scale."""
        return self.lower > 0 and self.upper / self.lower >= _LOG_RATIO

    def at(self, shares: Floats) -> Floats:
        """Values at shares of the way from the lower to the upper end."""
        if self.in_decades:
            values: Floats = self.lower * (self.upper / self.lower) ** shares
        else:
            values = self.lower + (self.upper - self.lower) * shares
        return np.clip(values, self.lower, self.upper)

    def share_of(self, value: float) -> float:
        """The share of the way at which a value lies."""
        if self.in_decades:
            return math.log(value / self.lower) / math.log(self.upper / self.lower)
        return (value - self.lower) / (self.upper - self.lower)

    def slope(self, value: float) -> float:
        """How fast the value changes with the share."""
        if self.in_decades:
            return value * math.log(self.upper / self.lower)
        return self.upper - self.lower


@dataclass(slots=True)
class Choices:
    """All choices of a search."""

    discrete: list[Discrete] = field(default_factory=list)
    continuous: list[Continuous] = field(default_factory=list)
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The variables to be chosen."""
        variables = [choice.variable for choice in self.discrete]
        variables += [choice.variable for choice in self.continuous]
        return [variable.name for variable in variables]

    def first(self) -> dict[str, float]:
        """The first value of each list and the lower end of each range."""
        lists = {choice.variable.name: float(choice.values[0]) for choice in self.discrete}
        return lists | {choice.variable.name: choice.lower for choice in self.continuous}

    def only(self, names: Iterable[str]) -> Choices:
        """The choices of some variables."""
        chosen = set(names)
        return Choices(
            [choice for choice in self.discrete if choice.variable.name in chosen],
            [choice for choice in self.continuous if choice.variable.name in chosen],
        )


def read_choices(
    registry: Declarations, over: Mapping[str, Any], *, allow_none: bool = False
) -> Choices:
    """Read a mapping from variables to lists of values or (lower, upper) ranges.

    A key `variant:NAME` maps to names of relations among which that of NAME is chosen.
    """
    if not over and not allow_none:
        raise InputError("nothing to choose", "name at least one variable and its values or range")
    choices = Choices()
    for key, spec in over.items():
        if key.startswith(VARIANT_PREFIX):
            name = key.removeprefix(VARIANT_PREFIX)
            variants = (spec,) if isinstance(spec, str) else tuple(spec)
            if not variants:
                raise InputError(f"no variants of {name} to choose from")
            relations = [find_variant(registry.variable(name), variant) for variant in variants]
            choices.variants[name] = tuple(dict.fromkeys(relation.name for relation in relations))
            continue
        variable = choosable(registry, key)
        if isinstance(spec, tuple):
            chosen = _read_range(variable, spec)
            if variable.is_count:
                choices.discrete.append(_whole_values(chosen))
            else:
                choices.continuous.append(chosen)
        else:
            choices.discrete.append(Discrete(variable, read_values(variable, spec)))
    return choices


def choosable(registry: Declarations, name: str) -> Variable:
    """Look up a variable that may be chosen; constants may not."""
    variable = registry.variable(name)
    if name in registry.constants:
        raise InputError(f"{name} is a constant of nature and cannot be chosen")
    return variable


def read_values(variable: Variable, spec: Given | Sequence[Given]) -> Floats:
    """Read a list of values, dropping repetitions."""
    items = [spec] if isinstance(spec, (str, int, float)) else list(spec)  # type: ignore[arg-type]
    if not items:
        raise InputError(f"no values for {variable.name}", "give at least one")
    return np.array(list(dict.fromkeys(read_number(variable, item) for item in items)))


def read_number(variable: Variable, item: Given, *, between: bool = False) -> float:
    """Read one value, which must be a single number within the variable's bounds.

    The end of a range, `between` whose ends a count is chosen, need not be whole itself.
    """
    value = read_given(variable, item)
    if isinstance(value, Distribution):
        raise InputError(f"{variable.name}: expected a single value, got a distribution: {item}")
    check_value(variable, value)
    return value if between else read_whole(variable, value)


def read_axis(variable: Variable, spec: Any) -> Discrete:
    """Read a list of values, or (start, stop, count) with a spacing of `linear` or `log`."""
    if not isinstance(spec, tuple):
        return Discrete(variable, read_values(variable, spec))
    if len(spec) not in (3, 4):
        raise InputError(
            f"{variable.name}: expected (start, stop, count, spacing), got {len(spec)} entries"
        )
    start, stop = (read_number(variable, end, between=True) for end in spec[:2])
    count, spacing = spec[2], spec[3] if len(spec) == 4 else "linear"
    if not isinstance(count, int) or count < 1:
        raise InputError(f"{variable.name}: expected a positive count of values, got {count!r}")
    if spacing not in SPACINGS:
        raise InputError(
            f'{variable.name}: unknown spacing "{spacing}"', f"one of: {', '.join(SPACINGS)}"
        )
    if spacing == "linear":
        return _grid(variable, np.linspace(start, stop, count))
    if start <= 0 or stop <= 0:
        raise InputError(
            f"{variable.name}: a log spacing needs positive ends, "
            f"got {variable.format(start)} and {variable.format(stop)}"
        )
    return _grid(variable, np.geomspace(start, stop, count))


def _grid(variable: Variable, values: Floats) -> Discrete:
    """An axis at these values; those of a count are rounded to whole ones, each once."""
    if not variable.is_count:
        return Discrete(variable, values)
    whole = [float(value) for value in np.rint(values)]
    kept = [value for value in dict.fromkeys(whole) if variable.lower <= value <= variable.upper]
    if not kept:
        raise InputError(f"{variable.name}: expected whole numbers, but the axis has none")
    return Discrete(variable, np.array(kept))


def _whole_values(choice: Continuous) -> Discrete:
    """Every whole number of a range, since a count cannot be refined between two of them."""
    variable = choice.variable
    first, last = math.ceil(choice.lower), math.floor(choice.upper)
    if last < first:
        raise InputError(
            f"{variable.name}: there is no whole number from {variable.format(choice.lower)} to "
            f"{variable.format(choice.upper)}"
        )
    if last - first >= _MOST_WHOLE:
        raise InputError(
            f"{variable.name}: the range has {last - first + 1:,} whole numbers, "
            f"more than {_MOST_WHOLE:,}",
            "write start:stop:count:log to try some of them",
        )
    return Discrete(variable, np.arange(first, last + 1, dtype=np.float64))


def _read_range(variable: Variable, spec: tuple[Any, ...]) -> Continuous:
    if len(spec) != 2:
        raise InputError(
            f"{variable.name}: expected a range (lower, upper), got {len(spec)} entries",
            "write a list for single values",
        )
    lower, upper = (read_number(variable, end, between=True) for end in spec)
    if not lower < upper:
        raise InputError(
            f"{variable.name}: the range from {variable.format(lower)} to "
            f"{variable.format(upper)} is empty"
        )
    return Continuous(variable, lower, upper)
