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
from assay.bench.suites import linear_weights
from assay.errors import InputError
from assay.ops.formats import BLOCKS
from assay.ops.weights import Weights
from assay.runtime.hardware import Device

FORMATS: Final = ("f32", "bf16", "f16", "int8", "q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k")
"""Weight formats of CPUs."""
SIZES: Final[tuple[Size, ...]] = ((4096, 4096), (576, 1536))
GPU_SIZES: Final[tuple[Size, ...]] = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096),
)  # fmt: skip
"""The linear layers of an 8B model."""
GPU_ROWS: Final[tuple[Size, ...]] = tuple((rows, 28672, 4096) for rows in (2, 4, 8, 16))
GPU_FORMATS: Final = ("bf16", "int8", "fp8", "int4", "q8_0", "q4_1", "q4_k", "q5_k", "q6_k")
QUICK_SIZES: Final[tuple[Size, ...]] = ((64, 512),)


def cases(settings: Settings) -> list[Case]:
    """Every format at every size: (rows by) outputs by inputs."""
    listed = []
    on_gpu = settings.device.capabilities.is_gpu
    for format in settings.dtypes or (GPU_FORMATS if on_gpu else FORMATS):
        for size in settings.sizes or _sizes(settings, format):
            rows, outputs, inner = size if len(size) == 3 else (1, *size)
            block = linear_weights.BLOCK_INPUTS.get(format, 1)
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
    drawn = linear_weights.drawn_rows(format, outputs, inner)
    weights = linear_weights.rotated(device, format, drawn, outputs, settings.quick)
    activation = linear_weights.activation_dtype(device, format)
    x = inputs.upload(device, inputs.standard_normal((rows, inner), 2), activation)
    out = xp.empty((rows, outputs), dtype=x.dtype, device=device)

    def multiply(weight: Weights) -> None:
        ops.linear(x, weight, out=out)

    counted = counting.count(device, lambda _: multiply(weights[0]))
    operations = [functools.partial(multiply, weight) for weight in weights]
    call, times = batch_into_graphs(device, operations, counted.bytes)
    # Rows repeat, so outputs do.
    given = inputs.download(x)
    reference = np.take(
        given @ linear_weights.dequantized(format, drawn).T, np.arange(outputs) % len(drawn), axis=1
    )
    tolerance = linear_weights.tolerance(device, format) + (
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
    if format not in linear_weights.DENSE:
        return [Absent("NumPy", f"has no {format}"), Absent("PyTorch", f"has no {format}")]
    repeats = max(1, times // count) if device.capabilities.is_gpu else 1

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[format])
        piece = upload(drawn).to(kind)
        full = piece.repeat(-(-outputs // len(drawn)), 1)[:outputs].contiguous()
        weights = [full, *(full.clone() for _ in range(count - 1))]
        placed = upload(given.astype(np.float32)).to(kind)

        def multiply_placed(number: int) -> object:
            return module.nn.functional.linear(placed, weights[number % count])

        if not device.capabilities.is_gpu:
            return multiply_placed
        return pytorch_graph(
            module, [functools.partial(multiply_placed, index) for index in range(count)] * repeats
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
    cases,
    dtypes=tuple(dict.fromkeys((*FORMATS, "fp8", "int4", *BLOCKS))),
    axes=(2, 3),
    size_meaning="OUTPUTSxINPUTS or ROWSxOUTPUTSxINPUTS",
    seeding="inputs",
)
