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

from assay.array_types import Flags, Floats, Ints
from assay.lazy_import import pl
from assay.observe.timeline.codes import codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def encode(events: pl.DataFrame, order: Ints, origin_ns: int) -> Blocks:
    """Encode every column that holds something, its rows in an order; starts from `origin_ns`."""
    raw: dict[str, bytes] = {}
    columns: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, kind in events.schema.items():
        column = events[name]
        if column.null_count() == len(column):
            continue
        if isinstance(kind, pl.Array):
            parts = [pl.col(name).arr.get(at) for at in range(kind.size)]
            column = events.select(pl.concat_str(parts, separator=" x "))[name]
        if column.dtype in (pl.String, pl.Categorical):
            coded = codes(column)
            size = sum(map(len, coded.words))
            if size > MAX_TEXT:
                left_out.append(
                    f"column {name}: {size:,} characters of distinct text, more than {MAX_TEXT:,}"
                )
                continue
            raw[f"{name}.words"] = json.dumps(coded.words).encode()
            planes, entry = _integers(coded.values[order].astype(np.int64), None, is_delta=False)
            entry["kind"] = "text"
        else:
            nulls = column.is_null().to_numpy()[order] if column.null_count() else None
            values = column.fill_null(0).to_numpy()[order]
            if column.dtype.is_float():
                planes, entry = _floats(values.astype(np.float64), nulls)
            else:
                values = values.astype(np.int64)
                if name == "start_ns":
                    values -= origin_ns
                planes, entry = _integers(values, nulls, is_delta=name in DELTAS)
        raw[name] = planes
        columns.append({"name": name, **entry})
    with ThreadPoolExecutor() as pool:
        packed = pool.map(lambda data: zlib.compress(data, _LEVEL), raw.values())
        return Blocks(dict(zip(raw, packed, strict=True)), columns, left_out)


def _integers(values: Ints, nulls: Flags | None, *, is_delta: bool) -> tuple[bytes, dict[str, Any]]:
    if is_delta:
        if nulls is not None:
            # A null repeats the value before it, so that no difference is large.
            known = np.maximum.accumulate(np.where(nulls, -1, np.arange(len(values))))
            values = np.where(known >= 0, values[known], 0)
        # Differences wrap around like the sums that undo them.
        values = np.diff(values, prepend=np.int64(0))
    coded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max((int(coded.max(initial=0)).bit_length() + 7) // 8, 1)
    entry = {"kind": "integer", "width": width, "delta": is_delta, "nulls": nulls is not None}
    return _planes(coded, width, nulls), entry


def _floats(values: Floats, nulls: Flags | None) -> tuple[bytes, dict[str, Any]]:
    entry = {"kind": "float", "width": 8, "delta": False, "nulls": nulls is not None}
    return _planes(values, 8, nulls), entry


def _planes(values: NDArray[Any], width: int, nulls: Flags | None) -> bytes:
    """The bytes of 64-bit values by place, the lowest first; then 1 for each null."""
    data = values.view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()
    return data if nulls is None else data + nulls.astype(np.uint8).tobytes()
