"""Batches of short operations, each captured as a graph, as an engine runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

from assay.bench.harness.clocks import Call
from assay.runtime.graphs import capture_graph
from assay.runtime.hardware import Device

GROUP_BYTES: Final = 8 << 20
"""Bytes that a batch moves: launching it from Python then costs little beside it."""

GPU_GROUP_BYTES: Final = 2 << 30
"""The same on a GPU, which moves them in half a millisecond."""

MOST_NODES: Final = 1000
"""Maximum number of nodes of a GPU graph, or one pass over the operations if that is more."""


def batch_into_graphs(
    device: Device, operations: Sequence[Callable[[], object]], nbytes: float
) -> tuple[Call, int]:
    """A call that rotates through the operations, and how many operations one call makes.

    Each moves `nbytes`. Long operations are called one by one; short ones are captured in graphs
    of as many as make a batch. On a GPU a graph may contain all operations several times.
    """
    if device.capabilities.is_gpu:
        rounds = int(GPU_GROUP_BYTES // max(nbytes * len(operations), 1.0))
        if rounds < 1:
            return lambda number: operations[number % len(operations)](), 1
        nodes = list(operations) * min(rounds, -(-MOST_NODES // len(operations)))
        graph = capture_graph(functools.partial(_all, nodes), device=device)
        return lambda _: graph.replay(), len(nodes)
    times = min(int(GROUP_BYTES // max(nbytes, 1.0)), len(operations))
    if times < 2:
        return lambda number: operations[number % len(operations)](), 1
    starts = range(0, len(operations) - times + 1, times)
    graphs = [
        capture_graph(functools.partial(_all, operations[start : start + times]), device=device)
        for start in starts
    ]
    return lambda number: graphs[number % len(graphs)].replay(), times


def _all(operations: Sequence[Callable[[], object]]) -> None:
    for operation in operations:
        operation()
