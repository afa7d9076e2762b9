"""Rotary position embedding, and the way of queries, keys and values into the paged cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from assay import _native
from assay.errors import InputError, ShapeError
from assay.lazy_import import LazyModule
from assay.ops import counting
from assay.ops.calling import DENSE, I32, call, check, nbytes, result
from assay.runtime import dtypes, launching
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.runtime.hardware import device as device_named

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy", globals(), "np")

SCALINGS: Final[dict[str, dict[str, float | None]]] = {
    "none": {},
    "linear": {"factor": None},
    "ntk": {"factor": None},
    "yarn": {"factor": None, "original_context": None, "beta_fast": 32.0, "beta_slow": 1.0},
    "llama3": {
        "factor": None,
        "original_context": None,
        "low_frequency": None,
        "high_frequency": None,
    },
}
"""Ways to stretch frequencies and what each is told; None must be given. YaRN's two defaults are
those of its paper."""


class RopeTable(NamedTuple):
    """Cosines and sines for every position, and which numbers of a head turn together."""

    turns: Array
    """Positions by turned numbers: cosines of all pairs, then their sines."""
    pairs: Literal["halves", "neighbors"]

    @property
    def positions(self) -> int:
        """Positions there are turns for."""
        return self.turns.shape[0]

    @property
    def dimensions(self) -> int:
        """Numbers of a head that turn."""
        return self.turns.shape[1]


def rope_table(
    dimensions: int,
    positions: int,
    base: float = 10_000.0,
    *,
    scaling: str = "none",
    pairs: Literal["halves", "neighbors"] = "halves",
    device: Device | str = "cpu",
    **values: float,
) -> RopeTable:
    """Turns of `dimensions` numbers of a head for positions from 0 to below `positions`.

    `scaling` is none, linear, ntk, yarn or llama3, and `values` what it needs: its factor, and for
    the last two the context that the model was trained on and where stretching begins and ends.
    """
    if scaling not in SCALINGS:
        raise InputError(
            f'rope_table: expected a scaling, got "{scaling}"', f"one of: {', '.join(SCALINGS)}"
        )
    if pairs not in ("halves", "neighbors"):
        raise InputError(f'rope_table: expected pairs of halves or neighbors, got "{pairs}"')
    if dimensions < 2 or dimensions % 2 or positions < 1:
        raise InputError(
            "rope_table: expected an even number of dimensions and positions above 0, "
            f"got {dimensions} and {positions}"
        )
    wanted = SCALINGS[scaling]
    unknown = sorted(set(values) - set(wanted))
    missing = [name for name, given in wanted.items() if given is None and name not in values]
    if unknown or missing:
        raise InputError(
            f"rope_table: expected for {scaling}: {', '.join(wanted) or 'nothing'}; got "
            f"{', '.join(sorted(values)) or 'nothing'}"
        )
    ordered: list[Any] = [values.get(name, default) for name, default in wanted.items()]
    on = device_named(device)
    if not on.host_memory:
        turns = np.empty((positions, dimensions), np.float32)
        _native.rope_turns(dimensions, positions, float(base), scaling, ordered, turns)
        return RopeTable(launching.store("rope_table", on, turns), pairs)
    out = launching.empty(on, (positions, dimensions), dtypes.float32, "rope_table")

    def run() -> None:
        _native.rope_turns(dimensions, positions, float(base), scaling, ordered, out.buffer)

    stream = on.current_stream()._native
    on._context.launch("rope_table", run, [], [out.buffer], stream, bytes=out.nbytes, flops=0.0)
    return RopeTable(out, pairs)


def rope(
    x: Array, positions: Array, table: RopeTable, out: Array | None = None,
    *, label: str | None = None,
) -> Array:  # fmt: skip
    """The first numbers of every head turned by its token's position.

    `x` is tokens by heads by head_dim.
    """
    check("rope", "x", x, (None, None, None))
    check("rope", "positions", positions, (x.shape[0],), I32)
    rows, heads, head_dim = x.shape
    _check_table("rope", table, head_dim)
    out = result("rope", x.device, out, x.shape, x.dtype)
    call(
        "rope",
        [("x", x), ("positions", positions), ("table", table.turns), ("out", out)],
        (
            rows,
            heads,
            head_dim,
            table.dimensions,
            table.positions,
            int(table.pairs == "neighbors"),
        ),
        x.device,
        counting.moved(nbytes(x, positions, out), 4 * rows * table.dimensions),
        label,
    )
    return out


def rope_write(
    qkv: Array,
    positions: Array,
    slots: Array,
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
    settled: bool = False,
    label: str | None = None,
) -> Array:
    """Split rows into queries, keys and values; turn queries and keys; fill the paged cache.

    `keys` and `values` are (blocks, block_tokens, kv_heads, head_dim) in size; how a block is
    arranged inside is the device's own. Slot s is token s % block_tokens of block
    s // block_tokens; a slot of -1 leaves its row out. `query_norm` and `key_norm` are the weights
    of a root-mean-square norm of each head, before it turns. `settled` says that positions and slots
    are not made by the operation queued just before, so that a GPU may read them while that one
    ends. Returns the queries, tokens by heads by head_dim.
    """
    rows = check("rope_write", "slots", slots, (None,), I32).shape[0]
    check("rope_write", "qkv", qkv, (rows, (heads + 2 * kv_heads) * head_dim))
    check("rope_write", "positions", positions, (rows,), I32)
    check("rope_write", "keys", keys, (None, None, kv_heads, head_dim), DENSE)
    check("rope_write", "values", values, keys.shape, (keys.dtype,))
    if query_norm is not None:
        check("rope_write", "query_norm", query_norm, (head_dim,))
    if key_norm is not None:
        check("rope_write", "key_norm", key_norm, (head_dim,))
    if q_out is not None and q_out.shape == (rows, heads * head_dim):
        queries = check("rope_write", "q_out", q_out, (rows, heads * head_dim))
    else:
        queries = result("rope_write", qkv.device, q_out, (rows, heads, head_dim), qkv.dtype)
    turned, table_positions, neighbors = 0, 0, 0
    if table is not None:
        _check_table("rope_write", table, head_dim)
        turned, table_positions = table.dimensions, table.positions
        neighbors = int(table.pairs == "neighbors")
    blocks, block_tokens = keys.shape[:2]
    written = 2 * rows * kv_heads * head_dim * keys.dtype.itemsize
    call(
        "rope_write",
        [
            ("qkv", qkv),
            ("positions", positions),
            ("slots", slots),
            ("table", None if table is None else table.turns),
            ("query_norm", query_norm),
            ("key_norm", key_norm),
            ("keys", keys),
            ("values", values),
            ("q_out", queries),
        ],
        (
            rows,
            heads,
            kv_heads,
            head_dim,
            turned,
            table_positions,
            neighbors,
            block_tokens,
            blocks,
            int(settled),
            float(epsilon),
        ),
        qkv.device,
        counting.moved(nbytes(qkv, positions, slots, queries), 4 * rows * turned, written),
        label,
    )
    return queries


def _check_table(operation: str, table: object, head_dim: int) -> None:
    if not isinstance(table, RopeTable):
        raise InputError(
            f"{operation}: expected a table of rotations, got {type(table).__name__}",
            "make one with assay.ops.rope_table",
        )
    check(operation, "table", table.turns, (None, None))
    if table.dimensions > head_dim:
        raise ShapeError(
            f"{operation}: expected at most {head_dim} turned numbers, got {table.dimensions}"
        )
