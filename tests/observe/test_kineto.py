"""Traces of PyTorch's profiler: read as Python's json reads them, mended or refused if damaged."""

from __future__ import annotations

import gzip
import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from assay.errors import InputError
from assay.observe import schema
from assay.observe.importers import kineto
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace

KERNEL: dict[str, Any] = {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.25,
    "args": {
        "External id": 3, "device": 1, "stream": 7, "correlation": 9, "bytes": 64,
        "graph id": 4, "graph node id": 5, "grid": [1, 2, 3], "block": [32, 1, 1], "queued": 0,
    },
}  # fmt: skip


def read(tmp_path: Path, trace: Any, **options: Any) -> Trace:
    path = tmp_path / "trace.json"
    path.write_text(trace if isinstance(trace, str) else json.dumps(trace), encoding="utf-8")
    return kineto.read(path, **options)


def rows(trace: Trace) -> list[dict[str, Any]]:
    return trace.events.to_dicts()


def test_columns_of_a_kernel(tmp_path: Path) -> None:
    trace = read(tmp_path, {"baseTimeNanoseconds": 10**18, "traceEvents": [KERNEL]})
    assert dict(trace.events.schema) == schema.event_columns()
    (row,) = rows(trace)
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "kernel", "name": "gemm", "category": "kernel", "start_ns": 10**18 + 1500,
        "dur_ns": 2250, "device": 1, "stream": 7, "pid": 0, "tid": 7, "correlation": 9,
        "external": 3, "graph": 4, "node": 5, "bytes": 64, "grid": [1, 2, 3],
        "block": [32, 1, 1], "args": '{"queued": 0}',
    }  # fmt: skip
    assert (trace.header.source, trace.header.clock) == ("kineto", "realtime")


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("cuda_runtime", "cudaLaunchKernel", "api"),
        ("cuda_runtime", "cudaDeviceSynchronize", "sync"),
        ("cuda_driver", "cuStreamSynchronize", "sync"),
        ("cuda_runtime", "cudaStreamWaitEvent", "sync"),
        ("cuda_sync", "Context Sync", "sync"),
        ("gpu_memcpy", "Memcpy HtoD", "memcpy"),
        ("gpu_memset", "Memset", "memset"),
        ("cpu_op", "aten::mm", "host"),
        ("python_function", "main.py(1): run", "host"),
        ("user_annotation", "ProfilerStep#1", "range"),
        ("gpu_user_annotation", "ProfilerStep#1", "range"),
        ("overhead", "Buffer Flush", "overhead"),
        ("Trace", "PyTorch Profiler (0)", "range"),
        ("of a later version", "something", "host"),
    ],
)
def test_kinds(tmp_path: Path, category: str, name: str, kind: str) -> None:
    event = {"ph": "X", "cat": category, "name": name, "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    assert read(tmp_path, [event]).events["kind"].to_list() == [kind]


def test_what_has_no_column_is_kept_in_args(tmp_path: Path) -> None:
    events = [
        {**KERNEL, "pid": "Spans", "tid": 1 << 70, "args": {"stream": "7", "grid": [1, 2]}},
        {"ph": "i", "s": "g", "name": "mark", "pid": 1, "tid": 1, "ts": 3, "args": {"a": [{}]}},
        {"ph": "C", "name": "bytes", "pid": 1, "ts": 3, "args": {"used": 5}},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": 1, "ts": 4},
        {"ph": "b", "cat": "async", "name": "wait", "id": "0x1", "pid": 1, "tid": 1, "ts": 4},
    ]
    trace = read(tmp_path, {"traceEvents": events})
    assert [json.loads(text) for text in trace.events["args"]] == [
        {"stream": "7", "grid": [1, 2], "@event": {"pid": "Spans", "tid": 1 << 70}},
        {"a": [{}], "@event": {"s": "g", "ph": "i"}},
        {"used": 5, "@event": {"ph": "C"}},
        {"@event": {"id": 3, "ph": "s"}},
        {"@event": {"id": "0x1", "ph": "b"}},
    ]
    assert trace.events["kind"].to_list() == ["kernel", *["instant"] * 4]
    assert "the file does not say what its clock counts from" in trace.header.degradations


def test_header_of_a_file(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 6, "args": {"name": "worker"}},
        {"ph": "M", "name": "process_name", "pid": "Spans", "args": {"name": "spans"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 5, "tid": 6, "args": {"sort_index": 1}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 5, "tid": 6, "ts": 1},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 1, "bp": "e"},
        KERNEL,
    ]
    described = {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "distributedInfo": {"rank": 3, "world_size": 8},
        "cuda_runtime_version": 13000,
    }
    header = read(tmp_path, {**described, "traceEvents": events, "traceName": "t"}).header
    assert header.processes == {"5": "python", "5/6": "worker", "Spans": "spans"}
    assert header.metadata["flows"] == 2
    assert header.metadata["metadataEvents"] == [events[3]]
    assert header.metadata["traceName"] == "t"
    assert header.metadata["distributedInfo"] == described["distributedInfo"]
    assert header.hardware == {"devices": described["deviceProperties"]}
    assert header.versions == {"cuda_runtime_version": "13000"}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_rank_and_base_may_stand_behind_the_events(
    tmp_path: Path, behind: bool, stored: bool
) -> None:
    described = {"distributedInfo": {"rank": 3}, "baseTimeNanoseconds": 5000}
    events = {"traceEvents": [KERNEL, KERNEL]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events | described if behind else described | events))
    if stored:
        kineto.store(path, tmp_path / "stored")
        trace = Trace.open(tmp_path / "stored")
    else:
        trace = kineto.read(path)
    assert trace.events["rank"].to_list() == [3, 3]
    assert trace.events["start_ns"].to_list() == [6500, 6500]


