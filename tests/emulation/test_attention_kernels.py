"""Decode attention against double precision, run thread by thread on the host."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16

from kv_cache_reference import stored

Values = npt.NDArray[np.float64]
BLOCK_TOKENS = 16
TOLERANCE = 1e-2
"""Of the largest value: probabilities and results are rounded to bf16."""


def attention(queries: Values, keys: Values, values: Values) -> Values:
    """One query token: softmax of scaled scores, per head (heads x d; tokens x kv heads x d)."""
    heads, head_dim = queries.shape
    group = heads // keys.shape[1]
    keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    scores = np.einsum("hd,thd->ht", queries, keys) / np.sqrt(head_dim)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    out: Values = np.einsum("ht,thd->hd", weights, values)
    return out


class PagedCache:
    """Random keys and values of some sequences in shuffled blocks; unused slots are NaN."""

    def __init__(self, lengths: tuple[int, ...], kv_heads: int, head_dim: int) -> None:
        random = np.random.default_rng(sum(lengths))
        columns = max(-(-length // BLOCK_TOKENS) for length in lengths)
        blocks = columns * len(lengths) + 1
        order = random.permutation(blocks)[: columns * len(lengths)]
        self.tables = order.reshape(len(lengths), columns).astype(np.int32)
        self.lengths = np.array(lengths, np.int32)
        shape = (blocks, kv_heads, BLOCK_TOKENS, head_dim)
        self.keys, self.values = (np.full(shape, 0xFFFF, np.uint16) for _ in range(2))
        self.rows: list[tuple[Values, Values]] = []
        for sequence, length in enumerate(lengths):
            both = [random_bf16(99 + sequence + i, length, kv_heads, head_dim) for i in (0, 50)]
            for cache, rows in zip((self.keys, self.values), both, strict=True):
                for token in range(length):
                    block = self.tables[sequence, token // BLOCK_TOKENS]
                    cache[block, :, token % BLOCK_TOKENS] = rows[token]
            self.rows.append((from_bf16(both[0]), from_bf16(both[1])))

    @property
    def strides(self) -> tuple[np.int64, int, int]:
        """Of a block, a head and a token, in elements."""
        _, kv_heads, tokens, head_dim = self.keys.shape
        return np.int64(kv_heads * tokens * head_dim), tokens * head_dim, head_dim


def check_decode(
    lengths: tuple[int, ...], heads: int, kv_heads: int, splits: int, *, cluster: bool,
    backward: bool = False,
) -> None:  # fmt: skip
    head_dim, warps = 64, 2
    cache = PagedCache(lengths, kv_heads, head_dim)
    kernel = Kernel(
        "attention_decode.cu", ELEMENT="bf16", HEAD_DIM=head_dim, HEAD_TILES=1, WARPS=warps,
        CTAS_PER_SM=1, CLUSTER=int(cluster),
    )  # fmt: skip
    sequences = len(lengths)
    queries = random_bf16(77, sequences, heads, head_dim)
    out = np.full_like(queries, 0xFFFF)
    partials: npt.NDArray[Any] | None = None
    counters: npt.NDArray[Any] | None = None
    if not cluster and splits > 1:
        partials = np.full(sequences * kv_heads * splits * 8 * (head_dim + 2), np.nan, np.float32)
        counters = np.zeros(sequences * kv_heads, np.uint32)
    kernel(
        (splits, kv_heads, sequences), warps * 32, queries, cache.keys, cache.values, cache.tables,
        cache.lengths, None, out, partials, counters, heads, kv_heads, BLOCK_TOKENS,
        cache.tables.shape[1], *cache.strides, float(head_dim**-0.5),
        late=[queries], cluster=splits if cluster else 1, backward=backward,
    )  # fmt: skip
    for sequence, (keys, values) in enumerate(cache.rows):
        expected = (
            attention(from_bf16(queries[sequence]), keys, values)
            if len(keys)
            else np.zeros((heads, head_dim))
        )
        np.testing.assert_allclose(
            from_bf16(out[sequence]),
            expected,
            rtol=0,
            atol=TOLERANCE * np.abs(values).max(initial=1),
        )
    if counters is not None:
        assert not counters.any(), "the next launch needs zeros"


@pytest.mark.parametrize("backward", [False, True])
def test_splits_are_combined_through_global_memory(backward: bool) -> None:
    check_decode((70, 1, 0, 33), 4, 2, 3, cluster=False, backward=backward)


def test_splits_are_combined_in_a_cluster() -> None:
    check_decode((70, 5), 4, 1, 2, cluster=True)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [1, 2, 4, 8])
@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_all_splits(splits: int, cluster: bool, backward: bool) -> None:
    check_decode((200, 17, 1), 8, 2, splits, cluster=cluster, backward=backward)


@pytest.mark.parametrize(("element", "fused"), [("e4m3", True), ("int8", False)])
def test_cache_of_8_bits_is_written_and_read(element: str, fused: bool) -> None:
    check_8_bits(element, fused=fused)


@pytest.mark.slow
@pytest.mark.parametrize(("element", "fused"), [("e4m3", False), ("e4m3", True), ("int8", False)])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("backward", [False, True])
def test_all_caches_of_8_bits(element: str, fused: bool, head_dim: int, backward: bool) -> None:
    check_8_bits(element, fused=fused, head_dim=head_dim, tokens=153, backward=backward)


def check_8_bits(
    element: str, *, fused: bool, head_dim: int = 64, tokens: int = 90, backward: bool = False
) -> None:
    """Write a cache and attend with the last token. Fused, attention itself writes that."""
    heads, kv_heads, warps = 4, 2, 2
    scale_bytes = 4 if element == "int8" else 0
    head_stride = BLOCK_TOKENS * (head_dim + scale_bytes)
    strides = (np.int64(kv_heads * head_stride), head_stride, head_dim)
    columns = -(-tokens // BLOCK_TOKENS)
    table = np.random.default_rng(5).permutation(columns + 1)[None, :columns].astype(np.int32)
    keys, values = (
        np.full((columns + 1) * kv_heads * head_stride, 0xFF, np.uint8) for _ in range(2)
    )
    qkv = random_bf16(31, tokens, heads + 2 * kv_heads, head_dim)
    slots = table[0, np.arange(tokens) // BLOCK_TOKENS] * BLOCK_TOKENS
    slots = (slots + np.arange(tokens) % BLOCK_TOKENS).astype(np.int32)
    if fused:
        slots[-1] = -1
    queries = np.full((tokens, heads, head_dim), 0xFFFF, np.uint16)
    write = Kernel(
        "rope_write.cu", ELEMENT="bf16", CACHE_ELEMENT=element, INTERLEAVED=0, VECTOR=8,
        LANES_PER_HEAD=head_dim // 16, THREADS=128,
    )  # fmt: skip
    positions = np.zeros(tokens, np.int32)
    write(
        (tokens, 1), 128, qkv, positions, slots, None, keys, values, queries, None, None, heads,
        kv_heads, head_dim, 0, BLOCK_TOKENS, *strides, 0.0, late=[qkv, positions, slots],
    )  # fmt: skip
    np.testing.assert_array_equal(queries, qkv[:, :heads])
    decode = Kernel(
        "attention_decode.cu", ELEMENT="bf16", CACHE_ELEMENT=element, HEAD_DIM=head_dim,
        HEAD_TILES=1, WARPS=warps, CTAS_PER_SM=1, CLUSTER=0, FUSED_ROPE=int(fused),
    )  # fmt: skip
    last = np.ascontiguousarray(qkv[-1:, : None if fused else heads])
    out = np.full((1, heads, head_dim), 0xFFFF, np.uint16)
    rope = (None, None, None, 0.0) if fused else ()
    decode(
        (1, kv_heads, 1), warps * 32, last, keys, values, table, np.array([tokens], np.int32), None,
        out, None, None, heads, kv_heads, BLOCK_TOKENS, columns, *strides, float(head_dim**-0.5),
        *rope, late=[last], backward=backward,
    )  # fmt: skip
    kv_format = "fp8" if element == "e4m3" else "int8"
    rows = from_bf16(qkv).astype(np.float32)
    kept = [stored(rows[:, heads + i * kv_heads :][:, :kv_heads], kv_format) for i in (0, 1)]
    expected = attention(from_bf16(last[0, :heads]), *kept)
    np.testing.assert_allclose(
        from_bf16(out[0]), expected, rtol=0, atol=TOLERANCE * np.abs(kept[1]).max()
    )


@pytest.mark.slow
@pytest.mark.parametrize(("head_dim", "early_copies"), [(64, False), (64, True), (128, True)])
def test_prefill_is_causal(head_dim: int, early_copies: bool) -> None:
    lengths, heads, kv_heads = (70, 1, 130), 4, 2
    cache = PagedCache(lengths, kv_heads, head_dim)
    kernel = Kernel("attention_prefill.cu", ELEMENT="bf16", HEAD_DIM=head_dim, CAUSAL=1)
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    queries = random_bf16(55, sum(lengths), heads, head_dim)
    out = np.full_like(queries, 0xFFFF)
    kernel(
        (-(-max(lengths) // 64), heads, len(lengths)), 128, queries, cache.keys, cache.values,
        cache.tables, starts, cache.lengths, out, max(lengths), 0, heads, kv_heads, BLOCK_TOKENS,
        cache.tables.shape[1], *cache.strides, float(head_dim**-0.5),
        shared=4 * 64 * head_dim * 2, late=[queries, starts], early_copies=early_copies,
    )  # fmt: skip
    for sequence, (keys, values) in enumerate(cache.rows):
        for token in range(lengths[sequence]):
            row = starts[sequence] + token
            expected = attention(from_bf16(queries[row]), keys[: token + 1], values[: token + 1])
            np.testing.assert_allclose(
                from_bf16(out[row]), expected, rtol=0, atol=TOLERANCE * np.abs(values).max()
            )
