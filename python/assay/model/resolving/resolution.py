"""The result of resolving a variable: value, trace, missing inputs, verdicts and conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from assay.answers import data_of, finite, short_repr
from assay.errors import MissingInputsError
from assay.model.language.expression import to_text
from assay.model.language.figures import figure
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable

TRUNCATED: Final = "is drawn within its bounds"
"""The words of a note on a distribution that extends beyond its variable's bounds."""


class TraceStep(NamedTuple):
    """One value in the order of computation; `relation` is None for what was given."""

    variable: Variable
    value: float
    relation: Relation | None

    @property
    def kind(self) -> str:
        """The kind of relation, else `constant` or `given`."""
        if self.relation is not None:
            return self.relation.kind
        return "constant" if isinstance(self.variable, Constant) else "given"

    def to_data(self) -> dict[str, Any]:
        """The step as plain data, in the variable's display unit."""
        return {
            "name": self.variable.name,
            "symbol": self.variable.symbol,
            "value": self.variable.shown(self.value),
            "unit": self.variable.display.text,
            "relation": self.relation.name if self.relation else None,
            "kind": self.kind,
            "text": self.relation.text if self.relation else None,
            "inputs": list(self.relation.inputs) if self.relation else [],
            "source": str(self.relation.reference if self.relation else self.variable.reference),
        }


class MissingInput(NamedTuple):
    """An input without a value, and the variables that need it."""

    variable: Variable
    needed_by: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """The missing input as plain data."""
        return {
            "name": self.variable.name,
            "unit": self.variable.display.text,
            "family": self.variable.family,
            "meaning": self.variable.meaning,
            "boundary": self.variable.boundary,
            "needed_by": list(self.needed_by),
        }


class ConditionVerdict(NamedTuple):
    """Whether a condition holds: `true`, `false` or `unknown`.

    `values` has the condition's variables in base units; `missing` has inputs that it lacks.
    """

    name: str
    condition: str | tuple[Relation, str]
    """As text, or as a part of a relation: a hundred hold for each whose text is read."""
    status: str
    meaning: str = ""
    missing: tuple[str, ...] = ()
    reason: str = ""
    values: tuple[tuple[Variable, float], ...] = ()

    @property
    def text(self) -> str:
        """The condition as one line of text."""
        if isinstance(self.condition, str):
            return self.condition
        relation, part = self.condition
        return to_text(relation.part(part))

    @property
    def at(self) -> str:
        """The values of the condition's variables as one line of text."""
        parts = []
        for variable, value in self.values:
            # Sides of one dimension are shown in one unit, so that they can be compared.
            alike = (
                v.display for v, _ in self.values if v.display.same_dimension(variable.display)
            )
            parts.append(f"{variable.name} is {figure(value, next(alike)).text}")
        return ", ".join(parts)

    def to_data(self) -> dict[str, Any]:
        """The verdict as plain data, every value in its variable's display unit."""
        return {
            **data_of(self, "name status text meaning missing reason"),
            "values": [
                {"name": variable.name, "value": variable.shown(v), "unit": variable.display.text}
                for variable, v in self.values
            ],
        }


_LONGEST_SIDE: Final = 60
"""Characters of a formula that a message of one line may hold."""


class Conflict(NamedTuple):
    """A given value that its own equation contradicts."""

    variable: Variable
    given: float
    computed: float
    relation: Relation
    replaces: bool = False
    """Whether the value was given beside a scenario, to be used instead of the computed one."""

    @property
    def text(self) -> str:
        """The conflict as one line of text."""
        shown = self.variable.format
        if self.replaces:
            return (
                f"{self.variable.name}: {shown(self.given)} as given replaces "
                f"{shown(self.computed)}, which {self.relation.name} computes"
            )
        side = self.relation.text.partition(" = ")[2]
        # A relation that is named like its variable says nothing by its name.
        is_plain = self.relation.name == self.variable.name and 0 < len(side) <= _LONGEST_SIDE
        return (
            f"{self.variable.name} is given as {shown(self.given)}, "
            f"but {side if is_plain else self.relation.name} gives {shown(self.computed)}"
        )

    def to_data(self) -> dict[str, Any]:
        """The conflict as plain data."""
        return {
            "name": self.variable.name,
            "given": self.variable.shown(self.given),
            "computed": self.variable.shown(self.computed),
            "unit": self.variable.display.text,
            "relation": self.relation.name,
        }


