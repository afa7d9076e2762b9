"""A trace: a header, a table of events, a table of steps; stored as a folder."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from assay._native import read_event_shard
from assay.errors import InputError
from assay.files import read_text
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.store import HEADER
from assay.parquet import read_table

EVENTS, STEPS = "events.parquet", "steps.parquet"
"""The tables of a stored trace, beside its header."""

CAPTURED_EVENTS, CAPTURED_STEPS = "events.shard", "steps.json"
"""The same as a capture leaves them, which does without Polars."""


@dataclass(slots=True)
class Trace:
    """Events of one run on one clock.

    Stored, it is a folder of `header.json`, `events.parquet` and `steps.parquet`; as captured, of
    `events.shard` and `steps.json`. Tables are Polars data frames (extra `loop`) with the columns
    of `assay.observe.schema`.
    """

    header: TraceHeader
    events: pl.DataFrame
    steps: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=schema.step_columns()))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read a stored trace."""
        folder = Path(path)
        if not (folder / HEADER).is_file():
            raise InputError(
                f"{folder}: expected the folder of a stored trace, with {HEADER}",
                "assay trace import FILE stores a trace of another tool",
            )
        header = TraceHeader.from_json(read_text("header", folder / HEADER), str(folder / HEADER))
        if (folder / CAPTURED_EVENTS).is_file():
            return cls(header, *_read_captured(folder))
        return cls(
            header,
            _read_table(folder / EVENTS, schema.event_columns()),
            _read_table(folder / STEPS, schema.step_columns()),
        )

    def save(self, path: str | Path) -> Path:
        """Store it at `path`, which must not exist; all of it or nothing."""
        folder = Path(path)
        with staged(folder) as staging:
            self.events.write_parquet(staging / EVENTS)
            self.steps.write_parquet(staging / STEPS)
            self.header.write(staging / HEADER)
        return folder

    def _repr_html_(self) -> str:
        from assay.notebook import card

        header = self.header
        ends = self.events.select(
            (pl.col("start_ns") + pl.col("dur_ns")).max() - pl.col("start_ns").min()
        )
        data = {
            **{
                name: getattr(header, name)
                for name in ("run", "source", "engine", "model", "clock")
            },
            "events": self.events.height,
            "steps": self.steps.height,
            "dropped": header.dropped,
            "degradations": header.degradations,
            "first steps": self.steps.head(5).to_dicts(),
        }
        length = ends.item()
        return card("trace", "" if length is None else f"{length / 1e6:,.3f} ms", data)


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A hidden folder that becomes `folder`, which must not exist; nothing is left of a failure."""
    if folder.exists():
        raise InputError(f"{folder}: exists already", "name another folder, or remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield staging
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _read_captured(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables as a capture left them."""
    events, _, complete, _ = read_event_shard(folder / CAPTURED_EVENTS)
    if not complete:
        raise InputError(f"{folder / CAPTURED_EVENTS}: expected a whole shard, got a part of it")
    path = folder / CAPTURED_STEPS
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return pl.DataFrame(events), pl.DataFrame(rows, schema=schema.step_columns())
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: expected rows of steps, got: {error}") from error


def _read_table(path: Path, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """A table of the store, its columns checked against the schema."""
    table = read_table(path)
    if missing := [name for name in columns if name not in table.columns]:
        raise InputError(f'{path}: expected a column "{missing[0]}", got none of that name')
    try:
        return table.select(pl.col(name).cast(kind) for name, kind in columns.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: expected columns of the schema, got: {error}") from error
