"""Samples as an Arrow table and as Parquet, with the columns of `fields`; needs PyArrow."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from assay.errors import InputError
from assay.observe.telemetry.fields import FIELDS, IDENTITY, PROCESS
from assay.observe.telemetry.sample import FORMAT, RunHeader, Sample

METADATA: Final = b"assay.telemetry"
"""Key of the file's metadata under which the run's header is kept, as JSON."""

_REPEATED: Final = ("run", "workload", "fingerprint", "phase", "source", "device", "name")
"""Text columns with few different values."""


def arrow() -> Any:
    """PyArrow, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow, which is not installed",
            "install it with: pip install 'assay[loop]', or record with --sink jsonl:PATH",
        ) from None
    return pyarrow


@cache
def schema() -> Any:
    """The Arrow schema of a table of samples."""
    pa = arrow()
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    text = pa.dictionary(pa.int32(), pa.string())
    columns = [
        (name, text if name in _REPEATED else kinds[kind]) for name, (kind, _) in IDENTITY.items()
    ]
    columns += [(field.name, kinds[field.type]) for field in FIELDS.values()]
    process = pa.struct([(name, kinds[kind]) for name, kind in PROCESS.items()])
    columns += [
        ("processes", pa.list_(process)),
        ("series", pa.map_(pa.string(), pa.float64())),
    ]
    return pa.schema(columns)


def warm_up(header: RunHeader) -> None:
    """Have PyArrow import what it imports on first use: half a second before, not during it."""
    to_table([], header)


def to_table(samples: Sequence[Sample], header: RunHeader) -> Any:
    """The samples as a table whose metadata hold the header."""
    pa = arrow()
    rows = [sample.row() for sample in samples]
    for row in rows:
        if "series" in row:
            row["series"] = list(row["series"].items())
    arrays = []
    for column in schema():
        kind = FIELDS[column.name].type if column.name in FIELDS else None
        values = [_converted(row.get(column.name), kind) for row in rows]
        arrays.append(pa.array(values, type=column.type))
    described = json.dumps({"format": FORMAT, **asdict(header)})
    return pa.Table.from_arrays(
        arrays, schema=schema().with_metadata({METADATA: described.encode()})
    )


def _converted(value: Any, kind: type | None) -> Any:
    """An integer of a float column, as an exporter may send, is a float there."""
    return kind(value) if kind is not None and value is not None else value


def to_parquet(table: Any) -> bytes:
    """The table as a Parquet file, compressed with zstd."""
    pq = arrow().parquet
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
