"""Which nodes of a predicted graph an operation of a trace is.

Engines fuse differently than a prediction assumes: `input_norm+qkv_proj` in one may be `input_norm`
and `qkv_proj` in the other. Operations that share a part are one *site*, compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.observe.operations import LAYER_OPERATIONS, STEP_OPERATIONS, parts
from assay.observe.structure.collectives import OPERATIONS as COLLECTIVES

if TYPE_CHECKING:
    from assay.planner.graph import Graph, Node

_LOOSE: Final = ("quantize", *COLLECTIVES)
"""Parts that occur in several places of a layer: sharing one does not make two kernels one site."""

_ORDER: Final = {name: place for place, name in enumerate((*LAYER_OPERATIONS, *STEP_OPERATIONS))}

TOLERATED: Final = 0.1
"""Relative difference of batch or prompt tokens up to which a graph stands for a step."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a prediction says of a site in one layer."""

    floor_ns: float
    expected_ns: float
    lo_ns: float
    hi_ns: float
    flops: float
    bytes: float
    kernels: int
    bound: str
    """Of the node that is expected to take longest."""
    beside: bool
    """Whether all of it is to run beside the main stream."""


class Sites:
    """Sites of the operations of a trace and of graphs."""

    def __init__(self, operations: Iterable[str], graphs: Sequence[Graph]) -> None:
        """Join operations that share a part."""
        predicted = [node.operation for graph in graphs for node in graph.nodes]
        members = list(dict.fromkeys([*predicted, *operations]))
        root = {name: name for name in members}

        def find(name: str) -> str:
            while root[name] != name:
                root[name] = root[root[name]]
                name = root[name]
            return name

        holder: dict[str, str] = {}
        for name in members:
            pieces = parts(name)
            linking = [part for part in pieces if part not in _LOOSE] or pieces
            for part in linking:
                if part in holder:
                    root[find(name)] = find(holder[part])
                holder.setdefault(part, name)
        groups: dict[str, list[str]] = {}
        for name in members:
            groups.setdefault(find(name), []).append(name)
        self._site = {name: _joined(group) for group in groups.values() for name in group}

    def of(self, operation: str) -> str:
        """The site of an operation: its parts and those it is compared with, joined by `+`."""
        return self._site[operation]

    def predicted(self, graph: Graph) -> dict[tuple[str, int | None], Site]:
        """What a graph says of each site and layer."""
        nodes: dict[tuple[str, int | None], list[Node]] = {}
        for node in graph.nodes:
            # Nodes of the host are no kernels.
            if node.stream >= 0:
                nodes.setdefault((self.of(node.operation), node.layer), []).append(node)
        return {key: _sum(members) for key, members in nodes.items()}


def _joined(group: Sequence[str]) -> str:
    names = dict.fromkeys(part for name in group for part in parts(name))
    return "+".join(sorted(names, key=lambda name: _ORDER.get(name, len(_ORDER))))


def _sum(nodes: Sequence[Node]) -> Site:
    expected = sum(node.expected_ns for node in nodes)
    # Errors of neighboring kernels of one site are taken as independent of each other.
    down = sum((node.expected_ns - node.lo_ns) ** 2 for node in nodes) ** 0.5
    up = sum((node.hi_ns - node.expected_ns) ** 2 for node in nodes) ** 0.5
    floor = sum(node.floor_ns for node in nodes)
    return Site(
        floor_ns=floor,
        expected_ns=expected,
        lo_ns=max(expected - down, floor),
        hi_ns=expected + up,
        flops=sum(node.flops for node in nodes),
        bytes=sum(node.bytes_read + node.bytes_written for node in nodes),
        kernels=sum(node.kernels for node in nodes),
        bound=max(nodes, key=lambda node: node.expected_ns).bound,
        beside=all(node.stream > 0 for node in nodes),
    )


def graph_phase(graph: Graph) -> str:
    """The phase that most nodes of a graph are of."""
    phases = [node.phase for node in graph.nodes]
    return max(dict.fromkeys(phases), key=phases.count) if phases else "decode"


def graph_of_step(step: dict[str, Any], graphs: Sequence[Graph]) -> int | None:
    """The graph that stands for a step: of its phase, and of its batch where that is known."""
    phase = step["phase"]
    for number, graph in enumerate(graphs):
        if phase is not None and graph_phase(graph) != phase:
            continue
        sizes = [(step["batch"], graph.batch.get("sequences")) if phase == "decode" else None,
                 (step["prefill_tokens"], graph.batch.get("prefill_tokens"))
                 if phase in ("prefill", "mixed") else None]  # fmt: skip
        if all(size is None or _near(*size) for size in sizes):
            return number
    return None


def _near(observed: int | None, predicted: float | None) -> bool:
    if observed is None or predicted is None:
        return True
    return abs(observed - predicted) <= TOLERATED * max(predicted, 1)
