"""experiments.parquet: every measured block, written from the journal's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from assay.improve.experiments.result import Block
from assay.improve.journal import journal as journals
from assay.improve.journal.chain import canonical, plain
from assay.improve.journal.run_folder import RunFolder
from assay.lazy_import import pl

_COLUMNS: Final = {
    "experiment": "String",
    "index": "Int64",
    "pair": "Int64",
    "arm": "String",
    "started_at": "Float64",
    "seconds": "Float64",
    "value": "Float64",
    "output_tokens": "Int64",
    "requests": "Int64",
    "load_state": "String",
    "settings": "String",
    "dropped": "String",
    "figures": "String",
}
"""Columns and their Polars types; settings and figures are JSON, for engines differ in both."""


def block_data(block: Block) -> dict[str, Any]:
    """A block as the data of a journal record: `journal.append("block", **block_data(block))`."""
    data: dict[str, Any] = plain(block)
    return data


def block_of(data: Mapping[str, Any]) -> Block:
    """The block of a journal record's data."""
    value = data["value"]
    return Block(**{**data, "value": float("nan") if value is None else value})


def write_blocks(run: RunFolder, blocks: Iterable[Block]) -> Path:
    """Write experiments.parquet, whole or not at all."""
    rows = [
        {**data, **{name: canonical(data[name]) for name in ("settings", "figures")}}
        for data in map(block_data, blocks)
    ]
    schema = {name: getattr(pl, kind) for name, kind in _COLUMNS.items()}
    content = BytesIO()
    pl.DataFrame(rows, schema=schema).write_parquet(content)
    return run.write(run.experiments.name, content.getvalue())


def blocks_in_journal(run: RunFolder) -> list[Block]:
    """The blocks that were measured, in order, from the records that can be trusted."""
    return [block_of(record.data) for record in journals.read(run.path).of("block")]


def rebuild(run: RunFolder) -> Path:
    """Write experiments.parquet from the journal, as after a crash."""
    return write_blocks(run, blocks_in_journal(run))
