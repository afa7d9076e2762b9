"""Provenance: the tree of equations and inputs behind a resolved value, cut at a depth.

The tree is a flat list in preorder: each entry has a depth, and its inputs follow it. The inputs
of a variable are listed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.model.language.references import Reference
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable
from assay.model.resolving.resolution import Resolution
from assay.model.selection import candidates

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

READABLE_ENTRIES: Final = 100
READABLE_DEPTH: Final = 12
"""Limits of a provenance tree when no depth is given."""


@dataclass(frozen=True, slots=True)
class ProvenanceEntry:
    """One node of the provenance tree, in base units.

    `status` is `computed`, `given`, `constant`, `missing` (an input without a value) or
    `incomplete` (computed, but inputs are missing). `parts` says what follows: `listed`,
    `above` (listed once already), `cut` (below the depth) or `none`.
    """

    variable: Variable
    depth: int
    value: float | None
    status: str
    relation: Relation | None
    parts: str
    source: str
    block: str | None

    def to_data(self) -> dict[str, Any]:
        """The entry as plain data, in the variable's display unit."""
        return {
            "name": self.variable.name,
            "depth": self.depth,
            "symbol": self.variable.symbol,
            "meaning": self.variable.meaning,
            "value": None if self.value is None else self.variable.shown(self.value),
            "unit": self.variable.display.text,
            "status": self.status,
            "relation": self.relation.name if self.relation else None,
            "text": self.relation.text if self.relation else None,
            "source": self.source,
            "block": self.block,
            "parts": self.parts,
        }


@dataclass(frozen=True, slots=True)
class Provenance:
    """A resolution and the entries behind its value, down to `depth`."""

    resolution: Resolution
    depth: int
    entries: tuple[ProvenanceEntry, ...]

    @property
    def is_cut(self) -> bool:
        """Whether entries below the depth were left out."""
        return any(entry.parts == "cut" for entry in self.entries)

    def to_data(self) -> dict[str, Any]:
        """The provenance as plain data: the keys of the resolution, with entries instead of the trace."""
        data = self.resolution.to_data()
        del data["trace"]
        data["depth"] = self.depth
        data["cut"] = self.is_cut
        data["provenance"] = [entry.to_data() for entry in self.entries]
        return data


def explain(
    registry: Declarations,
    resolution: Resolution,
    *,
    variants: Mapping[str, str] | None = None,
    sources: Mapping[str, str] | None = None,
    depth: int | None = None,
) -> Provenance:
    """The provenance of a resolved value, down to `depth` levels below it.

    Without a depth the tree is as deep as READABLE_ENTRIES and READABLE_DEPTH allow. `sources` says
    where given values come from, and `variants` are those the value was resolved with.
    """
    builder = _Builder(registry, resolution, variants or {}, sources or {})
    if depth is not None:
        if depth < 0:
            raise InputError(f"depth: expected a whole number >= 0, got {depth}")
        return Provenance(resolution, depth, tuple(builder.entries(depth)))
    chosen = Provenance(resolution, 0, tuple(builder.entries(0)))
    for deeper in range(1, READABLE_DEPTH + 1):
        if not chosen.is_cut:
            break
        candidate = Provenance(resolution, deeper, tuple(builder.entries(deeper)))
        if len(candidate.entries) > READABLE_ENTRIES and deeper > 1:
            break
        chosen = candidate
    return chosen


def describe_source(reference: Reference) -> str:
    """A reference as a line of text."""
    if reference.kind == "definition":
        return f"by definition: {reference.work}" if reference.work else "by definition"
    if reference.kind == "fitted":
        return f"fitted: {reference.where}, {reference.work}"
    return str(reference)


class _Builder:
    def __init__(
        self,
        registry: Declarations,
        resolution: Resolution,
        variants: Mapping[str, str],
        sources: Mapping[str, str],
    ) -> None:
        self.registry = registry
        self.target = resolution.target
        self.taken = resolution.taken
        self.steps = {step.variable.name: step for step in resolution.trace}
        self.variants = variants
        self.sources = sources

    def entries(self, depth: int) -> list[ProvenanceEntry]:
        """All entries down to the depth, each before its inputs."""
        listed: set[str] = set()
        entries: list[ProvenanceEntry] = []
        stack = [(self.target, 0)]
        while stack:
            name, level = stack.pop()
            relation = self.relation(name)
            inputs = self.taken.get(name, relation.inputs) if relation else ()
            if not inputs:
                parts = "none"
            elif name in listed:
                parts = "above"
            elif level >= depth:
                parts = "cut"
            else:
                parts = "listed"
                listed.add(name)
                stack += [(needed, level + 1) for needed in reversed(inputs)]
            entries.append(self.entry(name, level, relation, parts))
        return entries

    def relation(self, name: str) -> Relation | None:
        """The relation behind a value; where inputs are missing, the one that would be used."""
        if name in self.steps:
            return self.steps[name].relation
        variable = self.registry.variable(name)
        return None if variable.is_given(self.variants) else candidates(variable, self.variants)[0]

    def entry(
        self, name: str, level: int, relation: Relation | None, parts: str
    ) -> ProvenanceEntry:
        """One entry with its status and source."""
        variable = self.registry.variable(name)
        step = self.steps.get(name)
        if relation is not None:
            status = "computed" if step else "incomplete"
            source = describe_source(relation.reference)
        elif isinstance(variable, Constant):
            status, source = "constant", describe_source(variable.reference)
        elif step is not None:
            status, source = "given", self.sources.get(name, "given")
        else:
            status, source = "missing", ""
        block = self.registry.block_of.get(name) if relation else None
        return ProvenanceEntry(
            variable=variable,
            depth=level,
            value=step.value if step else None,
            status=status,
            relation=relation,
            parts=parts,
            source=source,
            block=block.name if block else None,
        )
