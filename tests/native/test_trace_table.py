"""Tables of events: taken by Polars and PyArrow without a copy, stored as shards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from assay._native import EventTable, read_event_shard, read_kineto
from assay.errors import InputError
from assay.observe import schema


def table_of(path: Path, events: list[dict[str, Any]]) -> EventTable:
    path.write_text(json.dumps({"traceEvents": events}))
    return read_kineto(path)[0]


def kernel(start: int, **members: Any) -> dict[str, Any]:
    args = {"stream": members.pop("stream", 7), **members.pop("args", {})}
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": start / 1000, "dur": 0.005}
    return {**event, "args": args, **members}


@pytest.fixture
def table(tmp_path: Path) -> EventTable:
    copy = kernel(20, cat="gpu_memcpy", name="copy", args={"bytes": 12, "queued": 0})
    launch = {"grid": [4, 5, 6], "block": [32, 1, 1]}
    return table_of(tmp_path / "few.json", [kernel(10), copy, kernel(30, args=launch, stream=8)])


def test_polars_reads_the_columns_of_the_schema(table: EventTable) -> None:
    frame = pl.DataFrame(table)
    assert dict(frame.schema) == schema.event_columns()
    assert frame["kind"].to_list() == ["kernel", "memcpy", "kernel"]
    assert frame["start_ns"].to_list() == [10, 20, 30]
    assert frame["stream"].to_list() == [7, 7, 8]
    assert frame["grid"].to_list() == [None, None, [4, 5, 6]]
    assert frame["bytes"].to_list() == [None, 12, None]
    assert frame["args"].to_list() == [None, '{"queued": 0}', None]
    assert frame["node"].null_count() == 3


def test_memory_is_shared(table: EventTable) -> None:
    one, other = (pa.table(table)["start_ns"].chunks[0].buffers()[1] for _ in range(2))
    assert one.address == other.address


def test_tables_are_joined_and_moved_to_another_clock(table: EventTable) -> None:
    joined = EventTable.concatenate([table, table.shifted(100)])
    assert len(joined) == 6
    assert pl.DataFrame(joined)["start_ns"].to_list() == [10, 20, 30, 110, 120, 130]


def test_no_shard() -> None:
    with pytest.raises(InputError, match=r"expected the start of a shard of events"):
        read_event_shard(__file__)
    with pytest.raises(InputError, match=r"missing\.events"):
        read_event_shard("missing.events")


@pytest.mark.parametrize("rows", [1, 7, 70_000])
def test_every_reader_of_arrow_sees_the_same_rows(tmp_path: Path, rows: int) -> None:
    """Nulls, dictionaries and batches, read by two other implementations, also from a shard."""
    draw = random.Random(rows)
    streams = [draw.choice([7, 8, None]) for _ in range(rows)]
    names = [f"kernel {draw.randrange(1 + row // 3)}" for row in range(rows)]
    events = [kernel(row, name=names[row], stream=streams[row]) for row in range(rows)]
    table = table_of(tmp_path / "many.json", events)
    frame = pl.DataFrame(table)
    arrow = pa.table(table)
    expected = {"name": names, "stream": streams, "start_ns": list(range(rows))}
    for column, values in expected.items():
        assert frame[column].to_list() == values, column
        assert arrow[column].to_pylist() == values, column
    table.write_shard(tmp_path / "many.shard")
    stored, metadata, complete, cut = read_event_shard(tmp_path / "many.shard")
    assert (metadata, complete, cut) == ({}, True, 0)
    assert pl.DataFrame(stored).equals(frame)


def test_storing_needs_neither_polars_nor_pyarrow(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from assay._native import EventTable\n"
        "EventTable.concatenate([]).write_shard(sys.argv[1])\n"
        "print(sorted({'polars', 'pyarrow', 'numpy'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "none.shard")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
