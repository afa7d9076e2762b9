"""Predicted graphs with numbers given by hand, for tests that do not ask the planner."""

from __future__ import annotations

from collections.abc import Mapping

from assay.intervals import Interval
from assay.observe.trace import Trace
from assay.planner.graph import Graph, Node


def node(
    operation: str,
    layer: int | None,
    floor_ns: float,
    expected_ns: float | None = None,
    **fields: object,
) -> Node:
    """A node whose interval is 20 % either side of the expected time."""
    expected = floor_ns * 1.25 if expected_ns is None else expected_ns
    given: dict[str, object] = {
        "name": operation if layer is None else f"layers.{layer}.{operation}",
        "operation": operation, "layer": layer, "phase": "decode", "flops": 0.0,
        "bytes_read": 1000.0 * floor_ns, "bytes_written": 0.0, "floor_ns": floor_ns,
        "expected_ns": expected, "lo_ns": max(floor_ns, 0.8 * expected), "hi_ns": 1.2 * expected,
        "bound": "memory", "stream": 0, "dependencies": (), "equations": (),
    }  # fmt: skip
    return Node(**(given | fields))  # type: ignore[arg-type]


def graph(nodes: list[Node], batch: int = 1, **totals: Interval) -> Graph:
    """A graph of one decode step."""
    expected = sum(one.expected_ns for one in nodes)
    floor = sum(one.floor_ns for one in nodes)
    given = {
        "step": Interval(expected, 0.9 * expected, 1.1 * expected),
        "floor": Interval(floor, floor, floor),
    }
    fields = {"sequences": batch, "context": 128, "prefill_tokens": 0}
    return Graph(tuple(nodes), given | totals, "model", "gpu", "vllm", fields)


def graph_of(trace: Trace, floors: Mapping[str, float], batch: int = 1) -> Graph:
    """A graph with a node for each operation and layer of a trace that has a floor."""
    pairs = trace.events.select("op", "layer").drop_nulls("op").unique(maintain_order=True)
    nodes = [
        node(operation, layer, floors[operation])
        for operation, layer in pairs.sort("layer", nulls_last=True).rows()
        if operation in floors
    ]
    return graph(nodes, batch)
