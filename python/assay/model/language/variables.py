"""Variables and constants: each quantity once, with unit, meaning, bounds and source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.errors import DeclarationError
from assay.model.language.expression import Expression, Symbol
from assay.model.language.quantity import format_quantity
from assay.model.language.references import UNSOURCED, Reference
from assay.model.language.units import Unit

if TYPE_CHECKING:
    from assay.model.language.figures import FigureText
    from assay.model.language.relations import Relation

BOUNDARIES = ("decompose", "primitive", "scenario", "needs-source")

NATURES = ("measure", "count", "difference")
"""A count takes whole numbers; a difference of temperatures ignores the zero point of degC."""

FLAG = ("off", "on")
"""The cases of a variable that is 0 or 1."""


class Variable(Symbol):
    """A quantity: once in the graph, with symbol, unit, meaning, bounds and reference."""

    __slots__ = (
        "_definitions", "_relations", "boundary", "cases", "display", "family", "library", "lower",
        "meaning", "nature", "reference", "scope", "symbol", "target", "unit", "upper",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        scope: str,
        symbol: str,
        unit: Unit,
        meaning: str,
        display: Unit | None = None,
        lower: float = -math.inf,
        upper: float = math.inf,
        reference: Reference = UNSOURCED,
        boundary: str | None = None,
        family: str | None = None,
        target: bool = False,
        library: bool = False,
        nature: str = "measure",
        cases: Sequence[str] = (),
    ) -> None:
        """Bounds are in base units; `display` is the unit values are printed in.

        A variable with `cases` takes one of them: the first is its lower bound, each next one is 1 more.
        """
        super().__init__(name)
        self.scope = scope
        self.symbol = symbol
        self.unit = unit
        self.display = display or unit
        self.meaning = meaning
        self.lower = lower
        self.upper = upper
        self.reference = reference
        self.boundary = boundary
        self.family = family or name.rpartition(".")[0]
        self.target = target
        self.library = library
        self.nature = nature
        self.cases = tuple(cases)
        self._definitions: Sequence[str] = ()
        self._relations: Mapping[str, Relation] = {}

    def define(self, names: Sequence[str], relations: Mapping[str, Relation]) -> None:
        """Name the relations that define the variable; each is read when it is used."""
        self._definitions, self._relations = names, relations

    @property
    def defining_equations(self) -> tuple[Relation, ...]:
        """The relations that define the variable."""
        return tuple(self._relations[name] for name in self._definitions)

    def is_(self, case: str) -> Expression:
        """Whether this case is chosen."""
        number = self.number_of(case)
        if number == self.lower:
            return self < number + 0.5
        above = self > number - 0.5
        return above if number == self.upper else above & (self < number + 0.5)

    def is_at_least(self, case: str) -> Expression:
        """Whether this case or one after it is chosen."""
        return self > self.number_of(case) - 0.5

    def number_of(self, case: str) -> float:
        """The value that stands for a case."""
        if case not in self.cases:
            known = f"one of: {', '.join(self.cases)}" if self.cases else "declare it as a choice"
            raise DeclarationError(f'{self.name} has no case "{case}"', known)
        return self.lower + self.cases.index(case)

    def as_condition(self) -> Expression:
        """A flag may stand where a condition does: whether it is on."""
        return self.is_("on") if self.cases == FLAG else self

    def __invert__(self) -> Expression:
        return self.is_("off") if self.cases == FLAG else super().__invert__()

    @property
    def is_root(self) -> bool:
        """Whether the value must be given: no relation defines the variable unless one is chosen.

        Relations of a variable with a boundary are alternatives to the value that is given.
        """
        return self.boundary is not None or not self._definitions

    def is_given(self, variants: Mapping[str, str]) -> bool:
        """Whether the value must be given where these relations are chosen."""
        return self.is_root and self.name not in variants

    @property
    def is_count(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.nature == "count"

    @property
    def is_difference(self) -> bool:
        """Whether the variable is a difference of two temperatures."""
        return self.nature == "difference"

    @property
    def bounds(self) -> str:
        """The bounds as a condition on the variable, in its display unit."""
        if 0 < self.lower < 1e-300:
            condition = f"{self.name} > 0"
            return condition if math.isinf(self.upper) else f"0 < {self._below()}"
        if math.isinf(self.lower):
            return f"any {self.name}" if math.isinf(self.upper) else self._below()
        if math.isinf(self.upper):
            return f"{self.name} >= {self.format(self.lower)}"
        return f"{self.format(self.lower)} <= {self._below()}"

    def _below(self) -> str:
        return f"{self.name} <= {self.format(self.upper)}"

    def format(self, value: float) -> str:
        """Print a value given in base units in the variable's display unit."""
        return format_quantity(value, self.display)

    def figure(
        self, value: float, lower: float | None = None, upper: float | None = None
    ) -> FigureText:
        """A value in base units and its interval as people read them."""
        from assay.model.language.figures import figure

        return figure(value, self.display, lower, upper)

    def shown(self, value: float) -> float:
        """Convert a value in base units to the display unit."""
        return self.display.from_coherent(value)


class Constant(Variable):
    """A constant of nature, the same in every scenario."""

    __slots__ = ("value",)

    def __init__(self, name: str, *, value: float, **facts: Any) -> None:
        """Take the value in base units."""
        super().__init__(name, **facts)
        self.value = value
