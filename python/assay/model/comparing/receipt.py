"""Receipts: a value as lines, each with its share of the total, its interval and its equation.

Every variable behind the value is one line, which names its inputs with the share of the line that
each carries. A tree follows from there: the share of a line on a path is the product of the shares
along it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.errors import AssayError
from assay.model.comparing.shares import shares
from assay.model.language.variables import Constant
from assay.model.resolving.provenance import ProvenanceEntry, explain
from assay.model.resolving.resolve import account, find_intervals

if TYPE_CHECKING:
    from assay.model.resolving.resolution import Resolution
    from assay.model.resolving.resolver import Resolver

WHOLE_DEPTH: Final = 1_000_000
"""A depth that no chain of definitions reaches."""


class ReceiptInput(NamedTuple):
    """An input of a line; `share` is the part of the line that follows it, None where unknown."""

    name: str
    share: float | None


@dataclass(frozen=True, slots=True)
class ReceiptLine:
    """A variable behind the total; `share` counts all paths from it to the total."""

    entry: ProvenanceEntry
    lower: float | None
    upper: float | None
    share: float | None
    inputs: tuple[ReceiptInput, ...]

    def to_data(self) -> dict[str, Any]:
        """The line as plain data, in the variable's display unit."""
        variable = self.entry.variable
        data = self.entry.to_data()
        for key in ("depth", "parts"):
            del data[key]
        shown = (
            None
            if self.entry.value is None
            else variable.figure(self.entry.value, self.lower, self.upper)
        )
        return {
            **data,
            "lo": None if self.lower is None else variable.shown(self.lower),
            "hi": None if self.upper is None else variable.shown(self.upper),
            "figure": shown.text if shown else "",
            "interval": shown.interval.strip() if shown else "",
            "scope": variable.scope,
            "family": variable.family,
            "share": self.share,
            "inputs": [{"name": part.name, "share": part.share} for part in self.inputs],
        }


class PathLine(NamedTuple):
    """A line of the tree: its level, and its share of the total along this path alone."""

    line: ReceiptLine
    depth: int
    share: float | None
    is_repeated: bool
    left_out: int
    """Inputs that are not listed: below the depth, or with too small a share."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A resolved value and its lines by name, the total first."""

    resolution: Resolution
    lines: Mapping[str, ReceiptLine]
    notes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The receipt as plain data: the keys of the resolution, with lines instead of the trace."""
        data = self.resolution.to_data()
        del data["trace"]
        data["lines"] = [line.to_data() for line in self.lines.values()]
        data["notes"] = list(self.notes)
        return data

    def paths(self, depth: int, least_share: float) -> Iterator[PathLine]:
        """The tree in preorder, largest shares first; inputs of a variable are listed once.

        A line whose share is known and less than `least_share` is left out.
        """
        total = 1.0 if self.resolution.value else None
        stack: list[tuple[str, int, float | None]] = [(self.resolution.target, 0, total)]
        listed: set[str] = set()
        while stack:
            name, level, share = stack.pop()
            line = self.lines[name]
            below = [(part.name, _product(share, part.share)) for part in line.inputs]
            below.sort(key=lambda item: -abs(item[1]) if item[1] is not None else 0.0)
            shown = [item for item in below if item[1] is None or abs(item[1]) >= least_share]
            repeated = name in listed and bool(below)
            if repeated or level >= depth:
                shown = []
            if not repeated:
                listed.add(name)
            stack += [(needed, level + 1, part) for needed, part in reversed(shown)]
            yield PathLine(line, level, share, repeated, 0 if repeated else len(below) - len(shown))


def make_receipt(
    resolver: Resolver,
    target: str,
    *,
    sources: Mapping[str, str] | None = None,
    intervals: bool = True,
) -> Receipt:
    """The receipt of a target; without `intervals`, uncertain inputs stand at their medians.

    `sources` says where given values come from.
    """
    registry = resolver.registry
    resolution = account(resolver, target, {})
    names = [s.variable.name for s in resolution.trace if not isinstance(s.variable, Constant)]
    # The target has the interval that resolving it alone gives.
    sampled = find_intervals(resolver, list(dict.fromkeys([*names, target]))) if intervals else {}
    resolution = account(resolver, target, sampled)
    carried = shares(registry, resolution)
    notes = [f"no share below {name}: its relation has no slope" for name in carried.opaque]
    tree = explain(
        registry, resolution, variants=resolver.variants, sources=sources, depth=WHOLE_DEPTH
    )
    lines: dict[str, ReceiptLine] = {}
    for entry in tree.entries:
        name = entry.variable.name
        if name in lines:
            continue
        ends = sampled.get(name, (None, None, ()))
        if isinstance(ends, AssayError):
            notes.append(f"no interval of {name}: {ends.message}")
            ends = (None, None, ())
        needed = resolution.taken.get(name, entry.relation.inputs) if entry.relation else ()
        inputs = tuple(ReceiptInput(each, carried.local.get((name, each))) for each in needed)
        lines[name] = ReceiptLine(entry, ends[0], ends[1], carried.of_target.get(name), inputs)
    return Receipt(resolution, lines, tuple(notes))


def _product(share: float | None, other: float | None) -> float | None:
    return None if share is None or other is None else share * other
