"""Parquet files as tables: a damaged one is refused, also where Polars panics over it."""

from __future__ import annotations

from pathlib import Path

from assay.errors import InputError
from assay.lazy_import import pl


def read_table(path: Path) -> pl.DataFrame:
    """The table of a file; raises `InputError` with the first line of what is wrong with it."""
    try:
        return pl.read_parquet(path)
    except BaseException as error:
        # Polars has an exception for each thing that can be wrong with a file, and panics.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: expected a Parquet table, got: {reason[:200]}") from None
