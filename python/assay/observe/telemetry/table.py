"""Samples as a Polars frame and as Parquet, with the columns of `fields`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.telemetry.fields import FIELDS, IDENTITY, PROCESS
from assay.observe.telemetry.sample import FORMAT, RunHeader, Sample

METADATA: Final = "assay.telemetry"
"""Key of a file's metadata under which the run's header is kept, as JSON."""


def columns() -> dict[str, Any]:
    """The columns of a frame of samples: one row a device and tick."""
    kinds = {int: pl.Int64, float: pl.Float64, str: pl.String}
    schema: dict[str, Any] = {name: kinds[kind] for name, (kind, _) in IDENTITY.items()}
    schema |= {field.name: kinds[field.type] for field in FIELDS.values()}
    schema["processes"] = pl.List(pl.Struct({name: kinds[kind] for name, kind in PROCESS.items()}))
    schema["series"] = pl.List(pl.Struct({"key": pl.String, "value": pl.Float64}))
    return schema


def of_rows(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows of samples as a frame; a column that a row lacks is null there."""
    for row in rows:
        if "series" in row:
            row["series"] = [{"key": key, "value": value} for key, value in row["series"].items()]
    # Not strict: an integer of a float column, as an exporter may send, is a float there.
    return pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in columns()},
        schema=columns(),
        strict=False,
    )


def of_samples(samples: Sequence[Sample]) -> pl.DataFrame:
    """The samples as a frame."""
    return of_rows([sample.row() for sample in samples])


def warm_up(header: RunHeader) -> None:
    """Have Polars import what it imports on first use: before the recording, not during it."""
    try:
        to_parquet(of_rows([]), header)
    except InputError as error:
        raise InputError(error.message, f"{error.hint}, or record with --sink jsonl:PATH") from None


def to_parquet(frame: pl.DataFrame, header: RunHeader) -> bytes:
    """A frame of samples as a Parquet file whose metadata hold the header."""
    content = io.BytesIO()
    described = json.dumps({"format": FORMAT, **asdict(header)})
    frame.write_parquet(content, compression="zstd", metadata={METADATA: described})
    return content.getvalue()
