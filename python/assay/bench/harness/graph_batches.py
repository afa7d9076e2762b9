"""Short operations in groups, each a graph: the way an engine runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

from assay.bench.harness.clocks import Call
from assay.runtime.graphs import capture_graph
from assay.runtime.hardware import Device

GROUP_BYTES: Final = 8 << 20
"""What a group moves about: starting it from Python then costs little beside it."""

GPU_GROUP_BYTES: Final = 2 << 30
"""The same of a GPU, which moves it in half a millisecond."""

MOST_NODES: Final = 1000
"""Operations in one graph of a GPU at most, or one round of them."""


def batch_into_graphs(
    device: Device, operations: Sequence[Callable[[], object]], nbytes: float
) -> tuple[Call, int]:
    """A call that does the operations in turn, and how many of them it does at once.

    Each moves `nbytes`. Long ones go alone; short ones are captured, as many as make a group. On
    a GPU a group may go through them several times.
    """
    if device.capabilities.is_gpu:
        rounds = int(GPU_GROUP_BYTES // max(nbytes * len(operations), 1.0))
        if rounds < 1:
            return lambda number: operations[number % len(operations)](), 1
        several = list(operations) * min(rounds, -(-MOST_NODES // len(operations)))
        graph = capture_graph(functools.partial(_all, several), device=device)
        return lambda _: graph.replay(), len(several)
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
