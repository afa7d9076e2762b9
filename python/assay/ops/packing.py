"""Weights on their way into a GPU's memory: uploaded, or made there of numbers and blocks.

Kernels read weights before the kernel in front of them has ended, so whatever makes weights is
waited for here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from assay._native import BLOCK_FORMATS, FORMATS, Buffer
from assay.errors import ShapeError
from assay.lazy_import import LazyModule
from assay.ops import counting
from assay.ops.calling import DENSE, Operand, call, check, operand
from assay.runtime import dtypes, launching
from assay.runtime.array import Array
from assay.runtime.hardware import Device

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from assay.ops.weights import Weights

    Stored = npt.NDArray[Any] | memoryview
    """Bytes of weights in the host's memory."""
else:
    np = LazyModule("numpy", globals(), "np")

_PIECE_BITS: Final = 1024
"""Rows of weights in groups are whole pieces of so many bits."""
_DENSE: Final = ("f32", "f16", "bf16")
_GROUPED: Final = ("int4", "q8_0", "q4_0", "q4_1")
"""Formats with groups: weights of a block share a scale and a minimum."""


def row_parts(format: str, inputs: int) -> tuple[int, ...]:
    """Bytes that a row has on a GPU: of weights, and of what lies behind all rows of weights."""
    block = BLOCK_FORMATS[format]
    if format in _DENSE:
        return (inputs * block.bytes,)
    if format not in _GROUPED:
        return (inputs, 4)
    pieces = -(-inputs * block.bits // _PIECE_BITS)
    return (pieces * _PIECE_BITS // 8, inputs // block.values * 4)


def upload(
    device: Device,
    sources: Sequence[Stored],
    scales: npt.NDArray[np.float32] | None,
    format: str,
    shape: tuple[int, int],
) -> Weights:
    """Rows as they are, and their scales behind them."""
    from assay.ops.weights import Weights

    parts = [*sources] if scales is None else [*sources, scales.view(np.uint8)]
    return Weights(device, _uploaded(device, parts), format, shape)


def _uploaded(device: Device, parts: Sequence[Stored]) -> Buffer:
    buffer = device.allocate(sum(part.nbytes for part in parts))
    offset = 0
    for part in parts:
        if part.nbytes:
            device._context.upload("pack", part, buffer, offset)
        offset += part.nbytes
    return buffer


def pack_numbers(device: Device, data: Any, format: str, shape: tuple[int, int]) -> Weights:
    """Numbers, rounded there: those of an array on the device, or of the host's memory."""
    unit = BLOCK_FORMATS[format].values if format in _GROUPED else 32
    if shape[1] % unit:
        raise ShapeError(
            f"pack: expected inputs in multiples of {unit} for {format}, got {shape[1]}"
        )
    if isinstance(data, Array) and data.device is device:
        return _made(
            device,
            operand("pack", "data", check("pack", "data", data, shape, DENSE)),
            format,
            shape,
        )
    host = data.to_numpy() if isinstance(data, Array) else np.asarray(data)
    if host.size != shape[0] * shape[1] or host.dtype != np.float32:
        raise ShapeError(
            f"pack: expected {shape[0]} x {shape[1]} numbers of float32, got shape "
            f"{tuple(host.shape)} of {host.dtype}"
        )
    numbers = launching.store("pack", device, host.reshape(shape), dtypes.float32)
    return _made(device, operand("pack", "data", numbers), format, shape)


def pack_blocks(
    device: Device, sources: Sequence[Stored], format: str, shape: tuple[int, int]
) -> Weights:
    """Blocks as files have them, in the order in which kernels read them."""
    buffer = _uploaded(device, sources)
    made = _made(device, (buffer, 0, buffer.nbytes, FORMATS[format]), format, shape)
    buffer.free()
    return made


def _made(device: Device, source: Operand, format: str, shape: tuple[int, int]) -> Weights:
    from assay.ops.weights import Weights

    outputs, inputs = shape
    buffer: Buffer = device.allocate(outputs * sum(row_parts(format, inputs)))
    made = Weights(device, buffer, format, shape)
    if buffer.nbytes:
        moved = counting.moved(source[2] + buffer.nbytes)
        call("pack", [("x", source), ("weights", made.operand())], shape, device, moved)
        device.current_stream().synchronize()
    return made
