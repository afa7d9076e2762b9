"""Rotary position embedding (RoPE), and writing keys and values to the paged KV cache."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from assay._native import rope_cos_sin
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.kv_cache import cache_operand, check_cache
from assay.ops.operands import I32, call, check, check_given, nbytes, result
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device as device_named

_MOST_COPIED_BYTES: Final = 256 << 20
"""A larger table in host memory is written in place: a copy beside it might not fit."""

SCALINGS: Final[dict[str, dict[str, float | None]]] = {
    "none": {},
    "linear": {"factor": None},
    "ntk": {"factor": None},
    "yarn": {
        "factor": None,
        "original_context": None,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "attention_factor": math.nan,
        "truncate": True,
    },
    "llama3": {
        "factor": None,
        "original_context": None,
        "low_frequency": None,
        "high_frequency": None,
    },
}
"""Context-extension methods and their parameters with defaults; None is required. YaRN's defaults
are those of its paper, whose attention factor, 0.1 ln(factor) + 1, NaN stands for."""


class RopeTable(NamedTuple):
    """The cos/sin cache of RoPE, and how the dimensions of a head are paired."""

    cos_sin: Array
    """Shape (positions, rotary_dim): cosines of all pairs, then their sines."""
    interleaved: bool
    """Whether adjacent dimensions are paired (GPT-J) rather than the halves of a head (NeoX)."""

    @property
    def positions(self) -> int:
        """Positions in the table."""
        return self.cos_sin.shape[0]

    @property
    def rotary_dim(self) -> int:
        """Dimensions of a head that are rotated."""
        return self.cos_sin.shape[1]


def rope_table(
    rotary_dim: int,
    positions: int,
    base: float = 10_000.0,
    *,
    scaling: str = "none",
    interleaved: bool = False,
    device: Device | str = "cpu",
    **values: float,
) -> RopeTable:
    """The RoPE table of `rotary_dim` dimensions of a head for positions below `positions`.

    `scaling` is none, linear, ntk, yarn or llama3, and `values` its parameters: the factor, and
    for the last two the original context length and the bounds of the interpolation ramp; for yarn
    also `attention_factor`, which multiplies cosines and sines, and `truncate`, which rounds the
    ends of the ramp outward to whole pairs.
    `interleaved` pairs adjacent dimensions instead of the two halves of a head.
    """
    if scaling not in SCALINGS:
        raise InputError(
            f'rope_table: expected a scaling, got "{scaling}"', f"one of: {', '.join(SCALINGS)}"
        )
    if rotary_dim < 2 or rotary_dim % 2 or positions < 1:
        raise InputError(
            "rope_table: expected an even rotary_dim and positions above 0, "
            f"got {rotary_dim} and {positions}"
        )
    parameters = SCALINGS[scaling]
    unknown = sorted(set(values) - set(parameters))
    missing = [name for name, value in parameters.items() if value is None and name not in values]
    if unknown or missing:
        raise InputError(
            f"rope_table: expected for {scaling}: {', '.join(parameters) or 'nothing'}; got "
            f"{', '.join(sorted(values)) or 'nothing'}"
        )
    ordered: list[Any] = [values.get(name, default) for name, default in parameters.items()]
    target = device_named(device)
    out = allocation.empty(target, (positions, rotary_dim), dtypes.float32, "rope_table")
    if target.host_memory and out.nbytes > _MOST_COPIED_BYTES:

        def run() -> None:
            rope_cos_sin(rotary_dim, positions, float(base), scaling, ordered, out.buffer)

        target.launch("rope_table", run, [], [out.buffer], bytes=out.nbytes)
        return RopeTable(out, interleaved)
    # Not by a launch: in a task of the scheduler, its function could not write to the table. And without
    # NumPy, which a first token does not wait for.
    cos_sin = memoryview(bytearray(out.nbytes)).cast("f")
    rope_cos_sin(rotary_dim, positions, float(base), scaling, ordered, cos_sin)
    target.upload("rope_table", cos_sin, out.buffer, 0)
    return RopeTable(out, interleaved)


def rope(
    x: Array, positions: Array, table: RopeTable, out: Array | None = None,
    *, label: str | None = None,
) -> Array:  # fmt: skip
    """RoPE on the first `rotary_dim` dimensions of every head of `x`.

    `x` has shape (tokens, heads, head_dim).
    """
    check("rope", "x", x, (None, None, None))
    check("rope", "positions", positions, (x.shape[0],), I32)
    rows, heads, head_dim = x.shape
    _check_table("rope", table, head_dim)
    out = result("rope", x.device, out, x.shape, x.dtype)
    call(
        "rope",
        [x, positions, table.cos_sin, out],
        (rows, heads, head_dim, table.rotary_dim, table.positions, int(table.interleaved)),
        x.device,
        counting.memory_traffic(nbytes(x, positions, out), 4 * rows * table.rotary_dim),
        label,
    )
    return out


def rope_write(
    qkv: Array,
    positions: Array,
    slot_mapping: Array,
    table: RopeTable | None,
    keys: Array,
    values: Array,
    q_out: Array | None = None,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    query_norm: Array | None = None,
    key_norm: Array | None = None,
    epsilon: float = 0.0,
    metadata_ready: bool = False,
    label: str | None = None,
) -> Array:
    """Split fused QKV rows, apply RoPE to queries and keys, write keys and values to the cache.

    `keys` and `values` have shape (blocks, block_tokens, kv_heads, head_dim); the layout inside a
    block is private to the device. A cache of uint8 holds e4m3 floats; one of int8, whose last
    extent is head_dim + 4, holds codes with a scale for each token of a head. Slot s is token
    s % block_tokens of block s // block_tokens; a slot of -1 skips its row. `query_norm` and
    `key_norm` are the weights of a per-head RMSNorm before RoPE. `metadata_ready` promises that the
    operation queued just before does not write positions and slot_mapping, so that a GPU may read
    them before that operation completes.
    Returns the queries, of shape (tokens, heads, head_dim).
    """
    rows = check("rope_write", "slot_mapping", slot_mapping, (None,), I32).shape[0]
    check("rope_write", "qkv", qkv, (rows, (heads + 2 * kv_heads) * head_dim))
    check("rope_write", "positions", positions, (rows,), I32)
    check_cache("rope_write", keys, values, None, kv_heads, head_dim)
    check_given("rope_write", "query_norm", query_norm, (head_dim,))
    check_given("rope_write", "key_norm", key_norm, (head_dim,))
    if q_out is not None and q_out.shape == (rows, heads * head_dim):
        queries = check("rope_write", "q_out", q_out, (rows, heads * head_dim))
    else:
        queries = result("rope_write", qkv.device, q_out, (rows, heads, head_dim), qkv.dtype)
    rotary_dim, table_positions, interleaved = 0, 0, 0
    if table is not None:
        _check_table("rope_write", table, head_dim)
        rotary_dim, table_positions = table.rotary_dim, table.positions
        interleaved = int(table.interleaved)
    blocks, block_tokens = keys.shape[:2]
    written = 2 * rows * kv_heads * keys.shape[3] * keys.dtype.itemsize
    call(
        "rope_write",
        [
            qkv,
            positions,
            slot_mapping,
            None if table is None else table.cos_sin,
            query_norm,
            key_norm,
            cache_operand("rope_write", "keys", keys),
            cache_operand("rope_write", "values", values),
            queries,
        ],
        (
            rows,
            heads,
            kv_heads,
            head_dim,
            rotary_dim,
            table_positions,
            interleaved,
            block_tokens,
            blocks,
            int(metadata_ready),
            float(epsilon),
        ),
        qkv.device,
        counting.memory_traffic(
            nbytes(qkv, positions, slot_mapping, queries), 4 * rows * rotary_dim, written
        ),
        label,
    )
    return queries


def _check_table(operation: str, table: object, head_dim: int) -> None:
    if not isinstance(table, RopeTable):
        raise InputError(
            f"{operation}: expected a RopeTable, got {type(table).__name__}",
            "make one with assay.ops.rope_table",
        )
    check(operation, "table", table.cos_sin, (None, None))
    if table.rotary_dim > head_dim:
        raise ShapeError(
            f"{operation}: expected rotary_dim of at most {head_dim}, got {table.rotary_dim}"
        )
