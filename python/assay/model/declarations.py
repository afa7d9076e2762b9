"""Declarations: every variable, relation and simultaneous block by name.

The parts of the model (resolving, solving, tapes, optimizing, uncertainty, graphs) read these; the
`Registry` in `assay.model.registry` adds the questions one asks of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.errors import DeclarationError, unknown_name
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.references import Reference
from assay.model.language.relations import Approximation, Equation, Inequality, Piecewise, Relation
from assay.model.language.units import Unit, parse_unit
from assay.model.language.variables import Constant, Variable
from assay.model.store import fingerprint

RELATION_KINDS: dict[str, type[Relation]] = {
    cls.kind: cls
    for cls in (Equation, Approximation, Piecewise, Iterative, Differential, Stochastic, Inequality)
}


@dataclass(frozen=True, slots=True)
class SimultaneousBlock:
    """Variables that define each other and are solved together."""

    name: str
    scope: str
    members: tuple[str, ...]
    starts: dict[str, float] = field(default_factory=dict)


class Declarations:
    """All declarations of an ordered list of scopes.

    `variables` and `constants` hold the quantities, `equations` the relations that define one,
    `constraints` the inequalities; `relations` holds both.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Read what `to_data` wrote; `Registry.from_scopes` writes it from scopes."""
        self.data = data
        self.scopes: dict[str, str] = {scope["name"]: scope["meaning"] for scope in data["scopes"]}
        self.variables: dict[str, Variable] = {}
        self.constants: dict[str, Constant] = {}
        self.relations: dict[str, Relation] = {}
        self.blocks: dict[str, SimultaneousBlock] = {}
        self.block_of: dict[str, SimultaneousBlock] = {}
        for scope in data["scopes"]:
            for facts in scope["variables"]:
                self._add_variable(facts)
            for facts in scope["relations"]:
                self._add_relation(facts)
            for facts in scope["blocks"]:
                self._add_block(facts)
        defining: dict[str, list[Relation]] = {}
        for relation in self.equations.values():
            defining.setdefault(relation.variable, []).append(relation)
        for name, relations in defining.items():
            if name in self.variables:
                self.variables[name].defining_equations = tuple(relations)

    def to_data(self) -> Mapping[str, Any]:
        """The whole registry as plain data."""
        return self.data

    @cached_property
    def key(self) -> str:
        """A digest of all declarations, the key of caches derived from them."""
        return fingerprint(self.data)

    @cached_property
    def equations(self) -> dict[str, Relation]:
        """Relations that define a variable, by name."""
        return {name: r for name, r in self.relations.items() if not isinstance(r, Inequality)}

    @cached_property
    def constraints(self) -> dict[str, Inequality]:
        """Inequalities, by name."""
        return {name: r for name, r in self.relations.items() if isinstance(r, Inequality)}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """The declared unit of every variable and constant."""
        return {name: v.unit for name, v in {**self.variables, **self.constants}.items()}

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the variables declared as targets."""
        return tuple(name for name, variable in self.variables.items() if variable.target)

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the variables that no relation defines."""
        return tuple(name for name, variable in self.variables.items() if variable.is_root)

    def variable(self, name: str) -> Variable:
        """Look up a variable; an unknown name raises with similar names as a hint."""
        if name in self.variables:
            return self.variables[name]
        if name in self.constants:
            return self.constants[name]
        raise unknown_name("variable", name, self.units)

    def relation(self, name: str) -> Relation:
        """Look up a relation; an unknown name raises with similar names as a hint."""
        if name not in self.relations:
            raise unknown_name("relation", name, self.relations)
        return self.relations[name]

    def _add_variable(self, facts: Mapping[str, Any]) -> None:
        name = facts["name"]
        if name in self.variables or name in self.constants:
            raise DeclarationError(f"variable {name} is declared twice")
        common: dict[str, Any] = {
            "scope": facts["scope"], "symbol": facts["symbol"], "unit": parse_unit(facts["unit"]),
            "meaning": facts["meaning"], "reference": Reference(*facts["reference"]),
        }  # fmt: skip
        if "value" in facts:
            self.constants[name] = Constant(name, value=facts["value"], **common)
            return
        lower, upper = facts["bounds"]
        self.variables[name] = Variable(
            name, display=parse_unit(facts["display"]),
            lower=-math.inf if lower is None else lower, upper=math.inf if upper is None else upper,
            boundary=facts["boundary"], family=facts["family"], target=facts["target"],
            library=facts["library"], **common,
        )  # fmt: skip

    def _add_relation(self, facts: Mapping[str, Any]) -> None:
        name = facts["name"]
        if name in self.relations:
            raise DeclarationError(
                f"relation {name} is declared twice",
                "give variants of one variable names of their own",
            )
        self.relations[name] = RELATION_KINDS[facts["kind"]](
            name=name, variable=facts["variable"], scope=facts["scope"], parts=facts["parts"],
            reference=Reference(*facts["reference"]), meaning=facts["meaning"],
            library=facts["library"], options=facts["options"], position=len(self.relations),
        )  # fmt: skip

    def _add_block(self, facts: Mapping[str, Any]) -> None:
        block = SimultaneousBlock(
            facts["name"], facts["scope"], tuple(facts["members"]), dict(facts["starts"])
        )
        self.blocks[block.name] = block
        for member in block.members:
            if member in self.block_of:
                raise DeclarationError(
                    f"{member} belongs to two simultaneous blocks: {self.block_of[member].name} and {block.name}"
                )
            self.block_of[member] = block
