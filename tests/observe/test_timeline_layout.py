"""Lanes, tracks, windows and sums of a timeline, against brute force."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from synthetic_traces import synthetic_trace

from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.operations import LAYER_OPERATIONS, STEP_OPERATIONS
from assay.observe.timeline import usage
from assay.observe.timeline.codes import codes
from assay.observe.timeline.lanes import layout
from assay.observe.timeline.nesting import innermost, merged, tracks
from assay.observe.timeline.palette import family, palette
from assay.observe.timeline.view import view
from assay.observe.timeline.window import Window, step_window, time_window
from assay.observe.trace import Trace

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40)


def ordered(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    found = sorted((start, -(start + length)) for start, length in spans)
    start = np.array([one[0] for one in found], np.int64)
    return start, np.array([-one[1] for one in found], np.int64)


@given(SPANS)
def test_spans_of_a_track_do_not_overlap(spans: list[tuple[int, int]]) -> None:
    start, end = ordered(spans)
    row = tracks(start, end)
    for one in range(len(start)):
        for other in range(one):
            if row[one] == row[other]:
                assert max(end[other], start[other] + 1) <= start[one]


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, min_size=1, max_size=3)))
def test_nested_spans_stack_by_depth(tree: list) -> None:
    spans: list[tuple[int, int, int]] = []

    def walk(node: list, clock: int, depth: int) -> int:
        begin, clock = clock, clock + 1
        for child in node:
            clock = walk(child, clock, depth + 1) + 1
        spans.append((begin, clock + 1, depth))
        return clock + 1

    walk(tree, 0, 0)
    spans.sort()
    start = np.array([one[0] for one in spans])
    end = np.array([one[1] for one in spans])
    depth = tracks(start, end)
    assert depth.tolist() == [one[2] for one in spans]
    owners = innermost(start, end, depth)
    for moment in range(int(end.max())):
        deepest = max(
            (one for one in range(len(spans)) if start[one] <= moment < end[one]),
            key=lambda one: depth[one],
        )
        [owner] = owners.owner[(owners.start <= moment) & (owners.end > moment)]
        assert owner == deepest


@given(SPANS)
def test_merged_spans_cover_the_same_moments(spans: list[tuple[int, int]]) -> None:
    start, end = ordered([one for one in spans if one[1]])
    found = merged(start, end)
    assert sorted(
        moment
        for low, high in zip(found.start, found.end, strict=True)
        for moment in range(low, high)
    ) == sorted({m for low, high in zip(start, end, strict=True) for m in range(low, high)})


@settings(max_examples=40)
@given(SPANS, st.integers(0, 40), st.integers(1, 60), st.integers(1, 13))
def test_columns_hold_the_clipped_time(
    spans: list[tuple[int, int]], low: int, length: int, count: int
) -> None:
    rows = [
        {"kind": "kernel", "name": f"k{start % 3}", "start_ns": start, "dur_ns": dur}
        for start, dur in spans
    ] or [{"kind": "kernel", "name": "k", "start_ns": 0, "dur_ns": 1}]
    trace = Trace(TraceHeader(), pl.DataFrame(rows, schema=schema.event_columns()))
    drawn = layout(trace)
    window = Window(low, low + length)
    label = usage.labels(drawn.events, "kernel").values[drawn.order]
    cells = usage.columns(drawn, drawn.lanes[0], window, label, count)
    busy = {
        moment
        for row in rows
        for moment in range(row["start_ns"], row["start_ns"] + row["dur_ns"])
        if low <= moment < low + length
    }
    assert cells.busy_ns == len(busy)
    assert cells.coverage.sum() * length / count == pytest.approx(len(busy), abs=1e-6)
    expected: dict[str, int] = defaultdict(int)
    for row in rows:
        end = min(row["start_ns"] + row["dur_ns"], low + length)
        expected[row["name"]] += max(end - max(row["start_ns"], low), 0)
    # Spans without duration count, but take no time.
    sums = {one.name: one.ns for one in usage.device_sums(drawn, window, "kernel") if one.ns}
    assert sums == {name: ns for name, ns in expected.items() if ns}


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.text(max_size=3))))
def test_codes_spell_the_column(values: list[str | None]) -> None:
    column = pl.Series(values, dtype=pl.Categorical())
    found = codes(column)
    assert [None if one < 0 else found.words[one] for one in found.values] == values
    assert len(set(found.words)) == len(found.words)


def test_lanes_are_streams_then_threads() -> None:
    trace = synthetic_trace(4_000, devices=2)
    drawn = layout(trace)
    assert [(lane.rank, lane.kind) for lane in drawn.lanes] == [
        (0, "stream"), (0, "thread"), (1, "stream"), (1, "thread"),
    ]  # fmt: skip
    assert drawn.lanes[1].name == "main"
    # A range, in it an operation, in that a launch.
    assert [lane.tracks for lane in drawn.lanes] == [1, 3, 1, 3]
    assert sum(lane.count for lane in drawn.lanes) == trace.events.height
    for lane in drawn.lanes:
        assert (np.diff(drawn.start[lane.rows]) >= 0).all()


def test_streams_of_two_processes_are_told_apart() -> None:
    rows = [
        {"kind": "kernel", "start_ns": 0, "dur_ns": 5, "device": 0, "stream": 7, "pid": pid}
        for pid in (11, 12)
    ] + [
        {"kind": "range", "start_ns": 0, "dur_ns": 9, "device": 0, "stream": 7, "pid": 11},
        {"kind": "sync", "start_ns": 0, "dur_ns": 9, "device": 0, "stream": 7, "pid": 11, "tid": 3},
        {"kind": "kernel", "start_ns": None, "dur_ns": 1},
    ]
    drawn = layout(Trace(TraceHeader(), pl.DataFrame(rows, schema=schema.event_columns())))
    assert [lane.name for lane in drawn.lanes] == [
        "stream 7 ranges", "stream 7 of process 11", "stream 7 of process 12", "thread 3",
    ]  # fmt: skip
    assert drawn.undrawn == 1


def test_the_window_of_a_step_is_its_row() -> None:
    trace = synthetic_trace(4_000)
    row = trace.steps.filter(pl.col("step") == 2).row(0, named=True)
    window = step_window(trace, 2)
    assert (window.from_ns, window.dur_ns) == (row["start_ns"], row["dur_ns"])
    without = Trace(trace.header, trace.events)
    tagged = trace.events.filter(pl.col("step") == 2)
    assert step_window(without, 2).from_ns == tagged["start_ns"].min()
    with pytest.raises(InputError, match=r"step 99: expected a step from 0 to"):
        step_window(trace, 99)
    bare = Trace(trace.header, trace.events.with_columns(pl.lit(None, pl.Int64).alias("step")))
    with pytest.raises(InputError, match="has no steps"):
        step_window(bare, 0)


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [(200, None, "from: expected"), (-1, None, "from: expected"), (50, 40, "to: expected")],
)
def test_a_window_outside_the_trace_is_refused(since: int, until: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        time_window(1_000, 1_100, since, until)


def test_durations_stay_within_64_bit_time() -> None:
    rows = [
        {"kind": "kernel", "name": "a", "start_ns": 2**62, "dur_ns": 2**62 + 5},
        {"kind": "kernel", "name": "b", "start_ns": 2**62 - 9, "dur_ns": -4},
        {"kind": "host", "name": "c", "start_ns": -5, "dur_ns": 3},
    ]
    drawn = layout(Trace(TraceHeader(), pl.DataFrame(rows, schema=schema.event_columns())))
    assert (drawn.end >= drawn.start).all()
    assert (drawn.origin_ns, drawn.end_ns) == (-5, 2**63 - 1)


def test_every_operation_and_kind_has_a_family_of_colors() -> None:
    known = [*LAYER_OPERATIONS, *STEP_OPERATIONS, *schema.KINDS]
    assert [one for one in known if one != "kernel" and family(one) == "none"] == []
    entries = palette()["families"]
    named = [one for entry in entries.values() for one in entry["operations"]]
    assert len(named) == len(set(named))
    colors = [color for entry in entries.values() for color in (*entry["light"], *entry["dark"])]
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors)


def test_a_trace_without_times_is_refused() -> None:
    empty = Trace(TraceHeader(), pl.DataFrame(schema=schema.event_columns()))
    with pytest.raises(InputError, match="no events with a start time"):
        layout(empty)


def test_sums_of_a_view_are_those_of_the_table() -> None:
    trace = synthetic_trace(5_000)
    drawn = layout(trace)
    found = view(trace, drawn, time_window(drawn.origin_ns, drawn.end_ns, None, None), "op", 50)
    kernels = trace.events.filter(pl.col("kind") == "kernel")
    expected = dict(
        kernels.group_by(pl.col("op").cast(pl.String)).agg(pl.col("dur_ns").sum()).iter_rows()
    )
    assert {one.name: one.ns for one in found.sums} == expected
    assert found.device_ns == kernels["dur_ns"].sum()
    assert sum(one.share for one in found.sums) == pytest.approx(1)
    data = found.to_json()
    [stream] = [lane for lane in data["lanes"] if lane["kind"] == "stream"]
    assert stream["busy_ns"] == kernels["dur_ns"].sum()
    assert sum(span["busy_ns"] for span in stream["spans"]) == pytest.approx(
        stream["busy_ns"], rel=1e-3
    )
