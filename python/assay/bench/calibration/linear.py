"""Linear layers by weight format and number of tokens: GEMV, small-M GEMM and large GEMM."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from assay import ops, xp
from assay.bench.calibration.sampling import Limit, Measurement, threads_text
from assay.bench.harness import checks, counting, inputs
from assay.bench.harness.case import PreparedCase, Subject
from assay.bench.harness.clocks import DeviceClock
from assay.bench.harness.graph_batches import batch_into_graphs
from assay.bench.harness.text import shape_text
from assay.bench.suites import linear_weights
from assay.ops.weights import Weights
from assay.runtime.array import Array
from assay.runtime.hardware import Device

ROWS: Final = (1, 8, 64, 256)
"""Tokens of a step: decoding one sequence or several, and chunks of prompts."""
FORMATS: Final = ("f32", "bf16", "q8_0", "q4_1", "q4_k", "q6_k")
SHAPE: Final = (2048, 2048)
"""Outputs by inputs on a CPU."""
SMALL: Final = (512, 512)
"""A layer so small that what one operation costs besides its bytes shows."""
GPU_FORMATS: Final = ("bf16", "f32", "fp8", "int8", "int4", "q4_1")
GPU_SHAPE: Final = (28672, 4096)
GPU_SMALL: Final = (4096, 4096)
GPU_SQUARE: Final = 8192
GPU_SQUARE_FORMATS: Final = ("bf16", "f32")

FEW_ROWS: Final = 8
"""Up to this many tokens reading the weights decides, so that the figure is their bandwidth."""
_DRAWN_ROWS: Final = 64
"""Rows of activations that are drawn; more repeat them."""
_CHECKED_ROWS: Final = 24
"""Rows of the output that are checked in double precision."""


def measurements(
    device: Device, threads: Sequence[int | None], limited: Limit
) -> Iterator[Measurement]:
    """Every format: a large layer at each number of tokens, and a small one at one token."""
    on_gpu = device.capabilities.is_gpu
    for format in GPU_FORMATS if on_gpu else FORMATS:
        large = _Layer(device, format, *(GPU_SHAPE if on_gpu else SHAPE))
        small = _Layer(device, format, *(GPU_SMALL if on_gpu else SMALL))
        for count in threads:
            for rows in ROWS:
                yield large.measurement(rows, count, limited)
            yield small.measurement(1, count, limited)
    if on_gpu:
        for format in GPU_SQUARE_FORMATS:
            square = _Layer(device, format, GPU_SQUARE, GPU_SQUARE)
            yield square.measurement(GPU_SQUARE, None, limited)


class _Layer:
    """A linear layer whose weights are packed once for all its measurements."""

    def __init__(self, device: Device, format: str, outputs: int, inner: int) -> None:
        self.device = device
        self.format = format
        self.outputs = outputs
        self.inner = inner

    @functools.cached_property
    def drawn(self) -> inputs.NumPyArray:
        return linear_weights.drawn_rows(self.format, self.outputs, self.inner)

    @functools.cached_property
    def dequantized(self) -> inputs.NumPyArray:
        return linear_weights.dequantized(self.format, self.drawn)

    @functools.cached_property
    def weights(self) -> list[Weights]:
        return linear_weights.rotated(self.device, self.format, self.drawn, self.outputs, False)

    def measurement(self, rows: int, threads: int | None, limited: Limit) -> Measurement:
        """The layer on so many tokens, on so many threads."""
        is_gemv = rows <= FEW_ROWS
        parameters = {
            "operation": "linear",
            "dtype": self.format,
            "rows": rows,
            "outputs": self.outputs,
            "inputs": self.inner,
        }
        shape = shape_text((rows, self.outputs, self.inner))
        return Measurement(
            f"linear {self.format} {shape}{threads_text(threads)}",
            "GB/s" if is_gemv else "GFLOP/s",
            parameters if threads is None else {**parameters, "threads": threads},
            lambda: self._prepare(rows, is_gemv),
            lambda: limited(threads),
        )

    def _prepare(self, rows: int, is_gemv: bool) -> PreparedCase:
        device, weights = self.device, self.weights
        activation = linear_weights.activation_dtype(device, self.format)
        host = inputs.standard_normal((min(rows, _DRAWN_ROWS), self.inner), 2)
        x = _repeated_rows(device, host, rows, activation)
        out = xp.empty((rows, self.outputs), dtype=x.dtype, device=device)

        def multiply(weight: Weights) -> None:
            ops.linear(x, weight, out=out)

        counted = counting.count(device, lambda _: multiply(weights[0]))
        operations = [functools.partial(multiply, weight) for weight in weights]
        call, times = batch_into_graphs(device, operations, counted.bytes)
        checked = np.unique(np.linspace(0, rows - 1, _CHECKED_ROWS).astype(int))
        given = inputs.download(x)[checked]
        reference = np.take(
            given @ self.dequantized.T, np.arange(self.outputs) % len(self.drawn), axis=1
        )
        tolerance = linear_weights.tolerance(device, self.format) + (
            0.0 if activation == "f32" else inputs.unit_roundoff(activation)
        )
        return PreparedCase(
            Subject(
                "assay",
                call,
                DeviceClock(device),
                times * (counted.bytes if is_gemv else counted.flops),
            ),
            checks.output("double precision", call, out, lambda _: reference, tolerance, checked),
            bytes=counted.bytes,
            flops=counted.flops,
        )


def _repeated_rows(device: Device, host: inputs.NumPyArray, rows: int, dtype: str) -> Array:
    part = inputs.upload(device, host, dtype)
    if len(host) == rows:
        return part
    flat = inputs.repeat(device, xp.reshape(part, (-1,)), rows // len(host))
    return xp.reshape(flat, (rows, host.shape[1]))
