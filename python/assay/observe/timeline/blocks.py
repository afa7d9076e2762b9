"""The columns of a trace as compressed blocks of bytes, which the page decodes.

A column of integers is stored as byte planes: the lowest byte of every row, then the next byte of
every row, and so on up to the highest byte that is in use; planes of similar bytes compress well
and need no loop per value to write. Values are zigzag-coded (sign in the lowest bit), `delta`
columns hold differences, and a plane of its own marks nulls. `web/src/columns.ts` reads the same.
"""

from __future__ import annotations

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.lazy_import import LazyModule
from assay.observe.timeline.codes import codes

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray
else:
    pl = LazyModule("polars", globals(), "pl")

DELTAS: Final = ("start_ns", "correlation", "external", "node")
"""Columns that grow from row to row."""

MAX_TEXT: Final = 64 << 20
"""Bytes of distinct text that a column may bring; a page with more would not open."""

_LEVEL: Final = 5


class Blocks(NamedTuple):
    """Compressed blocks by name, the description of the columns, and what was left out."""

    blocks: dict[str, bytes]
    columns: list[dict[str, Any]]
    left_out: list[str]


def encode(events: pl.DataFrame, origin_ns: int) -> Blocks:
    """Encode every column that holds something; starts count from `origin_ns`."""
    raw: dict[str, bytes] = {}
    columns: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, kind in events.schema.items():
        column = events[name]
        if column.null_count() == len(column):
            continue
        if name == "start_ns":
            column = column - origin_ns
        if isinstance(kind, pl.Array):
            column = column.cast(pl.Array(pl.String, kind.size)).arr.join(" x ")
        if column.dtype in (pl.String, pl.Categorical):
            found = codes(column)
            size = sum(map(len, found.words))
            if size > MAX_TEXT:
                left_out.append(
                    f"column {name}: {size:,} characters of distinct text, more than {MAX_TEXT:,}"
                )
                continue
            raw[f"{name}.words"] = json.dumps(found.words).encode()
            planes, entry = _integers(pl.Series(found.values), is_delta=False)
            entry["kind"] = "text"
        elif column.dtype.is_float():
            planes, entry = _floats(column)
        else:
            planes, entry = _integers(column, is_delta=name in DELTAS)
        raw[name] = planes
        columns.append({"name": name, **entry})
    with ThreadPoolExecutor() as pool:
        packed = pool.map(lambda data: zlib.compress(data, _LEVEL), raw.values())
        return Blocks(dict(zip(raw, packed, strict=True)), columns, left_out)


def _integers(column: pl.Series, *, is_delta: bool) -> tuple[bytes, dict[str, Any]]:
    has_nulls = column.null_count() > 0
    filled = column.cast(pl.Int64)
    if has_nulls:
        filled = (filled.fill_null(strategy="forward") if is_delta else filled).fill_null(0)
    values = filled.to_numpy()
    if is_delta:
        # Differences wrap around like the sums that undo them.
        values = np.diff(values, prepend=np.int64(0))
    coded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max((int(coded.max(initial=0)).bit_length() + 7) // 8, 1)
    planes = coded.view(np.uint8).reshape(-1, 8)[:, :width].T
    return _with_nulls(planes, column), {
        "kind": "integer",
        "width": width,
        "delta": is_delta,
        "nulls": has_nulls,
    }


def _floats(column: pl.Series) -> tuple[bytes, dict[str, Any]]:
    values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8).T
    has_nulls = column.null_count() > 0
    entry = {"kind": "float", "width": 8, "delta": False, "nulls": has_nulls}
    return _with_nulls(planes, column), entry


def _with_nulls(planes: NDArray[np.uint8], column: pl.Series) -> bytes:
    data = np.ascontiguousarray(planes).tobytes()
    if column.null_count():
        data += column.is_null().cast(pl.UInt8).to_numpy().tobytes()
    return data
