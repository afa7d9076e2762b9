"""A sourced value: a number with its unit, where it comes from, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError

KINDS = ("spec", "measured", "published", "assumed")
"""How a value was got, from the maker's own statement to a guess."""
_FACTS = ("value", "source", "kind", "date", "uncertainty")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a scenario or of the catalog.

    `uncertainty` is the relative half-width of the interval that holds the truth nine times in
    ten; zero means that the value is taken as exact, such as a count.
    """

    text: str
    source: str
    kind: str
    date: str = ""
    uncertainty: float = 0.0

    @property
    def given(self) -> str:
        """The value as `resolve` takes it: an interval around it where it is uncertain."""
        if not self.uncertainty:
            return self.text
        head, _, unit = self.text.partition(" ")
        number, factor = float(head), 1.0 + self.uncertainty
        lower, upper = sorted((number / factor, number * factor))
        return f"{lower:.12g}..{upper:.12g} {unit}".rstrip()

    def to_data(self) -> dict[str, Any]:
        """The value as plain data."""
        return {
            "value": self.text, "source": self.source, "kind": self.kind, "date": self.date,
            "uncertainty": self.uncertainty,
        }  # fmt: skip


def read_value(where: str, item: Any, defaults: Mapping[str, Any]) -> Value:
    """Read one value; what it does not state is taken from the defaults beside it."""
    facts = {**defaults, **(item if isinstance(item, Mapping) else {"value": item})}
    if strangers := [key for key in facts if key not in _FACTS]:
        raise InputError(
            f'{where}: unknown entry "{strangers[0]}"', f"a value has: {', '.join(_FACTS)}"
        )
    if "value" not in facts or "source" not in facts or facts.get("kind") not in KINDS:
        raise InputError(
            f"{where} needs a value, a source and a kind", f"kinds: {', '.join(KINDS)}"
        )
    if not isinstance(facts["source"], str):
        raise InputError(f"{where}: expected a text as source, got {facts['source']!r}")
    text = str(facts["value"])
    return Value(
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
