"""Given inputs: numbers, texts with units and distributions, converted to base units once."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assay.errors import InputError, unknown_name
from assay.model.language.distributions import Distribution, parse_given
from assay.model.language.quantity import Quantity, as_difference, check_dimension
from assay.model.language.variables import Variable
from assay.model.uncertainty.correlation import Correlations, check_correlations

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

Given = float | int | str | Quantity | Distribution
"""A plain number is in base units; a text carries its unit or describes a distribution."""


_WHOLE_TOLERANCE = 1e-9
"""Relative rounding error within which a count is whole."""

_NAME = re.compile(r"[A-Za-z]\w*")
"""A text that names a case, or is meant to."""

_MOST_NAMES = 8
"""Names that a note lists; a scenario of the catalog may have a hundred."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Given values in base units: one number each, and the distribution behind some.

    `correlations` are those of the normal scores of pairs of distributions. `stated` are given
    beside a scenario: such a value replaces what the scenario's values would make of it.
    """

    values: dict[str, float]
    distributions: dict[str, Distribution] = field(default_factory=dict)
    correlations: Correlations = field(default_factory=dict)
    stated: frozenset[str] = frozenset()

    @property
    def given(self) -> dict[str, float | Distribution]:
        """The values as they were given: the distribution where there is one."""
        return {**self.values, **self.distributions}

    @property
    def median_note(self) -> str:
        """A note that distributions are replaced by their medians, with the first few names."""
        names = list(self.distributions)
        more = len(names) - _MOST_NAMES
        shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"distributions stand at their medians: {shown}" if names else ""


def read_inputs(
    registry: Declarations,
    given: Inputs | Mapping[str, Given],
    correlations: Correlations | None = None,
    stated: Collection[str] = (),
) -> Inputs:
    """Check names, units, bounds and finiteness of everything given."""
    if isinstance(given, Inputs):
        return given
    inputs = Inputs({}, stated=frozenset(stated))
    for name, item in given.items():
        variable = assignable(registry, name)
        value = read_given(variable, item)
        if isinstance(value, Distribution):
            inputs.distributions[name] = value
            value = value.median()
            if variable.is_count and math.isfinite(value):
                value = float(round(value))
        check_value(variable, value)
        value = read_whole(variable, value)
        inputs.values[name] = value
    if correlations:
        check_correlations(registry, correlations, inputs.distributions)
        return replace(inputs, correlations=correlations)
    return inputs


def assignable(registry: Declarations, name: str) -> Variable:
    """Look up a variable that may be given a value."""
    if name in registry.constants:
        raise InputError(f"{name} is a constant of nature and cannot be given")
    if name not in registry.variables:
        raise unknown_name("variable", name, registry.variables, "assay list prints the variables")
    return registry.variables[name]


def read_given(variable: Variable, item: Given) -> float | Distribution:
    """Convert one given item to base units."""
    if isinstance(item, str):
        text = item.strip()
        if text in variable.cases:
            return variable.number_of(text)
        if variable.cases and _NAME.fullmatch(text):
            raise not_a_case(variable, text)
        return parse_given(variable.name, item, variable.unit, difference=variable.is_difference)
    if isinstance(item, Quantity):
        item = as_difference(item) if variable.is_difference else item
        check_dimension(variable.name, item.unit, variable.unit)
        return item.value
    if isinstance(item, Distribution):
        return item
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{variable.name}: expected a number, a text, a quantity or a distribution, got {item!r}"
        ) from None


def nearest_whole(value: float) -> float | None:
    """The whole number that a value is up to rounding; None where it is none.

    >>> nearest_whole(8.000000000001), nearest_whole(7.5)
    (8.0, None)
    """
    if not math.isfinite(value):
        return None
    whole = float(round(value))
    return whole if abs(value - whole) <= _WHOLE_TOLERANCE * max(1.0, abs(whole)) else None


def not_a_case(variable: Variable, given: str) -> InputError:
    """The error for a value that is none of the variable's cases."""
    cases = ", ".join(f"{case} ({variable.number_of(case):g})" for case in variable.cases)
    return InputError(f"{variable.name}: expected one of {cases}, got {given}")


def read_whole(variable: Variable, value: float) -> float:
    """The value; refuses one of a count that is no whole number, or of a choice that is no case."""
    if not variable.is_count and not variable.cases:
        return value
    whole = nearest_whole(value)
    if whole is None and variable.cases:
        raise not_a_case(variable, variable.format(value))
    if whole is None:
        below, above = (variable.format(float(n)) for n in (math.floor(value), math.ceil(value)))
        raise InputError(
            f"{variable.name}: expected a whole number, got {variable.format(value)}",
            f"write {below} or {above}",
        )
    return whole


def check_value(variable: Variable, value: float) -> None:
    """Refuse a value that is not finite or lies outside the variable's bounds."""
    if not math.isfinite(value):
        raise InputError(f"{variable.name}: expected a finite number, got {value}")
    if variable.cases and not variable.lower <= value <= variable.upper:
        raise not_a_case(variable, variable.format(value))
    if value < variable.lower:
        expected = "> 0" if 0 < variable.lower < 1e-300 else f">= {variable.format(variable.lower)}"
        raise InputError(f"{variable.name}: expected {expected}, got {variable.format(value)}")
    if value > variable.upper:
        raise InputError(
            f"{variable.name}: expected <= {variable.format(variable.upper)}, got {variable.format(value)}"
        )
