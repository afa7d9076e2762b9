"""The time of a launch on a GPU: calls of a graph, whose launches then cost next to nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final

from assay.runtime import Device
from assay.runtime.graphs import capture_graph

CALLS: Final = 20
"""Calls of a graph."""
REPLAYS: Final = 15


def microseconds(call: Callable[[], object], device: Device) -> float:
    """The median time of a call; operands stay in L2 where they fit."""

    def calls(count: int = CALLS) -> None:
        for _ in range(count):
            call()

    calls(1)
    with capture_graph(calls, device=device) as graph:
        times = []
        stream = device.current_stream()
        for _ in range(3 + REPLAYS):
            start = stream.record()
            graph.replay()
            end = stream.record()
            end.synchronize()
            times.append(end.elapsed_ns(start) / 1e3 / CALLS)
    return statistics.median(times[3:])
