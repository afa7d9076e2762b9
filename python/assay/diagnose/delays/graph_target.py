"""A captured graph as a target: replays of it with a delay before each node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from assay.diagnose.delays.target import Run, TargetNode
from assay.errors import InputError
from assay.runtime.delays import DelaySlots
from assay.runtime.graphs import Graph

PILOT_REPLAYS: Final = 40
UNDISTURBED: Final = 0.05
"""A replay within this share of the fastest is taken for undisturbed."""
MISSED: Final = 0.02
"""How often a run may have no undisturbed replay."""
REPLAYS: Final = range(3, 31)
"""The replays of a run, at least and at most."""


class GraphTarget:
    """Replays a graph that it captures anew with delays; use it as a context manager.

    The time of a step is the device's, between events before and after a replay, and the least of
    the replays of a run: the work is the same each time, and what disturbs it only adds time.
    """

    def __init__(
        self, graph: Graph, *, replays: int | None = None, indices: Sequence[int] | None = None
    ) -> None:
        """Delay the nodes of these indices, by default all.

        A run is so many replays; by default as many as find one that nothing disturbs.
        """
        if replays is not None and replays < 1:
            raise InputError(f"replays: expected at least 1, got {replays}")
        if not graph.nodes:
            raise InputError("delays: expected a graph with nodes, got an empty one")
        chosen = range(len(graph.nodes)) if indices is None else indices
        names = node_names([node.label for node in graph.nodes])
        self._plain: Final = graph
        self._nodes: Final = tuple(
            TargetNode(names[index], graph.nodes[index].label) for index in chosen
        )
        self._slots: Final = DelaySlots(graph.device, len(self._nodes))
        self._delayed: Final = graph.with_delays(
            {index: slot for slot, index in enumerate(chosen)}, self._slots
        )
        self._zero: Final = dict.fromkeys((node.name for node in self._nodes), 0)
        self.replays: Final = replays or self._needed_replays()
        """Replays of a run."""

    @property
    def nodes(self) -> tuple[TargetNode, ...]:
        """The nodes that can be delayed, in order."""
        return self._nodes

    @property
    def least_delay_ns(self) -> int:
        """The shortest delay of one node that is kept well."""
        return self._plain.device.capabilities.least_delay_ns

    def plain(self) -> float:
        """A replay of the graph as it was given."""
        return float(min(self._time(self._plain) for _ in range(self.replays)))

    def run(self, delays_ns: Mapping[str, int]) -> Run:
        """Replay with these delays."""
        delays = list({**self._zero, **delays_ns}.values())
        runs = []
        for _ in range(self.replays):
            self._slots.set(delays)
            step_ns = self._time(self._delayed)
            runs.append(Run(float(step_ns), float(sum(self._slots.spent_ns()))))
        return min(runs)

    def _needed_replays(self) -> int:
        """Replays of which all but a small share of runs have one that nothing disturbs."""
        times = [self._time(self._delayed) for _ in range(PILOT_REPLAYS)]
        limit = min(times) * (1 + UNDISTURBED)
        disturbed = sum(time > limit for time in times) / PILOT_REPLAYS
        needed = math.ceil(math.log(MISSED) / math.log(disturbed)) if 0 < disturbed < 1 else 1
        return min(max(needed, REPLAYS[0]), REPLAYS[-1])

    def _time(self, graph: Graph) -> int:
        stream = graph.device.current_stream()
        start = stream.record()
        graph.replay(stream)
        end = stream.record()
        end.synchronize()
        return end.elapsed_ns(start)

    def close(self) -> None:
        """Destroy the graph with delays; the given one stays."""
        self._delayed.close()

    def __enter__(self) -> GraphTarget:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def node_names(labels: Sequence[str]) -> list[str]:
    """Labels made unique by a number where there are several of a kind.

    >>> node_names(["copy", "fill", "copy"])
    ['copy#1', 'fill', 'copy#2']
    """
    counts = Counter(labels)
    seen: Counter[str] = Counter()
    names = []
    for label in labels:
        seen[label] += 1
        names.append(label if counts[label] == 1 else f"{label}#{seen[label]}")
    return names
