"""Multi-head latent attention (DeepSeek-V2) over a paged cache of latents."""

from __future__ import annotations

from assay.errors import InputError
from assay.ops import counting
from assay.ops.operands import DENSE, F32, I32, call, check, nbytes, result
from assay.ops.rope import RopeTable
from assay.runtime.array import Array


def latent_write(
    kv: Array,
    q_rope: Array,
    positions: Array,
    slot_mapping: Array,
    table: RopeTable,
    norm: Array,
    cache: Array,
    *,
    heads: int,
    epsilon: float,
    label: str | None = None,
) -> None:
    """Write latents and shared keys to the cache, and rotate the rotary part of queries in place.

    A row of `kv` is a latent, which `norm` (RMSNorm) normalizes, and the key that all heads share,
    which RoPE rotates. `q_rope` has the shape (tokens, heads * rotary_dim), and `cache` (blocks,
    block_tokens, rank + rotary_dim). Slots are as for `rope_write`.
    """
    name = "latent_write"
    rank = check(name, "norm", norm, (None,)).shape[0]
    rotary_dim = check(name, "table", table.cos_sin, (None, None), F32).shape[1]
    rows = check(name, "slot_mapping", slot_mapping, (None,), I32).shape[0]
    check(name, "kv", kv, (rows, rank + rotary_dim))
    check(name, "positions", positions, (rows,), I32)
    check(name, "q_rope", q_rope, (rows, heads * rotary_dim))
    check(name, "cache", cache, (None, None, rank + rotary_dim), DENSE)
    blocks, block_tokens = cache.shape[:2]
    written = rows * (rank + rotary_dim) * cache.dtype.itemsize
    call(
        name,
        [kv, positions, slot_mapping, table.cos_sin, norm, q_rope, cache],
        (
            rows,
            heads,
            rank,
            rotary_dim,
            table.positions,
            int(table.interleaved),
            block_tokens,
            blocks,
            float(epsilon),
        ),
        kv.device,
        counting.memory_traffic(nbytes(kv, positions, slot_mapping, q_rope, q_rope), 0, written),
        label,
    )


def latent_attention(
    q_latent: Array,
    q_rope: Array,
    cache: Array,
    block_tables: Array,
    query_start_loc: Array,
    seq_lens: Array,
    *,
    heads: int,
    scale: float,
    max_query_len: int | None = None,
    num_splits: int = 0,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Causal attention of queries in latent space (weight absorption) over a paged cache.

    A key is a row of the cache, and the latent at its beginning is its value, for every head alike.
    `q_latent` and the result have the shape (tokens * heads, rank), `q_rope` (tokens, heads *
    rotary_dim). The other arguments are those of `paged_attention`.
    """
    name = "latent_attention"
    if heads < 1 or num_splits < 0:
        raise InputError(f"{name}: expected heads and num_splits, got {heads} and {num_splits}")
    rows, width = check(name, "q_rope", q_rope, (None, None)).shape
    rotary_dim = width // heads
    check(name, "q_rope", q_rope, (rows, heads * rotary_dim))
    rank = check(name, "q_latent", q_latent, (rows * heads, None), (q_rope.dtype,)).shape[1]
    check(name, "cache", cache, (None, None, rank + rotary_dim), DENSE)
    sequences = check(name, "seq_lens", seq_lens, (None,), I32).shape[0]
    check(name, "query_start_loc", query_start_loc, (sequences + 1,), I32)
    columns = check(name, "block_tables", block_tables, (sequences, None), I32).shape[1]
    out = result(name, q_latent.device, out, q_latent.shape, q_latent.dtype)
    blocks, block_tokens = cache.shape[:2]
    call(
        name,
        [q_latent, q_rope, cache, block_tables, query_start_loc, seq_lens, out],
        (
            rows,
            sequences,
            heads,
            rank,
            rotary_dim,
            block_tokens,
            blocks,
            columns,
            rows if max_query_len is None else max_query_len,
            num_splits,
            float(scale),
        ),
        q_latent.device,
        # How long contexts are is known on the device only.
        counting.memory_traffic(nbytes(q_latent, q_rope, out)),
        label,
    )
    return out
