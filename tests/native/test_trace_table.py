"""Tables of traces: built from lists, taken by Polars without a copy, stored as Parquet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay._native import EventTable, StepTable, read_event_shard
from assay.errors import InputError
from assay.observe import schema

EVENTS: dict[str, list[Any]] = {
    "kind": ["kernel", "memcpy", "kernel"],
    "name": ["gemm", "copy", "gemm"],
    "category": ["kernel", None, "kernel"],
    "start_ns": [10, 20, 30],
    "dur_ns": [5, 6, 7],
    "stream": [7, None, 8],
    "flops": [1.5, None, 2],
    "grid": [[1, 2, 3], None, (4, 5, 6)],
    "args": ['{"queued": 0}', None, None],
}


def test_polars_reads_the_columns_of_the_schema() -> None:
    frame = pl.DataFrame(EventTable.from_columns(EVENTS))
    assert dict(frame.schema) == schema.event_columns()
    for name, values in EVENTS.items():
        got = frame[name].to_list()
        assert got == [list(one) if isinstance(one, tuple) else one for one in values], name
    assert frame["node"].null_count() == 3


def test_steps_have_the_columns_of_the_schema() -> None:
    table = StepTable.from_columns(
        {"step": [1], "phase": ["decode"], "start_ns": [1], "dur_ns": [2], "source": ["engine"]}
    )
    assert dict(pl.DataFrame(table).schema) == schema.step_columns()


def test_memory_is_shared() -> None:
    table = EventTable.from_columns(EVENTS)
    one, other = (pa.table(table)["start_ns"].chunks[0].buffers()[1] for _ in range(2))
    assert one.address == other.address


def test_a_stored_table_is_what_was_built(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    table = EventTable.from_columns(EVENTS)
    table.write_parquet(path, {"run": "r1"})
    assert pq.read_metadata(path).metadata[b"run"] == b"r1"
    assert pq.read_metadata(path).row_group(0).column(0).compression == "LZ4"
    stored = pl.read_parquet(path).select(
        pl.col(name).cast(kind) for name, kind in schema.event_columns().items()
    )
    assert stored.equals(pl.DataFrame(table))
    assert [one.name for one in tmp_path.iterdir()] == ["events.parquet"]


def test_tables_are_joined_and_moved_to_another_clock() -> None:
    table = EventTable.from_columns(EVENTS)
    joined = EventTable.concatenate([table, table.shifted(100)])
    assert len(joined) == 6
    assert pl.DataFrame(joined)["start_ns"].to_list() == [10, 20, 30, 110, 120, 130]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"nome": [1]}, 'column "nome": expected a column of the table'),
        ({**EVENTS, "step": [1]}, 'column "step": expected 3 rows'),
        ({"kind": ["kernel"]}, 'column "name": expected a value in each row, got null'),
        ({**EVENTS, "name": ["a", None, "b"]}, 'column "name": expected a value in each row'),
        ({**EVENTS, "rank": [1 << 40] * 3}, 'column "rank": expected Int32'),
    ],
)
def test_wrong_columns_are_refused(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EventTable.from_columns(columns)


def test_no_shard() -> None:
    with pytest.raises(InputError, match=r"expected an Arrow IPC stream"):
        read_event_shard(__file__)
    with pytest.raises(InputError, match=r"missing\.arrows"):
        read_event_shard("missing.arrows")


def test_pyarrow_writes_shards_too(tmp_path: Path) -> None:
    """A shard is a plain Arrow IPC stream, with nothing of our own."""
    path = tmp_path / "one.arrows"
    table = pa.table(EventTable.from_columns(EVENTS))
    described = table.replace_schema_metadata({"pid": "12"})
    with pa.ipc.new_stream(path, described.schema) as writer:
        writer.write_table(described)
    read, metadata, complete, cut = read_event_shard(path)
    assert (len(read), metadata, complete, cut) == (3, {"pid": "12"}, True, 0)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size - 9)
    read, metadata, complete, cut = read_event_shard(path)
    assert (len(read), complete) == (0, False)
    assert cut > 0


def test_storing_needs_neither_polars_nor_pyarrow(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from assay._native import EventTable\n"
        "columns = {'kind': ['host'], 'name': ['step'], 'start_ns': [1], 'dur_ns': [1]}\n"
        "EventTable.from_columns(columns).write_parquet(sys.argv[1])\n"
        "print(sorted({'polars', 'pyarrow', 'numpy'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "one.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
