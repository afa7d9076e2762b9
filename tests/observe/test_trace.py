from pathlib import Path

import polars as pl
import pytest

from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.operations import is_operation
from assay.observe.trace import Trace


def small_trace() -> Trace:
    rows = [
        {"kind": "kernel", "name": "gemm<int>", "start_ns": 5, "dur_ns": 7, "grid": [1, 2, 3]},
        {"kind": "host", "name": "schedule", "start_ns": 1, "dur_ns": 2, "args": '{"a": 1}'},
    ]
    events = pl.DataFrame(rows, schema=schema.event_columns())
    return Trace(TraceHeader(run="r1", repairs={"negative duration": 2}), events)


def test_a_stored_trace_reads_back_the_same(tmp_path: Path) -> None:
    trace = small_trace()
    again = Trace.open(trace.save(tmp_path / "one"))
    assert again.header == trace.header
    assert again.events.equals(trace.events)
    assert again.steps.schema == trace.steps.schema


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    small_trace().save(tmp_path / "one")
    with pytest.raises(InputError, match="exists already"):
        small_trace().save(tmp_path / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [("header.json", "expected a JSON object"), ("events.parquet", "expected a Parquet table")],
)
def test_a_damaged_trace_is_named(tmp_path: Path, damage: str, message: str) -> None:
    folder = small_trace().save(tmp_path / "one")
    (folder / damage).write_bytes(b"{ not this")
    with pytest.raises(InputError, match=message):
        Trace.open(folder)


def test_fused_operations_are_operations() -> None:
    assert is_operation("input_norm+qkv_proj")
    assert not is_operation("input_norm+elementwise")
