"""Embedding lookup, and gathering rows of activations."""

from __future__ import annotations

from assay.errors import DeviceError
from assay.ops import counting
from assay.ops.operands import DENSE, I32, Operand, call, check, result
from assay.ops.weights import Weights
from assay.runtime import dtypes
from assay.runtime.array import Array


def embedding(
    ids: Array,
    table: Array | Weights,
    out: Array | None = None,
    *,
    sampled_tokens: Array | None = None,
    label: str | None = None,
) -> Array:
    """Row `ids[i]` of the table for each i; an id of -1 gives zeros. Other ids fail the stream.

    With `sampled_tokens`, an id of -2 - n means `sampled_tokens[n]`, so that the host need not
    read tokens that were just sampled.
    """
    check("embedding", "ids", ids, (None,), I32)
    if sampled_tokens is not None:
        check("embedding", "sampled_tokens", sampled_tokens, (None,), I32)
        # An empty array is no operand; no id can refer to it.
        sampled_tokens = sampled_tokens if sampled_tokens.size else None
    count = ids.shape[0]
    operand: Array | Operand
    if isinstance(table, Weights):
        rows, columns = table.shape
        element_bytes, operand, device = table.element_bytes, table.operand(), table.device
        stored = table.dtype
    else:
        check("embedding", "table", table, (None, None), DENSE)
        rows, columns = table.shape
        element_bytes, operand, device = float(table.dtype.itemsize), table, table.device
        stored = table.dtype
    if ids.device is not device:
        raise DeviceError(f"embedding: expected ids on device {device}, got {ids.device}")
    # A GPU returns rows in their stored type; a CPU widens them.
    keeps_dtype = stored is not None and device.capabilities.gathers_stored_dtype
    dtype = stored if keeps_dtype and stored is not None else dtypes.float32
    out = result("embedding", device, out, (count, columns), dtype)
    call(
        "embedding",
        [ids, sampled_tokens, operand, out],
        (count, rows, columns),
        device,
        counting.memory_traffic(ids.nbytes, round(count * columns * element_bytes), out.nbytes),
        label,
    )
    return out


def gather_rows(
    x: Array, rows: Array, out: Array | None = None, *, label: str | None = None
) -> Array:
    """Row `rows[i]` of `x` for each i; -1 gives zeros. Other indices fail the stream."""
    check("gather_rows", "x", x, (None, None))
    check("gather_rows", "rows", rows, (None,), I32)
    count, (source_rows, columns) = rows.shape[0], x.shape
    out = result("gather_rows", x.device, out, (count, columns), x.dtype)
    call(
        "gather_rows",
        [x, rows, out],
        (count, source_rows, columns),
        x.device,
        counting.memory_traffic(rows.nbytes, 2 * out.nbytes),
        label,
    )
    return out
