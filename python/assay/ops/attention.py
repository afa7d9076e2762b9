"""Attention over a paged KV cache, and over dense keys and values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from assay._native import OPERATIONS
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.counting import NOTHING, Count
from assay.ops.kv_cache import cache_operand, check_cache
from assay.ops.operands import DENSE, F32, I32, call, check, check_given, nbytes, operand, result
from assay.ops.rope import RopeTable
from assay.runtime import dtypes
from assay.runtime.array import Array


def _check_heads(operation: str, heads: int, kv_heads: int) -> None:
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise ShapeError(
            f"{operation}: expected heads in multiples of kv_heads, got {heads} and {kv_heads}"
        )


def _check_scores(
    operation: str,
    heads: int,
    window: int,
    softcap: float,
    sinks: Array | None,
    alibi_slopes: Array | None,
) -> None:
    if window < 0 or not softcap >= 0:
        raise InputError(
            f"{operation}: expected window and softcap of 0 or more, got {window} and {softcap}"
        )
    for name, array in (("sinks", sinks), ("alibi_slopes", alibi_slopes)):
        check_given(operation, name, array, (heads,), F32)


def _fill_zeros(operation: str, out: Array, label: str | None) -> Array:
    """Zeros for all rows: without sequences, every row is padding."""
    buffer, offset, size, _ = operand(operation, "out", out)
    if size:
        out.device.fill(label or operation, buffer, offset, 0, size)
    return out


def paged_attention(
    q: Array,
    keys: Array,
    values: Array,
    block_tables: Array,
    query_start_loc: Array,
    seq_lens: Array,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Array | None = None,
    alibi_slopes: Array | None = None,
    out: Array | None = None,
    contexts: Iterable[tuple[int, int]] | None = None,
    max_query_len: int | None = None,
    num_splits: int = 0,
    metadata_ready: bool = False,
    label: str | None = None,
) -> Array:
    """Causal attention of new tokens over a paged KV cache that `rope_write` filled.

    Sequence s owns rows query_start_loc[s] to query_start_loc[s + 1] of `q`, the last of its
    seq_lens[s] tokens; token t is in block block_tables[s, t // block_tokens]. One call takes
    decode steps and prefill chunks together. Rows of no sequence, or of one of length 0, become
    zeros. `scale` defaults to 1 / sqrt(head_dim). `max_query_len` bounds the rows per sequence:
    with 1, a GPU runs its decode kernel, which reduces in another order than the prefill kernel;
    pass 2 or more to run the prefill kernel for single rows too. `num_splits` splits the context
    of decode rows (Flash-Decoding); 0 leaves the number to the device. Another number of splits
    reduces in another order and rounds differently. A query sees the last `window` tokens, itself
    included; 0 means all. `softcap` bounds scaled scores by c * tanh(score / c). `sinks` are logits,
    one for each head, that take part in the softmax without a value. `alibi_slopes` times the
    distance of a key are subtracted from its score. `metadata_ready` promises that the operation
    queued just before does not write block_tables, query_start_loc and seq_lens, so that a GPU
    may read them before that operation completes.

    seq_lens is in device memory, so the bytes read are unknown on the host: pass `contexts`, pairs
    of new tokens and length per sequence, to have the record count keys, values and FLOPs.
    Without it only queries and outputs are counted.
    """
    _check_heads("paged_attention", heads, kv_heads)
    if num_splits < 0:
        raise InputError(f"paged_attention: expected num_splits of 0 or more, got {num_splits}")
    _check_scores("paged_attention", heads, window, softcap, sinks, alibi_slopes)
    wide = q.ndim == 3
    rows = check(
        "paged_attention", "q", q, (None, heads, head_dim) if wide else (None, heads * head_dim)
    ).shape[0]
    check_cache("paged_attention", keys, values, block_tokens, kv_heads, head_dim)
    sequences = check("paged_attention", "seq_lens", seq_lens, (None,), I32).shape[0]
    check("paged_attention", "query_start_loc", query_start_loc, (sequences + 1,), I32)
    columns = check("paged_attention", "block_tables", block_tables, (sequences, None), I32).shape[
        1
    ]
    out = result("paged_attention", q.device, out, q.shape, q.dtype)
    if not sequences:
        return _fill_zeros("paged_attention", out, label)
    if contexts is None:
        count = counting.memory_traffic(nbytes(q, out))
    else:
        element_bytes = keys.dtype.itemsize * keys.shape[3] / head_dim
        count = functools.reduce(
            Count.__add__,
            (
                counting.attention(
                    queries, tokens, heads, kv_heads, head_dim, element_bytes, window
                )
                for queries, tokens in contexts
            ),
            NOTHING,
        )
    call(
        "paged_attention",
        [
            q,
            cache_operand("paged_attention", "keys", keys),
            cache_operand("paged_attention", "values", values),
            block_tables,
            query_start_loc,
            seq_lens,
            sinks,
            alibi_slopes,
            out,
        ],
        (
            rows,
            sequences,
            heads,
            kv_heads,
            head_dim,
            block_tokens,
            keys.shape[0],
            columns,
            rows if max_query_len is None else max_query_len,
            num_splits,
            int(metadata_ready),
            window,
            float(head_dim**-0.5 if scale is None else scale),
            float(softcap),
        ),
        q.device,
        count,
        label,
    )
    return out


def decode_attention(
    qkv: Array,
    table: RopeTable | None,
    keys: Array,
    values: Array,
    block_tables: Array,
    query_start_loc: Array,
    seq_lens: Array,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int,
    query_norm: Array | None = None,
    key_norm: Array | None = None,
    epsilon: float = 0.0,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Array | None = None,
    alibi_slopes: Array | None = None,
    out: Array | None = None,
    num_splits: int = 0,
    metadata_ready: bool = False,
    label: str | None = None,
) -> Array:
    """`rope_write` fused with `paged_attention` for one new token per sequence; GPUs only.

    The new token is the last of its sequence, which gives its position and its slot in the cache,
    of the type of `qkv` or of uint8 (e4m3). The table must rotate the whole head. The other
    arguments are those of the two operations.
    """
    name = "decode_attention"
    _check_heads(name, heads, kv_heads)
    if num_splits < 0:
        raise InputError(f"{name}: expected num_splits of 0 or more, got {num_splits}")
    _check_scores(name, heads, window, softcap, sinks, alibi_slopes)
    rows = check(name, "qkv", qkv, (None, (heads + 2 * kv_heads) * head_dim)).shape[0]
    check(name, "keys", keys, (None, block_tokens, kv_heads, head_dim), (qkv.dtype, dtypes.uint8))
    check_cache(name, keys, values, block_tokens, kv_heads, head_dim)
    sequences = check(name, "seq_lens", seq_lens, (None,), I32).shape[0]
    check(name, "query_start_loc", query_start_loc, (sequences + 1,), I32)
    columns = check(name, "block_tables", block_tables, (sequences, None), I32).shape[1]
    for norm, array in (("query_norm", query_norm), ("key_norm", key_norm)):
        check_given(name, norm, array, (head_dim,))
    if table is not None:
        check(name, "table", table.cos_sin, (None, head_dim), F32)
    out = result(name, qkv.device, out, (rows, heads * head_dim), qkv.dtype)
    if not sequences:
        return _fill_zeros(name, out, label)
    call(
        name,
        [
            qkv,
            None if table is None else table.cos_sin,
            query_norm,
            key_norm,
            cache_operand(name, "keys", keys),
            cache_operand(name, "values", values),
            block_tables,
            query_start_loc,
            seq_lens,
            sinks,
            alibi_slopes,
            out,
        ],
        (
            rows,
            sequences,
            heads,
            kv_heads,
            head_dim,
            0 if table is None else table.positions,
            int(table is not None and table.interleaved),
            block_tokens,
            keys.shape[0],
            columns,
            num_splits,
            int(metadata_ready),
            window,
            float(epsilon),
            float(head_dim**-0.5 if scale is None else scale),
            float(softcap),
        ),
        qkv.device,
        counting.memory_traffic(nbytes(qkv, out)),
        label,
    )
    return out


def attention(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = True,
    *,
    scale: float | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Attention over dense keys and values of shape (tokens, heads, head_dim), or (N, tokens, heads, head_dim).

    With `causal`, the queries are the last tokens of their sequence.
    """
    lead = q.shape[:-3]
    check("attention", "q", q, (*lead[:1], None, None, None))
    queries, heads, head_dim = q.shape[-3:]
    check("attention", "k", k, (*lead, None, None, head_dim), DENSE)
    tokens, kv_heads = k.shape[-3:-1]
    _check_heads("attention", heads, kv_heads)
    check("attention", "v", v, k.shape, (k.dtype,))
    if tokens < (queries if causal else 1):
        raise InputError(
            f"attention: expected at least {queries if causal else 1} tokens, got {tokens}"
        )
    out = result("attention", q.device, out, q.shape, q.dtype)
    count = counting.attention(queries, tokens, heads, kv_heads, head_dim, k.dtype.itemsize)
    if not causal:
        # Every query sees what the last one sees.
        one = counting.attention(1, tokens, heads, kv_heads, head_dim, k.dtype.itemsize)
        count = Count(one.flops * queries, count.bytes)
    batch = math.prod(lead)
    numbers: dict[str, int | float] = {
        "batch": batch,
        "queries": queries,
        "tokens": tokens,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "causal": int(causal),
        "scale": float(head_dim**-0.5 if scale is None else scale),
    }
    call(
        "attention",
        [q, k, v, out],
        [numbers[name] for name, _ in OPERATIONS["attention"][1]],
        q.device,
        Count(batch * count.flops, batch * count.bytes),
        label,
    )
    return out