def test_starts_and_ends_are_paired_by_thread(tmp_path: Path) -> None:
    def half(phase: str, ts: float, tid: int = 1, **more: Any) -> dict[str, Any]:
        return {"ph": phase, "name": "a", "pid": 1, "tid": tid, "ts": ts, **more}

    events = [
        half("B", 1, name="outer", args={"x": 1, "device": 2}),
        half("B", 2, name="inner", cat="user_annotation"),
        half("B", 2, tid=2, name="other"),
        half("E", 3),
        half("E", 5, args={"y": 2}),
        half("E", 6),
    ]
    trace = read(tmp_path, {"distributedInfo": {"rank": 3}, "traceEvents": events})
    assert trace.events["rank"].to_list() == [3] * 3
    got = trace.events.select("name", "kind", "start_ns", "dur_ns", "device", "args").rows()
    assert got == [
        ("inner", "range", 2000, 1000, None, None),
        ("outer", "host", 1000, 4000, 2, '{"x": 1, "y": 2}'),
        ("other", "host", 2000, 0, None, None),
    ]
    assert trace.header.repairs == {
        "end without a start, left out": 1,
        "start without an end, taken as 0 long": 1,
    }


REPAIRED: list[tuple[Any, dict[str, int], list[tuple[Any, ...]]]] = [
    ([{**KERNEL, "dur": -1}], {"negative duration, taken as 0": 1}, [("gemm", 1500, 0)]),
    ([{**KERNEL, "dur": None}], {"missing duration, taken as 0": 1}, [("gemm", 1500, 0)]),
    ([{**KERNEL, "dur": 1e300}], {"unusable duration, taken as 0": 1}, [("gemm", 1500, 0)]),
    ([{**KERNEL, "ts": float("nan")}], {"event without a usable time, left out": 1}, []),
    ('[{"ph": "X", "name": "a", "ts": 1e400}]', {"event without a usable time, left out": 1}, []),
    ([{"ph": "X", "name": "a", "dur": 1}], {"event without a usable time, left out": 1}, []),
    ([{"ph": "X", "ts": 1, "dur": 1}], {"event without a name": 1}, [("", 1000, 1000)]),
    ([{"name": "a", "ts": 1}], {"event without a phase, taken as an instant": 1}, [("a", 1000, 0)]),
    ('[{"ph": "X", "name": "\\ud800!", "ts": 1, "dur": 1}]', {"lone surrogate in a string": 1},
     [("\ufffd!", 1000, 1000)]),
    ('[{"ph": "X", "name": "a", "ts": 1, "dur": 1},]', {"comma before the end of the list": 1},
     [("a", 1000, 1000)]),
    ([{**KERNEL, "cat": "cuda_runtime"}] * 2, {"call with the correlation of another, kept": 1},
     [("gemm", 1500, 2250)] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("events", "repairs", "expected"), REPAIRED)
def test_repairs_are_counted(
    tmp_path: Path, events: Any, repairs: dict[str, int], expected: list[tuple[Any, ...]]
) -> None:
    trace = read(tmp_path, events)
    assert trace.header.repairs == repairs
    assert trace.events.select("name", "start_ns", "dur_ns").rows() == expected


def test_order_does_not_matter(tmp_path: Path) -> None:
    """Kineto itself writes events out of order: rows are as in the file, sums the same."""
    events = [{**KERNEL, "name": f"{number}", "ts": number, "dur": number} for number in range(9)]
    there, back = read(tmp_path, events), read(tmp_path, events[::-1])
    assert back.events[::-1].equals(there.events)
    assert back.header.repairs == {}


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'[{"ph": "X", "name": "a\xff\xfeb", "ts": 1, "dur": 1}]')
    trace = kineto.read(path)
    assert trace.header.repairs == {"invalid UTF-8": 2}
    assert trace.events["name"].to_list() == ["a\ufffd\ufffdb"]


