"""Perfetto traces, decoded with the definitions that Perfetto publishes."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

from assay.errors import InputError
from assay.observe import schema
from assay.observe.exporters import perfetto
from assay.observe.header import TraceHeader
from assay.observe.importers import perfetto as reader
from assay.observe.trace import Trace
from random_traces import traces

definitions = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def decoded(trace: Trace) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.pftrace"
        perfetto.write(trace, path)
        found = definitions.Trace()
        found.ParseFromString(path.read_bytes())
        return found


def slices(found: Any) -> tuple[list[dict[str, Any]], dict[int, Any]]:
    """What a viewer draws: on each track, slices that begin and end like brackets."""
    names: dict[int, str] = {}
    labels: dict[int, str] = {}
    values: dict[int, str] = {}
    tracks: dict[int, Any] = {}
    open_slices: dict[int, list[dict[str, Any]]] = defaultdict(list)
    done: list[dict[str, Any]] = []
    for packet in found.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            labels[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            values[entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    # A viewer sorts by time and keeps the order of packets of the same time.
    for packet in sorted(found.packet, key=lambda one: one.timestamp):
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        stack = open_slices[event.track_uuid]
        if event.type == definitions.TrackEvent.TYPE_SLICE_END:
            done.append({**stack.pop(), "end": packet.timestamp})
            continue
        columns = {}
        for one in event.debug_annotations:
            kind = one.WhichOneof("value")
            columns[labels[one.name_iid]] = (
                values[one.string_value_iid] if kind == "string_value_iid"
                else [item.int_value for item in one.array_values] if one.array_values
                else getattr(one, kind)
            )  # fmt: skip
        row = {
            "name": names[event.name_iid], "start": packet.timestamp, "track": event.track_uuid,
            "columns": columns, "from": list(event.terminating_flow_ids), "to": list(event.flow_ids),
        }  # fmt: skip
        if event.type == definitions.TrackEvent.TYPE_INSTANT:
            done.append({**row, "end": packet.timestamp})
        else:
            stack.append(row)
    assert not any(open_slices.values())
    return done, tracks


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces())
def test_slices_nest_and_have_the_times_of_the_events(trace: Trace) -> None:
    done, tracks = slices(decoded(trace))
    drawn = {one["columns"]["row"]: one for one in done}
    first = 1 + len(trace.steps)
    assert len(done) == len(drawn) == first + len(trace.events)
    for index, event in enumerate(trace.events.iter_rows(named=True), first):
        one = drawn[index]
        assert one["name"] == event["name"]
        assert one["track"] in tracks
        start = max(event["start_ns"], 0)
        assert one["start"] == start
        assert one["end"] == min(start + max(event["dur_ns"], 0), 2**63 - 1)
        for name in ("kind", "phase", "op", "correlation", "dur_ns", "args", "grid", "bytes"):
            assert one["columns"].get(name) == event[name], name


def kernels() -> Trace:
    rows = [
        {"kind": "api", "name": "cudaGraphLaunch", "start_ns": 10, "dur_ns": 5, "pid": 9, "tid": 11,
         "correlation": 3},
        {"kind": "api", "name": "cudaLaunchKernel", "start_ns": 20, "dur_ns": 5, "pid": 9, "tid": 11,
         "correlation": 4},
        {"kind": "kernel", "name": "a", "start_ns": 30, "dur_ns": 10, "correlation": 3},
        {"kind": "kernel", "name": "b", "start_ns": 38, "dur_ns": 10, "correlation": 3},
        {"kind": "kernel", "name": "c", "start_ns": 48, "dur_ns": 10, "correlation": 4},
        {"kind": "kernel", "name": "d", "start_ns": 58, "dur_ns": 10, "correlation": 5},
    ]  # fmt: skip
    for row in rows[2:]:
        row |= {"device": 1, "stream": 7}
    header = TraceHeader(processes={"9": "python", "9/11": "engine"})
    return Trace(header, pl.DataFrame(rows, schema=schema.event_columns()))


def test_flows_lead_from_a_call_to_all_that_it_started() -> None:
    done, _ = slices(decoded(kernels()))
    begun = {flow: one["name"] for one in done for flow in one["to"]}
    ended = {one["name"]: [begun[flow] for flow in one["from"]] for one in done}
    assert {name: ended[name] for name in "abcd"} == {
        "a": ["cudaGraphLaunch"], "b": ["cudaGraphLaunch"], "c": ["cudaLaunchKernel"], "d": [],
    }  # fmt: skip


def test_tracks_are_threads_and_streams_with_lanes_for_overlaps() -> None:
    done, tracks = slices(decoded(kernels()))
    where = {one["name"]: tracks[one["track"]] for one in done}
    assert (where["a"].name, where["b"].name) == ("stream 7", "stream 7 (overlap 1)")
    assert where["c"].uuid == where["d"].uuid == where["a"].uuid
    assert tracks[where["a"].parent_uuid].name == "GPU 1"
    thread = where["cudaGraphLaunch"].thread
    assert (thread.pid, thread.tid, thread.thread_name) == (9, 11, "engine")
    assert tracks[where["cudaGraphLaunch"].parent_uuid].process.process_name == "python"


@pytest.mark.parametrize("cut", [1, 7, 100, 400])
def test_a_file_cut_short_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "trace"
    perfetto.write(kernels(), path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InputError, match=str(path)):
        reader.read(path)


def test_a_trace_of_another_tool_is_named(tmp_path: Path) -> None:
    found = definitions.Trace()
    found.packet.add().timestamp = 5
    (tmp_path / "trace").write_bytes(found.SerializeToString())
    with pytest.raises(InputError, match="got one of another tool"):
        reader.read(tmp_path / "trace")
