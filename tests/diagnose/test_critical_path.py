"""The critical path: exact on random graphs, and the right events on programs done by hand."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from assay.diagnose.critical_path.path import critical_path, slack
from assay.diagnose.critical_path.threads import Threads
from assay.diagnose.critical_path.walk import DEVICE, walk
from assay.diagnose.replay.edges import KINDS, Edges
from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

STREAM = KINDS.index("stream")


class Schedule:
    """A random graph of device events, each as early as its sources allow."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.count = choose.randint(2, 9)
        self.duration = [choose.randint(1, 50) for _ in range(self.count)]
        self.lag = {
            (before, after): choose.randint(0, 9)
            for after in range(1, self.count)
            for before in range(after)
            if before == 0 or choose.random() < 0.4
        }
        self.start = [0] * self.count
        for after in range(1, self.count):
            self.start[after] = max(
                self.start[before] + self.duration[before] + lag
                for (before, other), lag in self.lag.items()
                if other == after
            )
        self.end = [one + took for one, took in zip(self.start, self.duration, strict=True)]

    def paths_from(self, node: int, delayed: int | None = None, by: int = 0) -> list[int]:
        """The lengths of all paths from the start of a node, one node lasting longer."""
        own = self.duration[node] + (by if node == delayed else 0)
        following = [(other, lag) for (one, other), lag in self.lag.items() if one == node]
        if not following:
            return [own]
        return [own] + [
            own + lag + rest
            for other, lag in following
            for rest in self.paths_from(other, delayed, by)
        ]

    def edges(self) -> Edges:
        pairs = list(self.lag)
        source = np.array([one for one, _ in pairs], np.int64)
        target = np.array([other for _, other in pairs], np.int64)
        lag = np.array(list(self.lag.values()), np.int64)
        ready = np.array(self.end)[source] + lag
        decided = np.zeros(len(pairs), bool)
        for node in range(1, self.count):
            mine = np.flatnonzero(target == node)
            decided[mine[np.argmax(ready[mine])]] = True
        work = np.array(self.duration, np.int64)
        return Edges(
            source, target, np.full(len(pairs), STREAM, np.int8), lag, decided,
            np.arange(self.count), work, {},
        )  # fmt: skip

    def arrays(self) -> tuple[Any, Any, Threads]:
        start, end = np.array(self.start, np.int64), np.array(self.end, np.int64)
        return start, end, Threads(start, end, np.full(self.count, -1, np.int64))


@pytest.mark.parametrize("seed", range(60))
def test_the_path_is_the_longest_of_all_paths(seed: int) -> None:
    schedule = Schedule(seed)
    start, end, threads = schedule.arrays()
    last = int(np.argmax(end))
    path = walk(start, end, schedule.edges(), threads, np.arange(schedule.count), last, 0)
    longest = max(schedule.paths_from(0))
    assert int((path.end - path.start).sum()) == longest == int(end.max())
    assert path.end[:-1].tolist() == path.start[1:].tolist()
    nodes = path.row[path.part == DEVICE].tolist()
    assert nodes[0] == 0
    assert nodes[-1] == last
    assert all(pair in schedule.lag for pair in pairwise(nodes))


@pytest.mark.parametrize("seed", range(60))
def test_slack_is_what_an_event_can_grow_by(seed: int) -> None:
    schedule = Schedule(seed)
    start, end, _ = schedule.arrays()
    found = slack(start, end, schedule.edges(), int(end.max()))
    length = max(schedule.paths_from(0))
    for node in range(schedule.count):
        spare = int(found[node])
        assert max(schedule.paths_from(0, node, spare)) == length
        assert max(schedule.paths_from(0, node, spare + 1)) == length + 1


HOST, CALL, WAIT, KERNEL, COPY = "host", "api", "sync", "kernel", "memcpy"


def trace_of(*rows: tuple[str, str, int, int, int | None, int | None]) -> Trace:
    """A trace of events: kind, name, start, end, stream, correlation, in microseconds."""
    table = pl.DataFrame(
        [
            {
                "kind": kind,
                "name": name,
                "start_ns": 1000 * start,
                "dur_ns": 1000 * (end - start),
                "rank": 0,
                "device": None if stream is None else 0,
                "stream": stream,
                "pid": 1,
                "tid": None if stream is not None else 1,
                "correlation": correlation,
            }
            for kind, name, start, end, stream, correlation in rows
        ]
    )
    return Trace(TraceHeader(), schema.complete(table))


def parts_of(trace: Trace) -> list[tuple[str, str | None, int]]:
    rows = critical_path(trace).segments.select("part", "name", "dur_ns").rows()
    return [(part, name, took // 1000) for part, name, took in rows]


def test_a_host_that_launches_late_is_the_path() -> None:
    launches = [(CALL, "cudaLaunchKernel", 100 * n, 100 * n + 5, None, n) for n in range(8)]
    kernels = [(KERNEL, "k", 100 * n + 6, 100 * n + 20, 7, n) for n in range(8)]
    found = parts_of(trace_of(*launches, *kernels))
    took = {part: sum(one for name, _, one in found if name == part) for part, _, _ in found}
    assert sum(took.values()) == 714
    assert took["device"] == 14
    assert took["launch latency"] == 1
    assert took["host, no event"] + took["host"] == 699


def test_a_device_that_is_busy_is_the_path() -> None:
    launches = [(CALL, "cudaLaunchKernel", 10 * n, 10 * n + 5, None, n) for n in range(8)]
    kernels = [(KERNEL, "k", 100 * n + 6, 100 * n + 104, 7, n) for n in range(8)]
    found = parts_of(trace_of(*launches, *kernels))
    assert [name for name, _, _ in found].count("device") == 8
    assert sum(took for name, _, took in found if name == "device gap") == 14
    assert sum(took for _, _, took in found) == 798


def test_a_wait_leads_back_to_the_device() -> None:
    rows = []
    for n in range(6):
        at = 1000 * n
        rows += [
            (CALL, "cudaLaunchKernel", at, at + 5, None, 2 * n),
            (KERNEL, "k", at + 6, at + 506, 7, 2 * n),
            (CALL, "cudaMemcpyAsync", at + 6, at + 12, None, 2 * n + 1),
            (COPY, "Memcpy DtoH (Device -> Pinned)", at + 507, at + 510, 7, 2 * n + 1),
            (WAIT, "cudaStreamSynchronize", at + 15, at + 514, None, None),
            (HOST, "schedule", at + 514, at + 990, None, None),
        ]
    found = critical_path(trace_of(*rows)).segments
    took = dict(found.group_by("name").agg(pl.col("dur_ns").sum()).iter_rows())
    # Of the wait only its return, of the five steps between the first and the last kernel.
    assert took["cudaStreamSynchronize"] == 5 * 4000
    assert took["schedule"] == 5 * 476_000
    assert took["k"] >= 6 * 500_000
    assert sum(took.values()) == 5_504_000


def test_a_trace_without_device_events_is_refused() -> None:
    with pytest.raises(InputError, match="expected kernels or copies on a device"):
        critical_path(trace_of((HOST, "work", 0, 5, None, None)))
