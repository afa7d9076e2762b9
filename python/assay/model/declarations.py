"""Declarations: every variable, relation and simultaneous block by name.

The parts of the model (resolving, solving, tapes, optimizing, uncertainty, graphs) read these; the
`Registry` in `assay.model.registry` adds the questions one asks of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from assay.errors import DeclarationError, unknown_name
from assay.model.declaration_records import DeclarationRecords, RelationRecord, from_data
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.references import Reference
from assay.model.language.relations import Approximation, Equation, Inequality, Piecewise, Relation
from assay.model.language.units import Unit, parse_unit
from assay.model.language.variables import Constant, Variable
from assay.model.store import fingerprint

Item = TypeVar("Item")


class LazyTable(Mapping[str, Item]):
    """Items by name, each built from its source on first use.

    A question needs a few hundred of the thousands of declarations of a registry.
    """

    def __init__(self, sources: Mapping[str, Any], build: Callable[[Any], Item]) -> None:
        """Take the sources by name and the function that builds an item from one."""
        self._sources = sources
        self._build = build
        self._items: dict[str, Item] = {}

    def __getitem__(self, name: str) -> Item:
        item = self._items.get(name)
        if item is None:
            # Two threads may both build it: all get the item that was stored first.
            item = self._items.setdefault(name, self._build(self._sources[name]))
        return item

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


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

    def __init__(self, data: Mapping[str, Any] | DeclarationRecords) -> None:
        """Read what `to_data` wrote, or records; `Registry.from_scopes` writes it from scopes."""
        records = data if isinstance(data, DeclarationRecords) else from_data(data)
        self.records = records
        self.scopes = records.scopes
        self.variables: Mapping[str, Variable] = LazyTable(records.variables, self._variable)
        self.constants: Mapping[str, Constant] = LazyTable(records.constants, self._constant)
        self.relations: Mapping[str, Relation] = LazyTable(records.relations, self._relation)
        self._definitions: dict[str, list[str]] = {}
        for name, relation in records.relations.items():
            if relation.kind != Inequality.kind:
                self._definitions.setdefault(relation.variable, []).append(name)
        self.blocks: dict[str, SimultaneousBlock] = {}
        self.block_of: dict[str, SimultaneousBlock] = {}
        for facts in records.blocks:
            self._add_block(facts)

    def to_data(self) -> Mapping[str, Any]:
        """The whole registry as plain data."""
        return self.records.to_data()

    @cached_property
    def key(self) -> str:
        """A digest of all declarations, the key of caches derived from them."""
        return fingerprint(self.to_data())

    @cached_property
    def equations(self) -> dict[str, Relation]:
        """Relations that define a variable, by name."""
        kinds = self.records.relations
        return {n: self.relations[n] for n, r in kinds.items() if r.kind != Inequality.kind}

    @cached_property
    def constraints(self) -> dict[str, Inequality]:
        """Inequalities, by name."""
        found = (self.relations[name] for name in self.relations_of_kind(Inequality.kind))
        return {relation.name: relation for relation in found if isinstance(relation, Inequality)}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """The declared unit of every variable and constant."""
        return {name: v.unit for name, v in {**self.variables, **self.constants}.items()}

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the variables declared as targets."""
        return self.records.targets

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the variables whose values must be given, unless an alternative is chosen."""
        variables = self.variables
        return tuple(n for n in variables if n not in self._definitions or variables[n].is_root)

    def relations_of_kind(self, kind: str) -> list[str]:
        """Names of the relations of a kind, such as `stochastic`."""
        return [name for name, record in self.records.relations.items() if record.kind == kind]

    def variable(self, name: str) -> Variable:
        """Look up a variable; an unknown name raises with similar names as a hint."""
        if name in self.variables:
            return self.variables[name]
        if name in self.constants:
            return self.constants[name]
        raise unknown_name("variable", name, self.units, "assay list prints the variables")

    def relation(self, name: str) -> Relation:
        """Look up a relation; an unknown name raises with similar names as a hint."""
        if name not in self.relations:
            raise unknown_name("relation", name, self.relations)
        return self.relations[name]

    def _constant(self, source: Any) -> Constant:
        facts = self.records.facts(source)
        return Constant(facts["name"], value=facts["value"], **_common(facts))

    def _variable(self, source: Any) -> Variable:
        facts = self.records.facts(source)
        name = facts["name"]
        lower, upper = facts["bounds"]
        variable = Variable(
            name, display=parse_unit(facts["display"]),
            lower=-math.inf if lower is None else lower, upper=math.inf if upper is None else upper,
            boundary=facts["boundary"], family=facts["family"], target=facts["target"],
            library=facts["library"], nature=facts.get("nature", "measure"),
            cases=facts.get("cases", ()), **_common(facts),
        )  # fmt: skip
        variable.define(self._definitions.get(name, ()), self.relations)
        return variable

    def _relation(self, record: RelationRecord) -> Relation:
        facts = self.records.facts(record.source)
        relation = RELATION_KINDS[record.kind](
            name=facts["name"], variable=record.variable, scope=facts["scope"],
            parts=facts["parts"], reference=Reference(*facts["reference"]),
            meaning=facts["meaning"], library=facts["library"], options=facts["options"],
            position=record.position,
        )  # fmt: skip
        if "inputs" in facts:
            relation.use_inputs(facts["inputs"], facts["valid_inputs"])
        if record.formula is not None:
            relation.use_formula(record.formula)
        return relation

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


def _common(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "scope": facts["scope"], "symbol": facts["symbol"], "unit": parse_unit(facts["unit"]),
        "meaning": facts["meaning"], "reference": Reference(*facts["reference"]),
    }  # fmt: skip
