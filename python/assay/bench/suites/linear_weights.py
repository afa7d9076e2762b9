"""Weights of linear layers to measure: drawn, packed in a format, and rotated past the cache."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay import ops
from assay.bench.harness import inputs
from assay.bench.harness.inputs import NumPyArray
from assay.bench.harness.seeding import shifted
from assay.bench.suites import low_precision
from assay.engine.loading.dequantize import dequantize
from assay.ops.formats import BLOCKS, INT4_GROUP, STORED_BLOCKS
from assay.ops.gpu_packing import row_parts
from assay.ops.weights import Weights
from assay.runtime.hardware import Device, device as shared

HALVES: Final[dict[str, tuple[int, ...]]] = {
    "q8_0": (0,), "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "iq4_nl": (0,),
    "q2_k": (80, 82), "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,),
    "iq4_xs": (0,), "mxfp4": (),
}  # fmt: skip
"""Where a block has its 16-bit floats, scales and minima."""
_EXPONENTS: Final = (118, 126)
"""The range of the exponent of MXFP4: values near one."""


def random_blocks(format: str, rows: int, inner: int, seed: int) -> NumPyArray:
    """Rows of blocks with random codes and scales, as bytes."""
    random = np.random.default_rng(shifted(seed))
    values, size = BLOCKS[format]
    count = rows * inner // values
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[format]:
        drawn = random.uniform(-0.02, 0.02, (count, 1)).astype(np.float16)
        blocks[:, at : at + 2] = drawn.view(np.uint8)
    if format == "mxfp4":
        blocks[:, 0] = random.integers(*_EXPONENTS, count)
    return blocks.reshape(rows, -1)


DENSE: Final = ("f32", "bf16", "f16")
BLOCK_INPUTS: Final = {"int8": 32, "fp8": 32, "int4": INT4_GROUP} | {
    name: values for name, (values, _) in BLOCKS.items()
}
"""Inputs per block or group of a format."""
_ROWS: Final = {"int8": low_precision.int8_rows, "fp8": low_precision.fp8_rows}
_DRAWN_ROWS: Final = 128
"""Rows drawn at random; the others repeat them, because choosing scales is slow."""


def drawn_rows(format: str, outputs: int, inner: int) -> inputs.NumPyArray:
    """The rows of the weights that differ; `rotated` repeats them up to `outputs`.

    They are values or, for formats that nothing here quantizes to, bytes.
    """
    if format in STORED_BLOCKS:
        return random_blocks(format, min(_DRAWN_ROWS, outputs), inner, 1)
    drawn = inputs.standard_normal((min(_DRAWN_ROWS, outputs), inner), 1)
    return low_precision.int4_groups(drawn, INT4_GROUP) if format == "int4" else drawn


def rotated(
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


def activation_dtype(device: Device, format: str) -> str:
    """The element type of activations: FP32 on a CPU."""
    if not device.capabilities.is_gpu:
        return "f32"
    return format if format in DENSE else "bf16"


def dequantized(format: str, drawn: inputs.NumPyArray) -> inputs.NumPyArray:
    """The dequantized weights, by the definition of the format or by the CPU backend."""
    if format == "int4":
        return drawn.astype(np.float64)
    if format in _ROWS:
        return _ROWS[format](drawn)[2]
    if format in STORED_BLOCKS:
        return dequantize(drawn, format, (len(drawn), _inner(format, drawn)))
    return inputs.download(_packed(shared("cpu"), format, drawn).dequantize())


def tolerance(device: Device, format: str) -> float:
    """Tolerance relative to the largest output: FP32 sums, or activations quantized to 8 bits.

    Quantization is off by at most 1/254 of the largest of 32 activations, some 2.5 standard
    deviations: 0.6 % of the standard deviation of an output, several times that at the maximum.
    """
    if format in DENSE:
        return 1e-5
    # GPUs quantize activations to 16 bits.
    return 1e-3 if device.capabilities.is_gpu else 2e-2


def _inner(format: str, drawn: inputs.NumPyArray) -> int:
    """Weights of a row."""
    values, size = BLOCKS[format] if format in STORED_BLOCKS else (1, 1)
    return int(drawn.shape[1]) // size * values


def _packed(device: Device, format: str, host: inputs.NumPyArray) -> Weights:
    shape = (host.shape[0], _inner(format, host))
    if format not in _ROWS:
        return ops.pack(host, format, shape, device)
    codes, scales, _ = _ROWS[format](host)
    return ops.pack(codes, format, shape, device, scales=scales)


def _tiled(device: Device, format: str, drawn: inputs.NumPyArray, outputs: int) -> Weights:
    """Weights of all outputs, from rows that repeat."""
    rows, inner = len(drawn), _inner(format, drawn)
    if not device.capabilities.is_gpu:
        return _packed(device, format, np.resize(drawn, (outputs, drawn.shape[1])))
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
