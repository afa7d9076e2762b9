"""A captured graph as a target: replays of it with a delay before each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from assay.closing import Closing
from assay.diagnose.delays.design import selected
from assay.diagnose.delays.target import Run, TargetNode
from assay.errors import InputError
from assay.runtime.delays import DelaySlots
from assay.runtime.graphs import Graph, GraphNode

AGREEMENT: Final = 0.01
"""A run ends when its two fastest replays agree to this share: then nothing disturbed them."""
MOST_REPLAYS: Final = 30
"""A run on a busy machine ends here."""


class GraphTarget(Closing):
    """Replays a graph that it captures anew with delays; use it as a context manager.

    The time of a step is the device's, between events before and after a replay, and the least of
    the replays of a run: the work is the same each time, and what disturbs it only adds time.
    """

    def __init__(
        self, graph: Graph, *, nodes: Sequence[str] | None = None, replays: int | None = None
    ) -> None:
        """Delay the nodes that match these patterns, by default all.

        A run is so many replays; by default until the two fastest agree.
        """
        if replays is not None and replays < 1:
            raise InputError(f"replays: expected at least 1, got {replays}")
        if not graph.nodes:
            raise InputError("delays: expected a graph with nodes, got an empty one")
        labels = [node.label for node in graph.nodes]
        parts = zip(node_names(labels), labels, chains(graph.nodes), strict=True)
        every = [TargetNode(*part) for part in parts]
        self._nodes: Final = tuple(selected(every, nodes))
        self._plain: Final = graph
        self._replays: Final = replays
        self._slots: Final = DelaySlots(graph.device, len(self._nodes))
        self._delayed: Final = graph.with_delays(
            {every.index(node): slot for slot, node in enumerate(self._nodes)}, self._slots
        )
        self._zero: Final = dict.fromkeys((node.name for node in self._nodes), 0)

    @property
    def nodes(self) -> tuple[TargetNode, ...]:
        """The nodes that can be delayed, in order."""
        return self._nodes

    @property
    def least_delay_ns(self) -> int:
        """The shortest delay of a node that the target keeps accurately."""
        return self._plain.device.capabilities.least_delay_ns

    def plain(self) -> float:
        """A replay of the graph as it was given."""
        return self._fastest(lambda: Run(float(self._time(self._plain)), 0.0)).step_ns

    def run(self, delays_ns: Mapping[str, int]) -> Run:
        """Replay with these delays."""
        delays = list({**self._zero, **delays_ns}.values())

        def replay() -> Run:
            self._slots.set(delays)
            step_ns = self._time(self._delayed)
            return Run(float(step_ns), float(sum(self._slots.spent_ns())))

        return self._fastest(replay)

    def _fastest(self, replay: Callable[[], Run]) -> Run:
        if self._replays is not None:
            return min(replay() for _ in range(self._replays))
        fastest, second = sorted((replay(), replay()))
        replays = 2
        while second.step_ns > (1 + AGREEMENT) * fastest.step_ns and replays < MOST_REPLAYS:
            fastest, second = sorted((fastest, second, replay()))[:2]
            replays += 1
        return fastest

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


def chains(nodes: Sequence[GraphNode]) -> list[str]:
    """For each node its chain: nodes of a stream with no wait of another stream between them."""
    forks = {index for node in nodes for index in node.after}
    chain_of: dict[int, int] = {}
    last_of: dict[int, int] = {}
    for index, node in enumerate(nodes):
        before = last_of.get(node.stream)
        goes_on = before is not None and before not in forks and not node.after
        chain_of[index] = chain_of[before] if goes_on and before is not None else index
        last_of[node.stream] = index
    return [str(chain_of[index]) for index in range(len(nodes))]


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