def test_line_breaks_in_strings_become_escapes(tmp_path: Path) -> None:
    trace = read(
        tmp_path, '[{"ph": "X", "name": "a\nb", "ts": 1, "dur": 1, "args": {"k\n": "v\t"}}]'
    )
    assert trace.events["name"].to_list() == ["a\nb"]
    assert json.loads(trace.events["args"][0]) == {"k\n": "v\t"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "byte 0: expected a list of events, got nothing"),
        ("{}", 'byte 1: expected a member "traceEvents"'),
        ("hello", r"byte 0: expected a trace: { or \["),
        ('{"traceEvents": {}}', r"byte 16: expected \[ of the list of events"),
        ('{"traceEvents": [1]}', "byte 17: expected { of an event, got '1\\]}'"),
        ('{"traceEvents": [{"ph" "X"}]}', "byte 23: expected :"),
        ('{"traceEvents": [{"ph": "X"} {}]}', r"byte 29: expected , or \] behind an event"),
        ('{"traceEvents": [{"a": tru}]}', "byte 23: expected a value"),
        ('{"traceEvents": [{"a": "\\x"}]}', "byte 24: expected an escape of JSON"),
        ('{"traceEvents": []} x', "byte 20: expected the end of the file"),
        ('{"traceEvents": [], "traceEvents": []}', "expected one list of events"),
        ('[{"args": ' + "[" * 5000, "expected at most 1,024 nested values"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("'", '"')):
        read(tmp_path, text)


def test_a_gigantic_string_is_refused_or_kept(tmp_path: Path) -> None:
    name = "x" * (20 << 20)
    trace = read(tmp_path, [{**KERNEL, "name": name}, KERNEL])
    assert trace.events["name"].cast(pl.String).str.len_bytes().to_list() == [len(name), 4]
    with pytest.raises(InputError, match=r"expected (events|values) of at most 64 MiB"):
        read(tmp_path, '[{"ph": "X", "name": "' + "x" * (90 << 20))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_cut_off_keeps_its_whole_events(tmp_path: Path, compressed: bool) -> None:
    events = [{**KERNEL, "name": f"kernel {number}"} for number in range(200)]
    whole = json.dumps({"traceEvents": events, "traceName": "x"}).encode()
    stored = gzip.compress(whole) if compressed else whole
    path = tmp_path / "trace.json"
    # A compressed file shows nothing of itself before its first block is whole.
    for length in range(len(stored) // 2, len(stored), 997 if not compressed else 43):
        path.write_bytes(stored[:length])
        trace = open_trace(path)
        kept = trace.events["name"].to_list()
        assert kept == [event["name"] for event in events[: len(kept)]]
        if not compressed:
            text = whole[:length].decode()
            # Bytes of an event are left out only when it is not whole.
            assert len(kept) in (text.count("}},"), text.count("}},") + text.endswith("}}"), 200)
        assert trace.header.repairs == {"file cut off": 1}
        assert any("the file ends inside" in one for one in trace.header.degradations)


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(json.dumps({"traceEvents": [KERNEL] * 5000}).encode()))
    stored[len(stored) // 2] ^= 0xFF
    path = tmp_path / "trace.json.gz"
    path.write_bytes(stored)
    with pytest.raises(InputError, match="expected"):
        kineto.read(path)


def test_without_details_an_outline_is_left(tmp_path: Path) -> None:
    kinds = ("kernel", "cpu_op", "cuda_runtime", "user_annotation", "overhead", "gpu_memcpy")
    events = [{**KERNEL, "cat": category} for category in kinds]
    whole, outline = read(tmp_path, events), read(tmp_path, events, details=False)
    assert outline.events["args"].null_count() == outline.events.height
    kept = whole.events.filter(pl.col("kind").is_in(list(kineto.OUTLINE)))
    assert outline.events["kind"].to_list() == ["kernel", "api", "range", "memcpy"]
    assert outline.events.drop("args").equals(kept.drop("args"))


# Random traces, with Python's json as the oracle.

NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12),
    st.decimals(-(10**12), 10**12, places=3, allow_nan=False),
    st.decimals(0, 10**6, places=7, allow_nan=False),
    st.floats(0, 1e12, allow_nan=False),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
