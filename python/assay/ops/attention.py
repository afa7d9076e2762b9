"""Attention over a paged cache, and over dense keys and values."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.calling import DENSE, F32, I32, call, check, nbytes, operand, result
from assay.ops.counting import NOTHING, Count
from assay.ops.rope import RopeTable
from assay.runtime.array import Array


def _check_heads(operation: str, heads: int, kv_heads: int) -> None:
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise ShapeError(
            f"{operation}: expected heads in multiples of kv_heads, got {heads} and {kv_heads}"
        )


def _rows_of_nobody(operation: str, out: Array, label: str | None) -> Array:
    """Zeros, as rows of no sequence are beside those of others."""
    buffer, offset, size, _ = operand(operation, "out", out)
    if size:
        stream = out.device.current_stream()._native
        out.device._context.fill(label or operation, buffer, offset, 0, size, stream)
    return out


def paged_attention(
    q: Array,
    keys: Array,
    values: Array,
    block_tables: Array,
    query_starts: Array,
    lengths: Array,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int,
    scale: float | None = None,
    out: Array | None = None,
    contexts: Iterable[tuple[int, int]] | None = None,
    most_queries: int | None = None,
    split: int = 0,
    settled: bool = False,
    label: str | None = None,
) -> Array:
    """Causal attention of new tokens over a paged cache that `rope_write` filled.

    Sequence s has rows query_starts[s] to query_starts[s + 1] of `q`; they are the last of its
    lengths[s] tokens, and token t lies in block block_tables[s, t // block_tokens]. One call takes
    decoding steps and chunks of prompts together. Rows of no sequence, or of one of length 0,
    become zeros. `scale` is 1 / sqrt(head_dim) if not given. `most_queries` says that no sequence
    has more rows than so many: a GPU has another kernel for one row each, which adds in another
    order; 2 or more keeps a row that is alone from it. `split` is in how many
    parts the context of a sequence with one row is read side by side; 0 leaves it to the device.
    What the parts give is added in another order, which rounds differently. `settled` says that
    tables, starts and lengths are not made by the operation queued just before, so that a GPU may
    read them while that one ends.

    Lengths are in the device's memory, so what is read cannot be known here: `contexts`, pairs of
    new tokens and length of each sequence, has the record count keys, values and FLOPs too.
    Without it only queries and outputs are counted.
    """
    _check_heads("paged_attention", heads, kv_heads)
    if split < 0:
        raise InputError(f"paged_attention: expected split of 0 or more, got {split}")
    wide = q.ndim == 3
    rows = check(
        "paged_attention", "q", q, (None, heads, head_dim) if wide else (None, heads * head_dim)
    ).shape[0]
    check("paged_attention", "keys", keys, (None, block_tokens, kv_heads, head_dim), DENSE)
    check("paged_attention", "values", values, keys.shape, (keys.dtype,))
    sequences = check("paged_attention", "lengths", lengths, (None,), I32).shape[0]
    check("paged_attention", "query_starts", query_starts, (sequences + 1,), I32)
    columns = check("paged_attention", "block_tables", block_tables, (sequences, None), I32).shape[
        1
    ]
    out = result("paged_attention", q.device, out, q.shape, q.dtype)
    if not sequences:
        return _rows_of_nobody("paged_attention", out, label)
    if contexts is None:
        count = counting.moved(nbytes(q, out))
    else:
        count = functools.reduce(
            Count.__add__,
            (
                counting.attention(queries, tokens, heads, kv_heads, head_dim, keys.dtype.itemsize)
                for queries, tokens in contexts
            ),
            NOTHING,
        )
    call(
        "paged_attention",
        [
            ("q", q),
            ("keys", keys),
            ("values", values),
            ("block_tables", block_tables),
            ("query_starts", query_starts),
            ("lengths", lengths),
            ("out", out),
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
            rows if most_queries is None else most_queries,
            split,
            int(settled),
            float(head_dim**-0.5 if scale is None else scale),
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
    query_starts: Array,
    lengths: Array,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    block_tokens: int,
    query_norm: Array | None = None,
    key_norm: Array | None = None,
    epsilon: float = 0.0,
    scale: float | None = None,
    out: Array | None = None,
    split: int = 0,
    settled: bool = False,
    label: str | None = None,
) -> Array:
    """What `rope_write` and then `paged_attention` do to one new token of each sequence, on a GPU.

    The new token is the last of its sequence's length: that says its position and where in the
    cache its key and its value go. A table turns all numbers of a head. Everything else is as in
    those two operations.
    """
    name = "decode_attention"
    _check_heads(name, heads, kv_heads)
    if split < 0:
        raise InputError(f"{name}: expected split of 0 or more, got {split}")
    rows = check(name, "qkv", qkv, (None, (heads + 2 * kv_heads) * head_dim)).shape[0]
    check(name, "keys", keys, (None, block_tokens, kv_heads, head_dim), (qkv.dtype,))
    check(name, "values", values, keys.shape, (keys.dtype,))
    sequences = check(name, "lengths", lengths, (None,), I32).shape[0]
    check(name, "query_starts", query_starts, (sequences + 1,), I32)
    columns = check(name, "block_tables", block_tables, (sequences, None), I32).shape[1]
    for norm, array in (("query_norm", query_norm), ("key_norm", key_norm)):
        if array is not None:
            check(name, norm, array, (head_dim,))
    if table is not None:
        check(name, "table", table.turns, (None, head_dim), F32)
    out = result(name, qkv.device, out, (rows, heads * head_dim), qkv.dtype)
    if not sequences:
        return _rows_of_nobody(name, out, label)
    call(
        name,
        [
            ("qkv", qkv),
            ("table", None if table is None else table.turns),
            ("query_norm", query_norm),
            ("key_norm", key_norm),
            ("keys", keys),
            ("values", values),
            ("block_tables", block_tables),
            ("query_starts", query_starts),
            ("lengths", lengths),
            ("out", out),
        ],
        (
            rows,
            sequences,
            heads,
            kv_heads,
            head_dim,
            0 if table is None else table.positions,
            int(table is not None and table.pairs == "neighbors"),
            block_tokens,
            keys.shape[0],
            columns,
            split,
            int(settled),
            float(epsilon),
            float(head_dim**-0.5 if scale is None else scale),
        ),
        qkv.device,
        counting.moved(nbytes(qkv, out)),
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
    """Attention over dense keys and values: tokens by heads by head_dim.

    Where it is causal, the queries are the last tokens of the sequence.
    """
    check("attention", "q", q, (None, None, None))
    queries, heads, head_dim = q.shape
    check("attention", "k", k, (None, None, head_dim), DENSE)
    tokens, kv_heads = k.shape[:2]
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
    call(
        "attention",
        [("q", q), ("keys", k), ("values", v), ("out", out)],
        (
            queries,
            tokens,
            heads,
            kv_heads,
            head_dim,
            int(causal),
            float(head_dim**-0.5 if scale is None else scale),
        ),
        q.device,
        count,
        label,
    )
    return out
