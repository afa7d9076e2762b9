"""Attention: prefill beside the arithmetic peak, paged decode beside the read bandwidth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from assay import ops, xp
from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, PreparedCase, Settings, Size, Subject, Suite
from assay.bench.harness.clocks import Call, DeviceClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.inputs import NumPyArray
from assay.bench.harness.seeding import shifted
from assay.bench.harness.text import shape_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_graph, pytorch_rival
from assay.runtime.array import Array
from assay.runtime.dtypes import BY_NAME
from assay.runtime.hardware import Device

DTYPES: Final = ("f32", "bf16")
BLOCK: Final = 16
PROMPTS: Final[tuple[Size, ...]] = ((256,), (1024,))
CONTEXTS: Final[tuple[Size, ...]] = ((1, 4096), (8, 1024))
GPU_SIZES: Final[tuple[Size, ...]] = ((2048,), (8192,), (64, 4096), (8, 12000), (1, 8192))
CHECKED_QUERIES: Final = 40
"""Queries of a long prompt that are checked in double precision."""
DISTINCT: Final = 4
"""Distinct random contexts; other sequences repeat them in blocks of their own."""
QUICK: Final[tuple[Size, ...]] = ((48,), (2, 40))


class Heads(NamedTuple):
    """The heads of a layer: query heads, KV heads, and the head dimension."""

    queries: int
    keys: int
    width: int

    @property
    def text(self) -> str:
        """The text of a note."""
        return f"{self.queries} heads of {self.width}, {self.keys} of keys"


SMALL: Final = Heads(16, 4, 64)
LARGE: Final = Heads(32, 8, 128)


def heads_of(device: Device) -> Heads:
    """The layer measured on a device: that of a small model, or of an 8B model on a GPU."""
    return LARGE if device.capabilities.is_gpu else SMALL


def cases(settings: Settings) -> list[Case]:
    """Sizes of one extent are prompts, of two are sequences by context."""
    on_gpu = settings.device.capabilities.is_gpu
    usual = GPU_SIZES if on_gpu else (*PROMPTS, *CONTEXTS)
    sizes = settings.sizes or (QUICK if settings.quick else usual)
    shape = heads_of(settings.device).text
    prompt_unit = "TFLOP/s" if on_gpu else "GFLOP/s"
    return [
        Case(
            f"prompt {dtype} {size[0]}" if len(size) == 1 else f"paged {dtype} {shape_text(size)}",
            prompt_unit if len(size) == 1 else "GB/s",
            functools.partial(_prompt if len(size) == 1 else _paged, settings, dtype, *size),
            {"dtype": dtype, "size": list(size), "shape": shape},
        )
        for dtype in settings.dtypes or (("bf16",) if on_gpu else DTYPES)
        for size in sizes
    ]


def _heads(values: NumPyArray, heads: Heads) -> NumPyArray:
    """Keys or values repeated for each query head."""
    return np.repeat(values, heads.queries // heads.keys, axis=1)


def _causal(
    q: NumPyArray, k: NumPyArray, v: NumPyArray, heads: Heads, positions: NumPyArray | None = None
) -> NumPyArray:
    """Reference attention of queries at these positions, by default the last ones."""
    k, v = _heads(k, heads), _heads(v, heads)
    tokens = k.shape[0]
    at = np.arange(tokens - q.shape[0], tokens) if positions is None else positions
    logits = np.einsum("qhd,khd->hqk", q, k, optimize=True) * q.dtype.type(heads.width**-0.5)
    logits[:, np.arange(tokens) > at[:, None]] = -np.inf
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("hqk,khd->qhd", weights, v, optimize=True))


def _activation(device: Device, dtype: str) -> str:
    """The element type of queries and outputs: FP32 on a CPU."""
    return dtype if device.capabilities.is_gpu else "f32"


def _tolerance(dtype: str) -> float:
    """FP32 sums, or probabilities and outputs rounded to 16 bits."""
    return 1e-5 if dtype == "f32" else 4 * inputs.unit_roundoff(dtype)


def _prompt(settings: Settings, dtype: str, tokens: int) -> PreparedCase:
    device, heads = settings.device, heads_of(settings.device)
    activation = _activation(device, dtype)
    host_q = inputs.standard_normal((tokens, heads.queries, heads.width), 1)
    host_k, host_v = (
        inputs.standard_normal((tokens, heads.keys, heads.width), seed) for seed in (2, 3)
    )
    q = inputs.upload(device, host_q, activation)
    k, v = (inputs.upload(device, host, dtype) for host in (host_k, host_v))
    out = xp.empty(q.shape, dtype=q.dtype, device=device)

    def call(_: int) -> None:
        ops.attention(q, k, v, out=out)

    counted = counting.count(device, call)
    positions = np.arange(tokens)
    if tokens > 1024:
        positions = np.unique(np.linspace(0, tokens - 1, CHECKED_QUERIES).astype(int))
    reference = _causal(
        inputs.download(q)[positions], inputs.download(k), inputs.download(v), heads, positions
    )

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[dtype])
        parts = [host_q, _heads(host_k, heads), _heads(host_v, heads)]
        placed = [upload(part.transpose(1, 0, 2)[None]).to(kind) for part in parts]
        attend = module.nn.functional.scaled_dot_product_attention
        return lambda _: attend(*placed, is_causal=True)

    return PreparedCase(
        Subject("assay", call, DeviceClock(device), counted.flops),
        checks.output(
            "double precision", call, out, lambda _: reference, _tolerance(activation), positions
        ),
        ceiling=None if device.capabilities.is_gpu else ceilings.arithmetic(device),
        rivals=[
            numpy_rival(lambda _: _causal(host_q, host_k, host_v, heads), counted.flops, device)
            if dtype == "f32"
            else Absent("NumPy", "has no bfloat16"),
            pytorch_rival(device, in_torch, counted.flops),
        ],
        bytes=counted.bytes,
        flops=counted.flops,
        note=f"{heads.text}; FLOPs of the causal mask",
    )


def _paged(settings: Settings, dtype: str, sequences: int, tokens: int) -> PreparedCase:
    device, heads = settings.device, heads_of(settings.device)
    activation = _activation(device, dtype)
    per_sequence = -(-tokens // BLOCK)
    # Blocks are shuffled, as they are after a while of serving.
    order = np.random.default_rng(shifted(4)).permutation(sequences * per_sequence)
    tables = order.reshape(sequences, per_sequence).astype(np.int32)
    distinct = min(sequences, DISTINCT)
    host_q = inputs.standard_normal((sequences, heads.queries, heads.width), 1)
    host_k, host_v = (
        inputs.standard_normal((distinct, tokens, heads.keys, heads.width), seed) for seed in (2, 3)
    )
    first = _filled(device, dtype, activation, heads, tables, host_k, host_v)
    pair_bytes = 2 * first[0].nbytes
    caches = [first]
    for _ in range(inputs.rotated_copies(device, pair_bytes, settings.quick) - 1):
        caches.append((_copied(first[0]), _copied(first[1])))
    q = inputs.upload(device, host_q, activation)
    placed_tables = xp.asarray(tables, device=device, copy=True)
    starts = xp.arange(sequences + 1, dtype=xp.int32, device=device)
    lengths = xp.full((sequences,), tokens, dtype=xp.int32, device=device)
    out = xp.empty(q.shape, dtype=q.dtype, device=device)
    contexts = [(1, tokens)] * sequences

    def attend(pair: tuple[Array, Array]) -> None:
        ops.paged_attention(
            q, *pair, placed_tables, starts, lengths,
            heads=heads.queries, kv_heads=heads.keys, head_dim=heads.width, block_tokens=BLOCK,
            out=out, contexts=contexts, max_query_len=1, metadata_ready=True,
        )  # fmt: skip

    counted = counting.count(device, lambda _: attend(first))
    operations = [functools.partial(attend, pair) for pair in caches]
    call, times = batch_into_graphs(device, operations, counted.bytes)
    stored_k, stored_v = (
        inputs.download(inputs.upload(device, host, dtype)) for host in (host_k, host_v)
    )
    queries = inputs.download(q)
    reference = np.concatenate(
        [
            _causal(queries[s : s + 1], stored_k[s % distinct], stored_v[s % distinct], heads)
            for s in range(sequences)
        ]
    )

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[dtype])
        index = module.arange(sequences) % distinct
        dense = [upload(host.transpose(0, 2, 1, 3)).to(kind)[index] for host in (host_k, host_v)]
        pairs = [[tensor.clone() for tensor in dense] for _ in caches]
        placed = upload(host_q[:, :, None]).to(kind)
        attend = module.nn.functional.scaled_dot_product_attention

        def attend_pair(pair: list[Any]) -> object:
            return attend(placed, *pair, enable_gqa=True)

        return pytorch_graph(module, [functools.partial(attend_pair, p) for p in pairs] * repeats)

    repeats = max(1, times // len(caches))
    torch: Subject | Absent = Absent("PyTorch", "has no paged cache on a CPU")
    if device.capabilities.is_gpu:
        torch = pytorch_rival(device, in_torch, counted.bytes * repeats * len(caches))
    return PreparedCase(
        Subject("assay", call, DeviceClock(device), times * counted.bytes),
        checks.output("double precision", call, out, lambda _: reference, _tolerance(activation)),
        ceiling=ceilings.cold_read(device, counted.bytes, settings.quick),
        rivals=[Absent("NumPy", "has no paged cache"), torch],
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=len(caches) * pair_bytes,
        note=f"{heads.text}, blocks of {BLOCK} tokens, shuffled; PyTorch's cache is dense",
    )


def _filled(
    device: Device,
    dtype: str,
    activation: str,
    heads: Heads,
    tables: NumPyArray,
    host_k: NumPyArray,
    host_v: NumPyArray,
) -> tuple[Array, Array]:
    """A cache with these keys and values, written by the engine's own operation."""
    distinct, tokens = host_k.shape[:2]
    shape = (tables.size, BLOCK, heads.keys, heads.width)
    keys, values = (
        xp.zeros(shape, dtype=BY_NAME[inputs.DTYPES[dtype]], device=device) for _ in range(2)
    )
    token = np.arange(tokens)
    slots = (tables[:, token // BLOCK] * BLOCK + token % BLOCK).astype(np.int32)
    empty = np.zeros((tokens, heads.queries * heads.width), np.float32)
    positions = xp.zeros((tokens,), dtype=xp.int32, device=device)
    rows = [
        inputs.upload(
            device,
            np.concatenate([empty, k.reshape(tokens, -1), v.reshape(tokens, -1)], axis=1),
            activation,
        )
        for k, v in zip(host_k, host_v, strict=True)
    ]
    for sequence, slot_mapping in enumerate(slots):
        ops.rope_write(
            rows[sequence % distinct], positions, xp.asarray(slot_mapping, device=device, copy=True),
            None, keys, values,
            heads=heads.queries, kv_heads=heads.keys, head_dim=heads.width,
        )  # fmt: skip
    return keys, values


def _copied(array: Array) -> Array:
    return xp.reshape(inputs.repeat(array.device, array, 1), array.shape)


SUITE = Suite(
    "attention",
    cases,
    dtypes=DTYPES,
    axes=(1, 2),
    size_meaning="TOKENS of a prompt or SEQUENCESxTOKENS of contexts",
    seeding="inputs",
)
