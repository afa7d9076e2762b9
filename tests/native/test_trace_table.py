"""Tables of traces: built from lists, taken by Polars without a copy, stored as Parquet."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
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
    with pytest.raises(InputError, match=r"expected the start of a shard of events"):
        read_event_shard(__file__)
    with pytest.raises(InputError, match=r"missing\.events"):
        read_event_shard("missing.events")


@pytest.mark.parametrize("rows", [1, 7, 70_000, 300_000])
def test_every_reader_of_parquet_sees_the_same_rows(tmp_path: Path, rows: int) -> None:
    """Pages, row groups, levels, dictionaries and deltas, read by two other implementations."""
    draw = random.Random(rows)
    big = 1 << 62

    def some(value: Callable[[], Any], share: float) -> list[Any]:
        return [value() if draw.random() < share else None for _ in range(rows)]

    columns = {
        "kind": [draw.choice(schema.KINDS) for _ in range(rows)],
        "name": [f"kernel {draw.randrange(1 + row // 3)}" for row in range(rows)],
        "category": some(lambda: "gpu", 0.5),
        "start_ns": [draw.randrange(-big, big) for _ in range(rows)],
        "dur_ns": [draw.randrange(100) for _ in range(rows)],
        "rank": some(lambda: draw.randrange(-9, 9), 0.9),
        "stream": some(lambda: 7, 0.01),
        "pid": [12] * rows,
        "flops": some(lambda: draw.random(), 0.3),
        "grid": some(lambda: [draw.randrange(5), 1, -1], 0.6),
        "args": some(lambda: "\u00fc" * draw.randrange(4), 0.4),
    }
    table = EventTable.from_columns(columns)
    path = tmp_path / "events.parquet"
    table.write_parquet(path)
    frame = pl.DataFrame(table)
    for name, values in columns.items():
        assert frame[name].to_list() == values, name
    stored = pl.read_parquet(path)
    assert dict(stored.schema) == schema.event_columns()
    assert stored.equals(frame)
    assert pq.read_schema(path).equals(pa.table(table).schema)
    arrow = pq.read_table(path)
    for name, values in columns.items():
        assert arrow[name].to_pylist() == values, name


def test_stored_steps_have_the_columns_of_the_schema(tmp_path: Path) -> None:
    table = StepTable.from_columns(
        {"step": [1, 2], "phase": ["decode", None], "start_ns": [1, 2], "dur_ns": [2, 2]}
    )
    table.write_parquet(tmp_path / "steps.parquet")
    stored = pl.read_parquet(tmp_path / "steps.parquet")
    assert dict(stored.schema) == schema.step_columns()
    assert stored.equals(pl.DataFrame(table))
    StepTable.from_columns({}).write_parquet(tmp_path / "none.parquet")
    assert dict(pl.read_parquet(tmp_path / "none.parquet").schema) == schema.step_columns()


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
