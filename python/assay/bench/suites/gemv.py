"""GEMV: linear layers of one or a few tokens, beside the read bandwidth of memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench.harness import ceilings, checks, counting, inputs
from assay.bench.harness.case import Absent, Case, PreparedCase, Settings, Size, Subject, Suite
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
"""Weight formats of CPUs."""
DENSE: Final = ("f32", "bf16", "f16")
SIZES: Final[tuple[Size, ...]] = ((4096, 4096), (576, 1536))
GPU_SIZES: Final[tuple[Size, ...]] = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096),
)  # fmt: skip
"""The linear layers of an 8B model."""
GPU_ROWS: Final[tuple[Size, ...]] = tuple((rows, 28672, 4096) for rows in (2, 4, 8, 16))
GPU_FORMATS: Final = ("bf16", "int8", "fp8", "int4", "q8_0", "q4_1")
BLOCK_INPUTS: Final = {"int8": 32, "fp8": 32, "int4": INT4_GROUP} | {
    name: values for name, (values, _) in BLOCKS.items()
}
"""Inputs per block or group of a format."""
QUICK_SIZES: Final[tuple[Size, ...]] = ((64, 512),)
_ROWS: Final = {"int8": low_precision.int8_rows, "fp8": low_precision.fp8_rows}
_DRAWN_ROWS: Final = 128
"""Rows drawn at random; the others repeat them, because choosing scales is slow."""


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


def _prepare(settings: Settings, format: str, rows: int, outputs: int, inner: int) -> PreparedCase:
    device = settings.device
    drawn = inputs.standard_normal((min(_DRAWN_ROWS, outputs), inner), 1)
    if format == "int4":
        drawn = low_precision.int4_groups(drawn, INT4_GROUP)
    weights = _rotated(device, format, drawn, outputs, settings.quick)
    activation = _activation(device, format)
    x = inputs.upload(device, inputs.standard_normal((rows, inner), 2), activation)
    out = xp.empty((rows, outputs), dtype=x.dtype, device=device)

    def multiply(one: Weights) -> None:
        ops.linear(x, one, out=out)

    counted = counting.count(device, lambda _: multiply(weights[0]))
    operations = [functools.partial(multiply, one) for one in weights]
    call, times = batch_into_graphs(device, operations, counted.bytes)
    # Rows repeat, so outputs do.
    given = inputs.download(x)
    reference = np.take(given @ _stored(format, drawn).T, np.arange(outputs) % len(drawn), axis=1)
    tolerance = _error(device, format) + (
        0 if activation == "f32" else inputs.unit_roundoff(activation)
    )
    return PreparedCase(
        Subject("assay", call, DeviceClock(device), times * counted.bytes),
        checks.output(
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
    """The element type of activations: FP32 on a CPU."""
    if not device.capabilities.is_gpu:
        return "f32"
    return format if format in DENSE else "bf16"


def _stored(format: str, drawn: inputs.NumPyArray) -> inputs.NumPyArray:
    """The dequantized weights, by the definition of the format or by the CPU backend."""
    if format == "int4":
        return drawn.astype(np.float64)
    if format in _ROWS:
        return _ROWS[format](drawn)[2]
    return inputs.download(_packed(shared("cpu"), format, drawn).dequantize())


def _error(device: Device, format: str) -> float:
    """Tolerance relative to the largest output: FP32 sums, or activations quantized to 8 bits.

    Quantization is off by at most 1/254 of the largest of 32 activations, some 2.5 standard
    deviations: 0.6 % of the standard deviation of an output, several times that at the maximum.
    """
    if format in DENSE:
        return 1e-5
    # GPUs quantize activations to 16 bits.
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
    """Copies of the weights to rotate through, more than the cache holds."""
    first = _tiled(device, format, drawn, outputs)
    weights = [first]
    for _ in range(inputs.rotated_copies(device, first.nbytes, quick) - 1):
        buffer = device.allocate(first.nbytes)
        device.copy("rotate", first.buffer, 0, buffer, 0, first.nbytes)
        weights.append(Weights(device, buffer, format, first.shape))
    device.synchronize()
    return weights


def _tiled(device: Device, format: str, drawn: inputs.NumPyArray, outputs: int) -> Weights:
    """Weights of all outputs, from rows that repeat."""
    rows, inner = drawn.shape
    if not device.capabilities.is_gpu:
        return _packed(device, format, np.resize(drawn, (outputs, inner)))
    # A GPU stores each part of all rows contiguously: the packed rows are copied part by part.
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
) -> list[Subject | Absent]:
    if format not in DENSE:
        return [Absent("NumPy", f"has no {format}"), Absent("PyTorch", f"has no {format}")]
    repeats = max(1, times // count) if device.capabilities.is_gpu else 1

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[format])
        piece = upload(drawn).to(kind)
        full = piece.repeat(-(-outputs // len(drawn)), 1)[:outputs].contiguous()
        weights = [full, *(full.clone() for _ in range(count - 1))]
        placed = upload(given.astype(np.float32)).to(kind)

        def one(number: int) -> object:
            return module.nn.functional.linear(placed, weights[number % count])

        if not device.capabilities.is_gpu:
            return one
        return pytorch_graph(
            module, [functools.partial(one, index) for index in range(count)] * repeats
        )

    done = amount * (repeats * count if device.capabilities.is_gpu else 1)
    torch = pytorch_rival(device, in_torch, done)
    if format != "f32" or not device.host_memory:
        return [Absent("NumPy", f"has no {format} GEMV on {device.kind}"), torch]
    host = np.resize(drawn, (outputs, drawn.shape[1]))
    copies = [host.copy() for _ in range(count)]
    x = given.astype(np.float32)
    return [numpy_rival(lambda number: x @ copies[number % count].T, amount), torch]


SUITE = Suite(
    "gemv",
    "GEMV: linear layers of one token in every format, beside reading memory",
    cases,
    dtypes=(*FORMATS, "fp8", "int4"),
    axes=(2, 3),
    size_meaning="OUTPUTSxINPUTS or ROWSxOUTPUTSxINPUTS",
)
