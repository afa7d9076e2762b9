"""Attention over a KV cache of 8 bits against NumPy, on any device, from the definition of the formats.

fp8 is e4m3 without a scale. int8 is round(x / s) with s = largest magnitude of the token's head / 127.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay.bench.suites import low_precision
from assay.runtime import Array, Device

Values = npt.NDArray[Any]
DTYPES = {"fp8": xp.uint8, "int8": xp.int8}


def stored(values: Values, kv_format: str) -> Values:
    """What a cache keeps of keys or values, in double precision."""
    if kv_format == "fp8":
        return low_precision.e4m3()[low_precision.to_e4m3(values.astype(np.float64))]
    scale = (np.abs(values).max(axis=-1, keepdims=True) / np.float32(127)).astype(np.float32)
    factor = np.float32(1) / np.where(scale > 0, scale, np.float32(1))
    return np.rint(values * factor).clip(-128, 127).astype(np.float64) * scale


def read(array: Array) -> Values:
    host = array.to_numpy()
    if array.dtype is xp.bfloat16:
        host = (host.astype(np.uint32) << 16).view(np.float32)
    return host.astype(np.float64)


def errors(
    device: Device,
    kv_format: str,
    head_dim: int,
    *,
    heads: int = 8,
    kv_heads: int = 2,
    block_tokens: int = 16,
    lengths: tuple[int, ...] = (70, 1, 200),
    prompt: bool = False,
    fused: bool = False,
) -> float:
    """The largest error of one new token per sequence, or of whole prompts, relative to the largest value.

    Fused, attention itself writes the new tokens.

    Keys and values are rounded to the activations' type first, as the device gets them.
    """
    rng = np.random.default_rng(head_dim)
    kind = device.capabilities.preferred_activation_dtype
    columns = -(-max(lengths) // block_tokens)
    blocks = columns * len(lengths) + 2
    tables = rng.permutation(blocks)[: columns * len(lengths)].reshape(len(lengths), columns)
    token = head_dim + (4 if kv_format == "int8" else 0)
    shape = (blocks, block_tokens, kv_heads, token)
    keys, values = (xp.zeros(shape, dtype=DTYPES[kv_format], device=device) for _ in range(2))
    width = (heads + 2 * kv_heads) * head_dim
    rows = sum(lengths)
    qkv = xp.asarray(
        rng.standard_normal((rows, width)).astype(np.float32), dtype=kind, device=device, copy=True
    )
    slots = np.concatenate(
        [
            table[np.arange(length) // block_tokens] * block_tokens
            + np.arange(length) % block_tokens
            for table, length in zip(tables, lengths, strict=True)
        ]
    )

    def place(host: Values) -> Array:
        return xp.asarray(host.astype(np.int32), device=device, copy=True)

    ends = np.cumsum(lengths)
    if fused:
        slots[ends - 1] = -1
    queries = ops.rope_write(
        qkv, place(np.zeros(rows)), place(slots), None, keys, values,
        heads=heads, kv_heads=kv_heads, head_dim=head_dim,
    )  # fmt: skip
    starts = np.concatenate([[0], ends])
    if not prompt:
        new = qkv if fused else queries
        queries = xp.take(new, xp.astype(place(ends - 1), xp.int64), axis=0)
        starts = np.arange(len(lengths) + 1)
    metadata = (place(tables), place(starts), place(np.array(lengths)))
    shape_of = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    if fused:
        out = ops.decode_attention(
            queries, None, keys, values, *metadata, **shape_of, block_tokens=block_tokens
        )
    else:
        out = ops.paged_attention(
            queries, keys, values, *metadata, **shape_of, block_tokens=block_tokens,
            max_query_len=max(lengths) if prompt else 1,
        )  # fmt: skip
    split = read(qkv).reshape(rows, heads + 2 * kv_heads, head_dim).astype(np.float32)
    got = read(out).reshape(-1, heads, head_dim)
    worst, row = 0.0, 0
    for first, end in zip(np.concatenate([[0], ends])[:-1], ends, strict=True):
        own = split[first:end]
        key, value = (
            np.repeat(stored(own[:, part], kv_format), heads // kv_heads, axis=1)
            for part in (slice(heads, heads + kv_heads), slice(heads + kv_heads, None))
        )
        for position in range(0 if prompt else end - first - 1, end - first):
            query = own[position, :heads].astype(np.float64)
            scores = np.einsum("hd,thd->ht", query, key[: position + 1]) * head_dim**-0.5
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            wanted = np.einsum("ht,thd->hd", weights, value[: position + 1])
            worst = max(worst, float(np.abs(got[row] - wanted).max() / np.abs(value).max()))
            row += 1
    assert row == len(got)
    return worst
