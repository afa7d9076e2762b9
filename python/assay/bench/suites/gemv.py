"""Linear layers of one token: what decoding spends its time on, beside the memory's own speed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.harness.clocks import Call, DeviceClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.text import shape_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_graph, pytorch_rival
from assay.bench.suites import low_precision
from assay.errors import InputError
from assay.ops.formats import BLOCKS, INT4_GROUP
from assay.ops.gpu_packing import row_parts
from assay.ops.weights import Weights
from assay.runtime.hardware import Device
from assay.runtime.hardware import device as shared

FORMATS: Final = ("f32", "bf16", "f16", "int8", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
"""Formats of processors."""
DENSE: Final = ("f32", "bf16", "f16")
SIZES: Final[tuple[Size, ...]] = ((4096, 4096), (576, 1536))
GPU_SIZES: Final[tuple[Size, ...]] = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096),
)  # fmt: skip
"""The layers of a model of 8 billion weights."""
GPU_ROWS: Final[tuple[Size, ...]] = tuple((rows, 28672, 4096) for rows in (2, 4, 8, 16))
GPU_FORMATS: Final = ("bf16", "int8", "fp8", "int4", "q8_0", "q4_1")
BLOCK_INPUTS: Final = {"int8": 32, "fp8": 32, "int4": INT4_GROUP} | {
    name: values for name, (values, _) in BLOCKS.items()
}
"""What inputs are a multiple of."""
QUICK_SIZES: Final[tuple[Size, ...]] = ((64, 512),)
_ROWS: Final = {"int8": low_precision.int8_rows, "fp8": low_precision.fp8_rows}
_DRAWN_ROWS: Final = 128
"""Rows that are drawn; the others repeat them, because choosing scales takes its time."""


def cases(settings: Settings) -> list[Case]:
    """Every format at every size: (rows by) outputs by inputs."""
    listed = []
    on_gpu = settings.device.capabilities.is_gpu
    for format in settings.dtypes or (GPU_FORMATS if on_gpu else FORMATS):
        for size in settings.sizes or _sizes(settings, format):
            rows, outputs, inner = size if len(size) == 3 else (1, *size)
            block = BLOCK_INPUTS.get(format, 1)
            if inner % block:
                raise InputError(
                    f"{format} takes inputs in multiples of {block}, got {shape_text(size)}",
                    "choose other --sizes or --dtypes",
                )
            shape = (rows, outputs, inner)
            listed.append(
                Case(
                    f"linear {format} {shape_text(shape)}",
                    "GB/s",
                    functools.partial(_prepare, settings, format, *shape),
                    {"dtype": format, "rows": rows, "outputs": outputs, "inputs": inner},
                )
            )
    return listed


def _sizes(settings: Settings, format: str) -> tuple[Size, ...]:
    if settings.quick:
        return QUICK_SIZES
    if not settings.device.capabilities.is_gpu:
        return SIZES
    if format == "bf16":
        return GPU_SIZES + GPU_ROWS
    return GPU_SIZES[2:3] if format in BLOCKS else GPU_SIZES[2:]


def _prepare(settings: Settings, format: str, rows: int, outputs: int, inner: int) -> Trial:
    device = settings.device
    drawn = inputs.normal((min(_DRAWN_ROWS, outputs), inner), 1)
    if format == "int4":
        drawn = low_precision.int4_groups(drawn, INT4_GROUP)
    weights = _rotated(device, format, drawn, outputs, settings.quick)
    kept = _activation(device, format)
    x = inputs.place(device, inputs.normal((rows, inner), 2), kept)
    out = xp.empty((rows, outputs), dtype=x.dtype, device=device)

    def multiply(one: Weights) -> None:
        ops.linear(x, one, out=out)

    counted = counting.count(device, lambda _: multiply(weights[0]))
    operations = [functools.partial(multiply, one) for one in weights]
    call, times = batch_into_graphs(device, operations, counted.bytes)
    # Rows repeat, so outputs do.
    given = inputs.fetch(x)
    reference = np.take(given @ _stored(format, drawn).T, np.arange(outputs) % len(drawn), axis=1)
    tolerance = _error(device, format) + (0 if kept == "f32" else inputs.rounding(kept))
    return Trial(
        Contestant("assay", call, DeviceClock(device), times * counted.bytes),
        checks.written(
            "double precision, of the same weights", call, out, lambda _: reference, tolerance
        ),
        ceiling=ceilings.cold_read(device, counted.bytes, settings.quick),
        rivals=_rivals(device, format, drawn, outputs, given, len(weights), times, counted.bytes),
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=min(len(weights), max(len(weights) // times, 1) * times)
        * weights[0].nbytes,
        note="" if times == 1 else f"graphs of {times} layers, as an engine replays them",
    )


def _activation(device: Device, format: str) -> str:
    """What activations are: a processor computes in single precision."""
    if not device.capabilities.is_gpu:
        return "f32"
    return format if format in DENSE else "bf16"


def _stored(format: str, drawn: inputs.NumPyArray) -> inputs.NumPyArray:
    """What the weights stand for, by definition, or as processors have it."""
    if format == "int4":
        return drawn.astype(np.float64)
    if format in _ROWS:
        return _ROWS[format](drawn)[2]
    return inputs.fetch(_packed(shared("cpu"), format, drawn).dequantize())


def _error(device: Device, format: str) -> float:
    """Against the largest output: sums of single precision, or activations rounded to bytes.

    A byte is off by at most 1/254 of the largest of 32 activations, which is some 2.5 times
    their spread: 0.6 % of the spread of an output, and several times that at the worst of many.
    """
    if format in DENSE:
        return 1e-5
    # GPUs count activations in 16 bits.
    return 1e-3 if device.capabilities.is_gpu else 2e-2


def _packed(device: Device, format: str, host: inputs.NumPyArray) -> Weights:
    shape = (host.shape[0], host.shape[1])
    if format not in _ROWS:
        return ops.pack(host, format, shape, device)
    codes, scales, _ = _ROWS[format](host)
    return ops.pack(codes, format, shape, device, scales=scales)


def _rotated(
    device: Device, format: str, drawn: inputs.NumPyArray, outputs: int, quick: bool
) -> list[Weights]:
    """The same weights again and again in other memory, more of it than the cache holds."""
    first = _whole(device, format, drawn, outputs)
    weights = [first]
    for _ in range(inputs.copies(device, first.nbytes, quick) - 1):
        buffer = device.allocate(first.nbytes)
        device.copy("rotate", first.buffer, 0, buffer, 0, first.nbytes)
        weights.append(Weights(device, buffer, format, first.shape))
    device.synchronize()
    return weights


def _whole(device: Device, format: str, drawn: inputs.NumPyArray, outputs: int) -> Weights:
    """All outputs, from rows that repeat."""
    rows, inner = drawn.shape
    if not device.capabilities.is_gpu:
        return _packed(device, format, np.resize(drawn, (outputs, inner)))
    # A GPU keeps rows as they are, part by part: one packed piece is copied on.
    piece = _packed(device, format, drawn)
    parts = row_parts(format, inner)
    buffer = device.allocate(outputs * sum(parts))
    start = origin = 0
    for part in parts:
        for row in range(0, outputs, rows):
            length = min(rows, outputs - row) * part
            device.copy("repeat", piece.buffer, origin, buffer, start + row * part, length)
        start += outputs * part
        origin += rows * part
    return Weights(device, buffer, format, (outputs, inner))


def _rivals(
    device: Device,
    format: str,
    drawn: inputs.NumPyArray,
    outputs: int,
    given: inputs.NumPyArray,
    count: int,
    times: int,
    amount: float,
) -> list[Contestant | Absent]:
    if format not in DENSE:
        return [Absent("NumPy", f"has no {format}"), Absent("PyTorch", f"has no {format}")]
    repeats = max(1, times // count) if device.capabilities.is_gpu else 1

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[format])
        piece = put(drawn).to(kind)
        whole = piece.repeat(-(-outputs // len(drawn)), 1)[:outputs].contiguous()
        weights = [whole, *(whole.clone() for _ in range(count - 1))]
        placed = put(given.astype(np.float32)).to(kind)

        def one(number: int) -> object:
            return module.nn.functional.linear(placed, weights[number % count])

        if not device.capabilities.is_gpu:
            return one
        return pytorch_graph(
            module, [functools.partial(one, turn) for turn in range(count)] * repeats
        )

    done = amount * (repeats * count if device.capabilities.is_gpu else 1)
    torch = pytorch_rival(device, in_torch, done)
    if format != "f32" or not device.host_memory:
        return [Absent("NumPy", f"has no product of {format} on {device.kind}"), torch]
    host = np.resize(drawn, (outputs, drawn.shape[1]))
    copies = [host.copy() for _ in range(count)]
    x = given.astype(np.float32)
    return [numpy_rival(lambda number: x @ copies[number % count].T, amount), torch]


SUITE = Suite(
    "gemv",
    "linear layers of one token in every format, as share of reading memory",
    cases,
    dtypes=(*FORMATS, "fp8", "int4"),
    axes=(2, 3),
    size_meaning="OUTPUTSxINPUTS or ROWSxOUTPUTSxINPUTS",
)
