"""Damaged traces: a replay ends, or says what is wrong; it never crashes."""

from __future__ import annotations

from hypothesis import given, settings

import random_traces
from assay.diagnose.replay import clock
from assay.diagnose.replay.changes import parse
from assay.diagnose.replay.columns import starts
from assay.diagnose.replay.edges import dependencies
from assay.diagnose.replay.whatif import whatif
from assay.errors import AssayError
from assay.observe.trace import Trace


@settings(max_examples=40)
@given(random_traces.traces())
def test_dependencies_of_any_trace(trace: Trace) -> None:
    edges = dependencies(trace)
    assert len(edges.src) == len(edges.dst) == len(edges.kind) == len(edges.lag_ns)
    start = starts(trace.events)[edges.rows]
    assert len(clock.run(edges, start).start) == len(edges.rows)


@settings(max_examples=25)
@given(random_traces.traces())
def test_what_if_of_any_trace(trace: Trace) -> None:
    try:
        found = whatif(trace, [parse("host=0")])
    except AssayError:
        return
    assert found.steps >= 1
