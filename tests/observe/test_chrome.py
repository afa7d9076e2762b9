"""Chrome JSON, read with Python's own reader."""

import json
import tempfile
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

from assay.errors import InputError
from assay.observe import schema
from assay.observe.exporters import chrome
from assay.observe.header import TraceHeader
from assay.observe.importers import kineto
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace
from random_traces import assert_same, traces


def written(trace: Trace) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        chrome.write(trace, path)
        # Decimals as they are written: floats would round the nanoseconds.
        return json.loads(path.read_bytes(), parse_float=Fraction, parse_constant=pytest.fail)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces())
def test_events_have_exact_times_and_nest_on_each_thread(trace: Trace) -> None:
    data = written(trace)
    slices = [one for one in data["traceEvents"] if one["ph"] in "Xi"]
    assert len(slices) == len(trace.events)
    lanes = defaultdict(list)
    for one, event in zip(slices, trace.events.iter_rows(named=True), strict=True):
        assert one["name"] == event["name"]
        start = max(event["start_ns"], 0)
        assert one["ts"] * 1000 == start
        end = min(start + max(event["dur_ns"], 0), 2**63 - 1)
        assert one.get("dur", 0) * 1000 == end - start
        lanes[one["pid"], one["tid"]].append((start, -end))
    for lane in lanes.values():
        stack: list[int] = []
        for start, end in sorted(lane):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -end <= stack[-1]
            stack.append(-end)
    flows = defaultdict(set)
    for one in data["traceEvents"]:
        if one["ph"] in "sf":
            flows[one["id"]].add(one["ph"])
    assert all(ends == {"s", "f"} for ends in flows.values())


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces())
def test_a_file_that_was_written_out_again_still_reads(trace: Trace) -> None:
    # Its args have other spaces then: leave them out.
    events = trace.events.with_columns(pl.lit(None, pl.String).alias("args"))
    trace = Trace(trace.header, events, trace.steps)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        chrome.write(trace, path)
        path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
        assert_same(open_trace(path), trace)


def test_a_file_cut_short_is_named(tmp_path: Path) -> None:
    row = {"kind": "kernel", "name": "gemm", "start_ns": 5, "dur_ns": 7, "correlation": 1}
    events = pl.DataFrame([row, {**row, "kind": "api"}] * 3, schema=schema.event_columns())
    path = tmp_path / "trace"
    chrome.write(Trace(TraceHeader(), events), path)
    whole = path.read_bytes()
    for cut in (1, 3, 40, 400):
        path.write_bytes(whole[:-cut])
        with pytest.raises(InputError, match=str(path)):
            open_trace(path)


def test_the_reader_of_kineto_finds_the_same_columns(tmp_path: Path) -> None:
    host = {"pid": 1, "tid": 2}
    rows = [
        {"kind": "api", "name": "cudaLaunchKernel", "category": "cuda_runtime", "start_ns": 1_500,
         "dur_ns": 1, "correlation": 5, "external": 9, **host},
        {"kind": "kernel", "name": "a<b>\n", "category": "kernel", "start_ns": 2_001, "dur_ns": 999,
         "device": 0, "stream": 7, "correlation": 5, "grid": [4, 5, 6], "block": [7, 8, 9]},
        {"kind": "kernel", "name": "overlaps", "start_ns": 2_500, "dur_ns": 1_000, "device": 0,
         "stream": 7, "correlation": 6},
        {"kind": "memcpy", "name": "Memcpy HtoD", "start_ns": 4_000, "dur_ns": 7, "device": 0,
         "stream": 7, "bytes": 64},
        {"kind": "host", "name": "aten::mm", "start_ns": 1_000, "dur_ns": 9_000, **host},
        {"kind": "range", "name": "step", "start_ns": 900, "dur_ns": 9_900, **host},
    ]  # fmt: skip
    events = pl.DataFrame(rows, schema=schema.event_columns())
    chrome.write(Trace(TraceHeader(), events), tmp_path / "trace")
    found = kineto.read(tmp_path / "trace").events
    for name in ("kind", "name", "start_ns", "dur_ns", "device", "stream", "correlation",
                 "external", "grid", "block", "bytes"):  # fmt: skip
        order = [found["start_ns"].to_list().index(time) for time in events["start_ns"]]
        assert [found[name].to_list()[place] for place in order] == events[name].to_list(), name
