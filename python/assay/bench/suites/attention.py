"""Attention: prompts beside the arithmetic units, new tokens beside the memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench import checks, counting, inputs, rivals, yardsticks
from assay.bench.case import Absent, Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.clocks import Call, DeviceClock
from assay.bench.inputs import NumPyArray
from assay.bench.text import shape_text
from assay.runtime.array import Array
from assay.runtime.dtypes import BY_NAME
from assay.runtime.hardware import Device

DTYPES: Final = ("f32", "bf16")
HEADS: Final = 16
KV_HEADS: Final = 4
WIDTH: Final = 64
BLOCK: Final = 16
PROMPTS: Final[tuple[Size, ...]] = ((256,), (1024,))
CONTEXTS: Final[tuple[Size, ...]] = ((1, 4096), (8, 1024))
QUICK: Final[tuple[Size, ...]] = ((48,), (2, 40))


def cases(settings: Settings) -> list[Case]:
    """Sizes of one number are prompts, of two are sequences by context."""
    sizes = settings.sizes or (QUICK if settings.quick else (*PROMPTS, *CONTEXTS))
    shape = f"{HEADS} heads, {KV_HEADS} of keys"
    return [
        Case(
            f"prompt {dtype} {size[0]}" if len(size) == 1 else f"paged {dtype} {shape_text(size)}",
            "GFLOP/s" if len(size) == 1 else "GB/s",
            functools.partial(_prompt if len(size) == 1 else _paged, settings, dtype, *size),
            {"dtype": dtype, "size": list(size), "shape": shape},
        )
        for dtype in settings.dtypes or DTYPES
        for size in sizes
    ]


def _heads(values: NumPyArray) -> NumPyArray:
    """Keys or values of each query head."""
    return np.repeat(values, HEADS // KV_HEADS, axis=1)


def _causal(q: NumPyArray, k: NumPyArray, v: NumPyArray) -> NumPyArray:
    """Attention of the last queries of a sequence, by the definition."""
    k, v = _heads(k), _heads(v)
    scores = np.einsum("qhd,khd->hqk", q, k, optimize=True) * q.dtype.type(WIDTH**-0.5)
    queries, tokens = q.shape[0], k.shape[0]
    hidden = np.arange(tokens) > np.arange(tokens - queries, tokens)[:, None]
    scores[:, hidden] = -np.inf
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("hqk,khd->qhd", weights, v, optimize=True))


def _prompt(settings: Settings, dtype: str, tokens: int) -> Trial:
    device = settings.device
    host_q = inputs.normal((tokens, HEADS, WIDTH), 1)
    host_k, host_v = (inputs.normal((tokens, KV_HEADS, WIDTH), seed) for seed in (2, 3))
    q = inputs.place(device, host_q)
    k, v = (inputs.place(device, host, dtype) for host in (host_k, host_v))
    out = xp.empty(q.shape, dtype=xp.float32, device=device)

    def call(_: int) -> None:
        ops.attention(q, k, v, out=out)

    counted = counting.count(device, call)
    reference = _causal(inputs.fetch(q), inputs.fetch(k), inputs.fetch(v))

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[dtype])
        parts = [host_q, _heads(host_k), _heads(host_v)]
        placed = [put(part.transpose(1, 0, 2)[None]).to(kind) for part in parts]
        attend = module.nn.functional.scaled_dot_product_attention
        return lambda _: attend(*placed, is_causal=True)

    return Trial(
        Contestant("assay", call, DeviceClock(device), counted.flops),
        checks.written("double precision", call, out, lambda _: reference, 1e-5),
        ceiling=yardsticks.arithmetic(device),
        rivals=[
            rivals.numpy(lambda _: _causal(host_q, host_k, host_v), counted.flops)
            if dtype == "f32"
            else Absent("NumPy", "has no bfloat16"),
            rivals.torch(device, in_torch, counted.flops),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        note=f"{HEADS} heads of {WIDTH}, {KV_HEADS} of keys; operations that the mask leaves",
    )


def _paged(settings: Settings, dtype: str, sequences: int, tokens: int) -> Trial:
    device = settings.device
    per_sequence = -(-tokens // BLOCK)
    # Blocks lie as they come after a while of serving: in no order.
    order = np.random.default_rng(4).permutation(sequences * per_sequence)
    tables = order.reshape(sequences, per_sequence).astype(np.int32)
    host_q = inputs.normal((sequences, HEADS, WIDTH), 1)
    host_k, host_v = (inputs.normal((sequences, tokens, KV_HEADS, WIDTH), s) for s in (2, 3))
    first = _filled(device, dtype, tables, host_k, host_v)
    pair_bytes = 2 * first[0].nbytes
    caches = [first]
    for _ in range(inputs.copies(device, pair_bytes, settings.quick) - 1):
        caches.append((_copied(first[0]), _copied(first[1])))
    q = inputs.place(device, host_q)
    placed_tables = xp.asarray(tables, device=device, copy=True)
    starts = xp.arange(sequences + 1, dtype=xp.int32, device=device)
    lengths = xp.full((sequences,), tokens, dtype=xp.int32, device=device)
    out = xp.empty(q.shape, dtype=xp.float32, device=device)
    contexts = [(1, tokens)] * sequences

    def call(number: int) -> None:
        keys, values = caches[number % len(caches)]
        ops.paged_attention(
            q, keys, values, placed_tables, starts, lengths,
            heads=HEADS, kv_heads=KV_HEADS, head_dim=WIDTH, block_tokens=BLOCK,
            out=out, contexts=contexts,
        )  # fmt: skip

    counted = counting.count(device, call)
    stored_k, stored_v = (
        inputs.fetch(inputs.place(device, host, dtype)) for host in (host_k, host_v)
    )
    queries = host_q.astype(np.float64)
    reference = np.concatenate(
        [_causal(queries[s : s + 1], stored_k[s], stored_v[s]) for s in range(sequences)]
    )
    return Trial(
        Contestant("assay", call, DeviceClock(device), counted.bytes),
        checks.written("double precision", call, out, lambda _: reference, 1e-5),
        ceiling=yardsticks.cold_read(device, counted.bytes, settings.quick),
        rivals=[
            Absent("NumPy", "has no paged cache"),
            Absent("PyTorch", "has no paged cache on a processor"),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=len(caches) * pair_bytes,
        note=f"{HEADS} heads of {WIDTH}, {KV_HEADS} of keys, blocks of {BLOCK} tokens in no order",
    )


def _filled(
    device: Device, dtype: str, tables: NumPyArray, host_k: NumPyArray, host_v: NumPyArray
) -> tuple[Array, Array]:
    """A cache with these keys and values, written the way an engine writes them."""
    sequences, tokens = host_k.shape[:2]
    kind = BY_NAME[inputs.DTYPES[dtype]]
    shape = (tables.size, BLOCK, KV_HEADS, WIDTH)
    keys, values = (xp.zeros(shape, dtype=kind, device=device) for _ in range(2))
    token = np.arange(tokens)
    slots = (tables[:, token // BLOCK] * BLOCK + token % BLOCK).astype(np.int32).reshape(-1)
    rows = sequences * tokens
    empty = np.zeros((rows, HEADS * WIDTH), np.float32)
    qkv = np.concatenate([empty, host_k.reshape(rows, -1), host_v.reshape(rows, -1)], axis=1)
    ops.rope_write(
        inputs.place(device, qkv),
        xp.zeros((rows,), dtype=xp.int32, device=device),
        xp.asarray(slots, device=device, copy=True),
        None, keys, values,
        heads=HEADS, kv_heads=KV_HEADS, head_dim=WIDTH,
    )  # fmt: skip
    return keys, values


def _copied(array: Array) -> Array:
    return xp.asarray(array, copy=True)


SUITE = Suite(
    "attention",
    "prompts, and new tokens over a paged cache",
    cases,
    dtypes=DTYPES,
    axes=(1, 2),
    size_meaning="TOKENS of a prompt or SEQUENCESxTOKENS of contexts",
)
