"""Packing weights in GPU memory: uploaded as they are, or quantized or repacked by kernels.

GEMV kernels prefetch weights before the previous kernel completes (programmatic dependent launch),
so the host synchronizes with the kernels that write weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay._native import BLOCK_FORMATS, FORMATS, Buffer
from assay.errors import ShapeError, UnsupportedError
from assay.lazy_import import np
from assay.ops import counting
from assay.ops.formats import DENSE
from assay.ops.operands import DENSE as DENSE_DTYPES, Operand, call, check, operand
from assay.ops.weights import Weights
from assay.runtime import dtypes, transfer
from assay.runtime.array import Array
from assay.runtime.hardware import Device

if TYPE_CHECKING:
    import numpy.typing as npt

    HostBytes = npt.NDArray[Any] | memoryview
    """Bytes of weights in host memory."""


def row_parts(format: str, inputs: int) -> tuple[int, ...]:
    """Bytes of a row on a GPU: of its weights, and of its scales, which follow all weights."""
    if format in DENSE:
        return (inputs * DENSE[format],)
    from assay._native import cuda_packed_row_bytes

    parts = cuda_packed_row_bytes(FORMATS[format], inputs)
    if parts is None:
        raise UnsupportedError(f"pack: expected a format with GPU kernels, got {format}")
    return parts


def upload(
    device: Device,
    sources: Sequence[HostBytes],
    scales: npt.NDArray[np.float32] | None,
    format: str,
    shape: tuple[int, int],
) -> Weights:
    """Upload rows as they are, followed by their scales."""
    parts = [*sources] if scales is None else [*sources, scales.view(np.uint8)]
    return Weights(device, _uploaded(device, parts), format, shape)


def _uploaded(device: Device, parts: Sequence[HostBytes]) -> Buffer:
    buffer = device.allocate(sum(part.nbytes for part in parts))
    offset = 0
    for part in parts:
        if part.nbytes:
            device.upload("pack", part, buffer, offset)
        offset += part.nbytes
    return buffer


def quantize_and_pack(device: Device, data: Any, format: str, shape: tuple[int, int]) -> Weights:
    """Quantize values on the device, from an array on it or from host memory."""
    unit = max(BLOCK_FORMATS[format].values, 32)
    if shape[1] % unit:
        raise ShapeError(
            f"pack: expected inputs in multiples of {unit} for {format}, got {shape[1]}"
        )
    if isinstance(data, Array) and data.device is device:
        return _run_pack(
            device,
            operand("pack", "data", check("pack", "data", data, shape, DENSE_DTYPES)),
            format,
            shape,
        )
    host = data.to_numpy() if isinstance(data, Array) else np.asarray(data)
    if host.size != shape[0] * shape[1] or host.dtype != np.float32:
        raise ShapeError(
            f"pack: expected {shape[0]} x {shape[1]} values of float32, got shape "
            f"{tuple(host.shape)} of {host.dtype}"
        )
    values = transfer.store("pack", device, host.reshape(shape), dtypes.float32)
    return _run_pack(device, operand("pack", "data", values), format, shape)


def pack_blocks(
    device: Device, sources: Sequence[HostBytes], format: str, shape: tuple[int, int]
) -> Weights:
    """Repack blocks from a file's layout into the layout of the kernels."""
    buffer = _uploaded(device, sources)
    packed = _run_pack(device, (buffer, 0, buffer.nbytes, FORMATS[format]), format, shape)
    buffer.free()
    return packed


def _run_pack(device: Device, source: Operand, format: str, shape: tuple[int, int]) -> Weights:
    outputs, inputs = shape
    buffer: Buffer = device.allocate(outputs * sum(row_parts(format, inputs)))
    packed = Weights(device, buffer, format, shape)
    if buffer.nbytes:
        count = counting.memory_traffic(source[2] + buffer.nbytes)
        call("pack", [source, packed.operand()], shape, device, count)
        device.current_stream().synchronize()
    return packed
