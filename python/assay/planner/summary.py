"""A predicted graph by operation: time, floor and bytes over all its layers."""

from __future__ import annotations

from dataclasses import dataclass

from assay.planner.graph import Graph


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """All nodes of one operation."""

    operation: str
    nodes: int
    expected_ns: float
    lo_ns: float
    hi_ns: float
    floor_ns: float
    bytes: float
    flops: float
    bound: str
    """What bounds most of its time."""
    stream: int


def by_operation(graph: Graph) -> list[OperationSummary]:
    """One row an operation and stream, the longest first; the intervals of layers move together."""
    groups: dict[tuple[str, int], list[int]] = {}
    for index, node in enumerate(graph.nodes):
        groups.setdefault((_label(graph, index), node.stream), []).append(index)
    rows = []
    for (label, stream), members in groups.items():
        nodes = [graph.nodes[index] for index in members]
        bounds: dict[str, float] = {}
        for node in nodes:
            bounds[node.bound] = bounds.get(node.bound, 0.0) + node.expected_ns
        rows.append(
            OperationSummary(
                label, len(nodes), sum(n.expected_ns for n in nodes), sum(n.lo_ns for n in nodes),
                sum(n.hi_ns for n in nodes), sum(n.floor_ns for n in nodes),
                sum(n.bytes_read + n.bytes_written for n in nodes), sum(n.flops for n in nodes),
                max(bounds, key=lambda bound: bounds[bound]), stream,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row.expected_ns)


def _label(graph: Graph, index: int) -> str:
    node = graph.nodes[index]
    return node.name if node.stream < 0 else node.operation