class Switch(NamedTuple):
    """An approximation that was replaced because its validity condition is false."""

    variable: str
    left: str
    used: str
    condition: str


class TargetValue(NamedTuple):
    """A target's value and interval in base units, and how many inputs it lacks."""

    variable: Variable
    value: float | None
    lower: float | None
    upper: float | None
    missing: int

    @property
    def said(self) -> str:
        """The value with its unit and interval; empty without a value."""
        if self.value is None:
            return ""
        shown = self.variable.figure(self.value, self.lower, self.upper)
        return f"{shown.text}{shown.interval}"


@dataclass(frozen=True, slots=True)
class Resolution:
    """A value with interval, trace, missing inputs, verdicts and conflicts; numbers in base units.

    `taken` has the inputs of variables whose relation chooses a branch and lacks inputs of another.
    `constraints` has every constraint that the given values determine, whatever the target, and
    those on the target's cone that they do not; `unjudged` has the others.
    `degradations` has one line for each loss of accuracy, such as fewer sample points.
    `replaced` has computed values that one given beside the scenario stands for.
    """

    target: str
    value: float | None
    lower: float | None
    upper: float | None
    variable: Variable
    values: dict[str, float] = field(repr=False)
    trace: list[TraceStep] = field(repr=False)
    missing: list[MissingInput]
    constraints: list[ConditionVerdict]
    validity: list[ConditionVerdict]
    conflicts: list[Conflict]
    switches: list[Switch]
    unjudged: list[ConditionVerdict] = field(default_factory=list, repr=False)
    taken: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    degradations: tuple[str, ...] = ()
    replaced: list[Conflict] = field(default_factory=list)

    @property
    def truncations(self) -> list[str]:
        """Degradations that only say that a distribution was cut at bounds."""
        return [note for note in self.degradations if TRUNCATED in note]

    @property
    def losses(self) -> list[str]:
        """Degradations other than truncated distributions."""
        return [note for note in self.degradations if TRUNCATED not in note]

    @property
    def violated(self) -> list[ConditionVerdict]:
        """Constraints that do not hold."""
        return [verdict for verdict in self.constraints if verdict.status == "false"]

    def require_value(self) -> float:
        """The value; raises MissingInputsError with the names of all missing inputs."""
        if self.value is None:
            names = [gap.variable.name for gap in self.missing]
            raise MissingInputsError(
                f"{self.target} needs {len(names)} more inputs: {', '.join(names)}",
                names,
                "give each a value, or use a preset",
            )
        return self.value

    @property
    def said(self) -> str:
        """The value with its unit and interval; empty without a value."""
        if self.value is None:
            return ""
        shown = self.variable.figure(self.value, self.lower, self.upper)
        return f"{shown.text}{shown.interval}"

    def headline(self) -> str:
        """The value with its unit and interval, or how many inputs it lacks, in one line."""
        if self.value is None:
            return f"{self.target} needs {len(self.missing)} more inputs"
        return f"{self.target} = {self.said}"

    def __repr__(self) -> str:
        return short_repr(type(self), self.headline())

    def _repr_html_(self) -> str:
        from assay.notebook import card

        return card("resolution", self.headline(), finite(self.to_data()))

    def to_data(self) -> dict[str, Any]:
        """The resolution as plain data, every value in its variable's display unit."""
        shown = [
            None if v is None else self.variable.shown(v)
            for v in (self.value, self.lower, self.upper)
        ]
        return {
            "target": self.target,
            "value": shown[0],
            "unit": self.variable.display.text,
            "lo": shown[1],
            "hi": shown[2],
            **data_of(
                self, "missing constraints unjudged validity conflicts switches degradations trace"
            ),
        }