KNOWN = st.sampled_from(["External id", "correlation", "device", "stream", "bytes", "grid"])
EVENTS = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": st.text(max_size=20), "ts": NUMBERS, "dur": NUMBERS},
    optional={
        "cat": st.sampled_from(["kernel", "cpu_op", "gpu_memcpy", "cuda_runtime", "\u00e9"]),
        "pid": st.integers(-(2**40), 2**70) | st.text(max_size=3),
        "tid": st.integers(-(2**40), 2**40),
        "args": st.dictionaries(KNOWN | st.text(max_size=6), VALUES, max_size=4),
        "id": VALUES,
    },
)


class _Number(float):
    """Written with the digits of a decimal."""

    def __new__(cls, value: Decimal) -> _Number:
        made = super().__new__(cls, value)
        made.digits = str(value)  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return str(self.digits)  # type: ignore[attr-defined]


def _nanoseconds(value: Decimal | int) -> int:
    exact = Decimal(value) * 1000
    return int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def _plain(value: Any) -> Any:
    """A value that equals itself, NaN included."""
    return json.dumps(value, sort_keys=True)


@given(events=st.lists(EVENTS, max_size=12), indent=st.none() | st.integers(0, 2))
def test_random_traces_are_read_as_json_reads_them(
    events: list[dict[str, Any]], indent: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def encode(value: Any) -> Any:
        if isinstance(value, Decimal):
            return _Number(value)
        if isinstance(value, dict):
            return {key: encode(one) for key, one in value.items()}
        return value

    text = json.dumps({"traceEvents": [encode(event) for event in events]}, indent=indent)
    # Lone surrogates have no place in a column; they are replaced, and tested above.
    if "\\ud" in text:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    path = tmp_path_factory.mktemp("random") / "trace.json"
    path.write_text(text, encoding="utf-8")
    trace = kineto.read(path)
    oracle = json.loads(text, parse_float=Decimal)["traceEvents"]
    assert trace.events.height == len(oracle)
    for row, event, again in zip(rows(trace), oracle, json.loads(text)["traceEvents"], strict=True):
        assert row["name"] == event["name"]
        assert row["start_ns"] == _nanoseconds(event["ts"])
        assert row["dur_ns"] == max(0, _nanoseconds(event["dur"]))
        assert row["category"] == event.get("cat")
        # Columns and the rest together are all that the event said.
        rest = json.loads(row["args"] or "{}")
        beside = rest.pop("@event", {})
        names = {"External id": "external", "correlation": "correlation", "device": "device",
                 "stream": "stream", "bytes": "bytes", "grid": "grid"}  # fmt: skip
        for name, column in names.items():
            if row[column] is not None:
                rest.setdefault(name, row[column])
        assert _plain(rest) == _plain(again.get("args", {}))
        for name in ("pid", "tid"):
            if row[name] is not None:
                beside.setdefault(name, row[name])
        known = {"ph", "name", "ts", "dur", "cat", "args"}
        said = {key: value for key, value in again.items() if key not in known}
        assert _plain(beside) == _plain(said)
