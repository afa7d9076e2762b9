import json
from pathlib import Path

import polars as pl
import pytest

from assay._native import EventTable
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


def test_a_captured_trace_is_read_and_its_damage_named(tmp_path: Path) -> None:
    small_trace().header.write(tmp_path / "header.json")
    shard, steps = tmp_path / "events.shard", tmp_path / "steps.json"
    EventTable.concatenate([]).write_shard(shard)
    row = {"step": 1, "phase": "decode", "start_ns": 5, "dur_ns": 2, "source": "engine"}
    steps.write_text(json.dumps([row]))
    trace = Trace.open(tmp_path)
    assert dict(trace.events.schema) == schema.event_columns()
    assert dict(trace.steps.schema) == schema.step_columns()
    absent = dict.fromkeys(schema.step_columns())
    assert trace.steps.to_dicts() == [{**absent, **row}]
    steps.write_text("[1")
    with pytest.raises(InputError, match=r"steps\.json: expected rows of steps"):
        Trace.open(tmp_path)
    # The end of a shard is a frame of five bytes.
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"events\.shard: expected a whole shard"):
        Trace.open(tmp_path)


def test_fused_operations_are_operations() -> None:
    assert is_operation("input_norm+qkv_proj")
    assert not is_operation("input_norm+elementwise")
