"""Linear layers of one token: what decoding spends its time on, beside the memory's own speed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench import checks, counting, inputs, rivals, yardsticks
from assay.bench.case import Absent, Case, Contestant, Settings, Size, Suite, Trial
from assay.bench.clocks import Call, DeviceClock
from assay.bench.grouping import grouped
from assay.bench.text import shape_text
from assay.errors import InputError
from assay.ops.weights import BLOCKS, Weights
from assay.runtime.hardware import Device
from assay.runtime.hardware import device as shared

FORMATS: Final = ("f32", "bf16", "f16", "int8", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
DENSE: Final = ("f32", "bf16", "f16")
SIZES: Final[tuple[Size, ...]] = ((4096, 4096), (576, 1536))
QUICK_SIZES: Final[tuple[Size, ...]] = ((64, 512),)
_DRAWN_ROWS: Final = 128
"""Rows that are drawn; the others repeat them, because choosing scales takes its time."""


def cases(settings: Settings) -> list[Case]:
    """Every format at every size: (rows by) outputs by inputs."""
    listed = []
    for format in settings.dtypes or FORMATS:
        for size in settings.sizes or (QUICK_SIZES if settings.quick else SIZES):
            rows, outputs, inner = size if len(size) == 3 else (1, *size)
            block = BLOCKS[format][0] if format in BLOCKS else 32 if format == "int8" else 1
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


def _prepare(settings: Settings, format: str, rows: int, outputs: int, inner: int) -> Trial:
    device = settings.device
    drawn = inputs.normal((min(_DRAWN_ROWS, outputs), inner), 1)
    host = np.resize(drawn, (outputs, inner))
    weights = _rotated(device, format, host, settings.quick)
    # The reference is the processor's, whatever device is measured.
    stored = inputs.fetch(_packed(shared("cpu"), format, host).dequantize())
    given = inputs.normal((rows, inner), 2)
    x = inputs.place(device, given)
    out = xp.empty((rows, outputs), dtype=xp.float32, device=device)

    def multiply(one: Weights) -> None:
        ops.linear(x, one, out=out)

    counted = counting.count(device, lambda _: multiply(weights[0]))
    operations = [functools.partial(multiply, one) for one in weights]
    call, times = grouped(device, operations, counted.bytes)
    reference = given.astype(np.float64) @ stored.T
    return Trial(
        Contestant("assay", call, DeviceClock(device), times * counted.bytes),
        checks.written(
            "double precision, of the same weights", call, out, lambda _: reference, _error(format)
        ),
        ceiling=yardsticks.cold_read(device, counted.bytes, settings.quick),
        rivals=_rivals(device, format, host, given, len(weights), counted.bytes),
        bytes=counted.bytes,
        flops=counted.flops,
        working_set_bytes=len(weights) // times * times * weights[0].nbytes,
        note="" if times == 1 else f"graphs of {times} layers, as an engine replays them",
    )


def _error(format: str) -> float:
    """Against the largest output: sums of single precision, or activations rounded to bytes.

    A byte is off by at most 1/254 of the largest of 32 activations, which is some 2.5 times
    their spread: 0.6 % of the spread of an output, and several times that at the worst of many.
    """
    return 1e-5 if format in DENSE else 2e-2


def _packed(device: Device, format: str, host: inputs.NumPyArray) -> Weights:
    shape = (host.shape[0], host.shape[1])
    if format != "int8":
        return ops.pack(host, format, shape, device)
    scales = (np.abs(host).max(axis=1) / 127).astype(np.float32)
    codes = np.rint(host / scales[:, None]).astype(np.int8)
    return ops.pack(codes, format, shape, device, scales=scales)


def _rotated(device: Device, format: str, host: inputs.NumPyArray, quick: bool) -> list[Weights]:
    """The same weights again and again in other memory, more of it than the cache holds."""
    first = _packed(device, format, host)
    stream = device.current_stream()._native
    weights = [first]
    for _ in range(inputs.copies(device, first.nbytes, quick) - 1):
        buffer = device.allocate(first.nbytes)
        device._context.copy("rotate", first.buffer, 0, buffer, 0, first.nbytes, stream)
        weights.append(Weights(device, buffer, format, first.shape))
    device.synchronize()
    return weights


def _rivals(
    device: Device,
    format: str,
    host: inputs.NumPyArray,
    given: inputs.NumPyArray,
    count: int,
    amount: float,
) -> list[Contestant | Absent]:
    if format not in DENSE:
        return [Absent("NumPy", f"has no {format}"), Absent("PyTorch", f"has no {format}")]

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        kind = getattr(module, inputs.DTYPES[format])
        weights = [put(host).to(kind).clone() for _ in range(count)]
        placed = put(given).to(kind)
        return lambda number: module.nn.functional.linear(placed, weights[number % count])

    torch = rivals.torch(device, in_torch, amount)
    if format != "f32":
        return [Absent("NumPy", f"has no product of {format}"), torch]
    copies = [host.copy() for _ in range(count)]
    return [rivals.numpy(lambda number: given @ copies[number % count].T, amount), torch]


SUITE = Suite(
    "gemv",
    "linear layers of one token in every format, as share of reading memory",
    cases,
    dtypes=FORMATS,
    axes=(2, 3),
    size_meaning="OUTPUTSxINPUTS or ROWSxOUTPUTSxINPUTS",
)
