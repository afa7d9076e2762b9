"""A sourced value: a number with its unit, where it comes from, and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError
from assay.model.language.distributions import Z90, Distribution, interval90, parse_given
from assay.model.language.quantity import check_dimension, parse_quantity
from assay.model.language.units import Unit
from assay.model.language.variables import Variable

KINDS = ("spec", "measured", "published", "assumed")
"""How a value was obtained, from the vendor's own statement to an assumption."""
_FACTS = ("value", "source", "kind", "date", "uncertainty")


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """One value of a scenario or of the catalog.

    `uncertainty` is the relative half-width of the 90 % interval; zero means exact, such as a count.
    `number` is the value in base units where it was computed, as a fitted constant is; a value that a
    file states has only its text, which `read` parses. `log_spread` is the standard deviation of the
    logarithm of a fitted constant, in place of `uncertainty`.
    """

    text: str
    source: str
    kind: str
    date: str = ""
    uncertainty: float = 0.0
    number: float | None = None
    log_spread: float = 0.0

    @classmethod
    def from_number(
        cls, variable: Variable, number: float, source: str, kind: str, log_spread: float = 0.0
    ) -> SourcedValue:
        """A fitted value in base units; its text is in the variable's display unit."""
        text = f"{variable.shown(number):.15g} {variable.display.text}".removesuffix(" 1")
        # What people read: the relative half-width of the 90 % interval.
        uncertainty = math.expm1(Z90 * log_spread)
        return cls(text, source, kind, "", uncertainty, number, log_spread)

    def read(self, variable: Variable, *, exact: bool = False) -> float | Distribution:
        """The value in base units: a distribution where it is uncertain, unless `exact`.

        Raises UnitError where the text has another dimension than the variable.
        """
        if not self.uncertainty or exact:
            if self.number is not None:
                return self.number
            return parse_given(
                variable.name, self.text, variable.unit, difference=variable.is_difference
            )
        if self.number is not None:
            return Distribution("lognormal", (self.number, self.log_spread))
        quantity = parse_quantity(self.text, difference=variable.is_difference)
        check_dimension(variable.name, quantity.unit, variable.unit)
        return self._interval(quantity.value, quantity.unit)

    def _interval(self, number: float, unit: Unit) -> Distribution:
        # Relative to the stated number: 10 % of 20 degC is 2 K, not 10 % of 293 K.
        stated, factor = unit.from_coherent(number), 1.0 + self.uncertainty
        return interval90(unit.to_coherent(stated / factor), unit.to_coherent(stated * factor))

    def to_data(self) -> dict[str, Any]:
        """The value as plain data."""
        return {
            "value": self.text, "source": self.source, "kind": self.kind, "date": self.date,
            "uncertainty": self.uncertainty,
        }  # fmt: skip


def read_value(where: str, item: Any, defaults: Mapping[str, Any]) -> SourcedValue:
    """Read one value; facts that it does not state come from the defaults beside it."""
    facts = {**defaults, **(item if isinstance(item, Mapping) else {"value": item})}
    if unknown := [key for key in facts if key not in _FACTS]:
        raise InputError(
            f'{where}: unknown entry "{unknown[0]}"', f"a value has: {', '.join(_FACTS)}"
        )
    if "value" not in facts or "source" not in facts or facts.get("kind") not in KINDS:
        raise InputError(
            f"{where} needs a value, a source and a kind", f"kinds: {', '.join(KINDS)}"
        )
    if not isinstance(facts["source"], str):
        raise InputError(f"{where}: expected a text as source, got {facts['source']!r}")
    text = str(facts["value"])
    return SourcedValue(
        text, facts["source"], facts["kind"], str(facts.get("date", "")), _uncertainty(where, facts)
    )


def _uncertainty(where: str, facts: Mapping[str, Any]) -> float:
    stated = facts.get("uncertainty", 0.0)
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        raise InputError(f"{where}: expected a number as uncertainty, got {stated!r}")
    uncertainty = float(stated)
    if not 0 <= uncertainty < math.inf:
        raise InputError(f"{where}: expected an uncertainty of 0 or more, got {uncertainty:g}")
    if uncertainty:
        try:
            positive = float(str(facts["value"]).partition(" ")[0]) > 0
        except ValueError:
            positive = False
        if not positive:
            raise InputError(
                f'{where}: an uncertainty needs a positive number, got "{facts["value"]}"',
                "write the distribution as the value itself",
            )
    return uncertainty
