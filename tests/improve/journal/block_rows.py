"""The blocks of a run as its table has them."""

import json
from pathlib import Path

import polars as pl

from assay.improve.experiments.result import Block
from assay.improve.journal.block_table import block_of


def read_blocks(path: Path) -> list[Block]:
    """The blocks of an experiments.parquet."""
    return [
        block_of(row | {name: json.loads(row[name]) for name in ("settings", "figures")})
        for row in pl.read_parquet(path).iter_rows(named=True)
    ]
