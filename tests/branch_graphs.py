"""Graphs of parallel branches whose critical path is known from their durations."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from assay.runtime import Device
from assay.runtime.delays import DelaySlots
from assay.runtime.graphs import Graph, capture_graph


class BranchGraph(NamedTuple):
    """A root, then branches of timed nodes, joined at the end."""

    graph: Graph
    work: DelaySlots
    """The durations of the nodes; the graph reads them when it runs."""
    durations_ns: tuple[tuple[int, ...], ...]

    @property
    def critical(self) -> int:
        """The branch that takes longest."""
        totals = [sum(branch) for branch in self.durations_ns]
        return totals.index(max(totals))

    def names(self, branch: int) -> list[str]:
        """The timed nodes of a branch."""
        return [f"branch{branch}.{node}" for node in range(len(self.durations_ns[branch]))]

    @property
    def all_names(self) -> list[str]:
        return [name for branch in range(len(self.durations_ns)) for name in self.names(branch)]


def branch_graph(
    device: Device,
    durations_ns: Sequence[Sequence[int]],
    *,
    fill_bytes: int = 4096,
    labels: dict[str, str] | None = None,
) -> BranchGraph:
    """Capture branches of waits with these durations, each wait followed by a fill of memory."""
    flat = [duration for branch in durations_ns for duration in branch]
    work = DelaySlots(device, len(flat))
    work.set(flat)
    root = device.allocate(4096)
    buffers = [device.allocate(max(fill_bytes, 4096)) for _ in durations_ns]
    streams = [device.stream() for _ in durations_ns]
    first_slots = [sum(map(len, durations_ns[:index])) for index in range(len(durations_ns))]
    names = labels or {}

    def branch_work(branch: int) -> None:
        buffer = buffers[branch]
        for node in range(len(durations_ns[branch])):
            name = f"branch{branch}.{node}"
            label = names.get(name, name)
            work.queue(first_slots[branch] + node, after=[buffer], label=label)
            device.fill(f"fill{branch}.{node}", buffer, 0, node, fill_bytes)

    def step() -> None:
        device.fill("root", root, 0, 1, 4096)
        for branch in range(1, len(durations_ns)):
            with streams[branch]:
                # Reads what the root wrote, and so joins the capture behind it.
                device.copy(f"start{branch}", root, 0, buffers[branch], 0, 4096)
                branch_work(branch)
        branch_work(0)

    graph = capture_graph(step, device=device, label="branches")
    return BranchGraph(graph, work, tuple(tuple(branch) for branch in durations_ns))


def random_durations(
    source: random.Random, shortest_ns: int, margin: float = 0.3
) -> list[list[int]]:
    """Two to four branches of one to three nodes; one, drawn at random, exceeds all by a margin."""
    count = source.randint(2, 4)
    critical = source.randrange(count)
    longest = shortest_ns * (1 + source.random())
    totals = [
        longest * (1 + margin) if branch == critical else longest * source.uniform(0.3, 1.0)
        for branch in range(count)
    ]
    branches = []
    for total in totals:
        nodes = source.randint(1, 3)
        shares = [source.uniform(0.5, 1.5) for _ in range(nodes)]
        branches.append([round(total * share / sum(shares)) for share in shares])
    return branches
