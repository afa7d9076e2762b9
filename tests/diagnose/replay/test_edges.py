"""Dependencies of a trace: which edges there are, which decided, and an exact self-replay."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from simulated_machine import Machine
from synthetic_traces import synthetic_trace

from assay.diagnose.replay import clock
from assay.diagnose.replay.edges import KINDS, Edges, dependencies
from assay.observe.trace import Trace

CASES = [
    {"behind": behind, "graph": graph, "between_ns": between}
    for behind, graph, between in itertools.product((0, 1), (False, True), (2_000, 45_000))
]


def times(trace: Trace, edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    start = trace.events["start_ns"].to_numpy()[edges.rows]
    return start, start + trace.events["dur_ns"].to_numpy()[edges.rows]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_self_replay_is_exact(case: dict[str, int]) -> None:
    trace = Machine(**case).run()
    edges = dependencies(trace)
    start, end = times(trace, edges)
    found = clock.run(edges, start)
    assert (found.start == start - start.min()).all()
    assert (found.end == end - start.min()).all()


def test_self_replay_of_a_trace_with_nested_operations() -> None:
    trace = synthetic_trace(6_000, devices=2)
    edges = dependencies(trace)
    start, end = times(trace, edges)
    found = clock.run(edges, start)
    assert (found.start == start - start.min()).all()
    assert (found.end == end - start.min()).all()


@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("between", [1_000, 60_000])
def test_waits_are_for_the_copy_of_the_right_step(behind: int, between: int) -> None:
    """Also where no wait blocks, since the host is late (`between` is long)."""
    trace = Machine(behind=behind, between_ns=between, steps=8).run()
    edges = dependencies(trace)
    waits = edges.kind == KINDS.index("wait")
    events = trace.events.with_row_index("row").with_columns(pl.col("name").cast(pl.String))
    copies = events.filter(pl.col("name").str.contains("DtoH")).sort("start_ns")["row"].to_list()
    calls = events.filter(pl.col("name") == "cudaEventSynchronize").sort("start_ns")["row"]
    target = dict(zip(edges.dst[waits].tolist(), edges.src[waits].tolist(), strict=True))
    assert [target[call] for call in calls] == copies


def test_which_edge_decided() -> None:
    late_host = dependencies(Machine(between_ns=60_000).run())
    early_host = dependencies(Machine(between_ns=500).run())
    launch, stream = KINDS.index("launch"), KINDS.index("stream")
    assert late_host.binding[late_host.kind == launch].mean() > 0.95
    assert early_host.binding[early_host.kind == stream].mean() > 0.9
    assert late_host.usual_ns["launch"] == 8_000
    assert early_host.usual_ns["stream"] == 1_000
    assert early_host.usual_ns["event"] == 1_000


def test_nodes_of_a_graph_are_in_order() -> None:
    edges = dependencies(Machine(graph=True, steps=5, layers=4).run())
    graph = edges.kind == KINDS.index("graph")
    assert graph.sum() == 5 * (4 * 3 - 1)
    assert edges.usual_ns["graph"] == 1_000
    # One launch edge a graph, and one a copy.
    assert (edges.kind == KINDS.index("launch")).sum() == 10


def test_a_trace_without_events_has_no_edges() -> None:
    trace = Machine(steps=1).run()
    empty = Trace(trace.header, trace.events.clear(), trace.steps.clear())
    edges = dependencies(empty)
    assert len(edges.src) == len(edges.rows) == 0
    assert len(clock.run(edges, np.zeros(0, np.int64)).start) == 0
