"""Packing weights for a device's GEMM kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay._native import FORMATS, pack_weights, weights_bytes
from assay.errors import DTypeError, InputError, ShapeError, UnsupportedError
from assay.lazy_import import np
from assay.ops import gpu_packing
from assay.ops.formats import BLOCKS, DENSE, NAMES, PER_CHANNEL, STORED_BLOCKS
from assay.ops.quantization import quantize
from assay.ops.weights import Weights
from assay.runtime import transfer
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device as device_named

if TYPE_CHECKING:
    import numpy.typing as npt


def pack(
    data: Any,
    format: str,
    shape: tuple[int, int],
    device: Device | str = "cpu",
    *,
    scales: npt.NDArray[np.float32] | None = None,
) -> Weights:
    """Pack weights of `shape` (outputs, inputs) into device memory.

    `data` is anything with the buffer protocol: bytes of the format as stored in a file, or float32
    values, which are quantized where the format is one of `NAMES` (Q3_K and other formats of GGUF
    are taken from files only); or a list of such bytes, whose rows are concatenated. int8 and fp8
    weights are bytes with one of `scales` per output; a GPU also quantizes to them, and to int4,
    from float32 values or from an array in its memory.

    >>> weights = pack(np.full((4, 32), 127.0, np.float32), "q8_0", (4, 32))
    >>> float(weights.dequantize()[0, 0])
    127.0
    """
    target = device_named(device)
    if format not in NAMES and format not in STORED_BLOCKS:
        known = ", ".join((*NAMES, *sorted(STORED_BLOCKS)))
        raise InputError(f'pack: expected a weight format, got "{format}"', f"one of: {known}")
    if len(shape) != 2 or min(shape) < 0:
        raise ShapeError(f"pack: expected a shape of (outputs, inputs), got {tuple(shape)}")
    outputs, inputs = (int(extent) for extent in shape)
    supported = target.capabilities.weight_formats
    on_device = target.capabilities.packs_weights_on_device
    if format not in supported:
        raise UnsupportedError(
            f"pack: expected {', '.join(supported)} on {target}, got {format}",
            "dequantize them on the cpu device and pack them as bf16"
            if on_device
            else "use a GPU, or pack them as int8 or q4_1",
        )
    if on_device and _is_quantized_on_device(data, format, scales):
        return gpu_packing.quantize_and_pack(target, data, format, (outputs, inputs))
    sources = _sources(data, format, outputs, inputs)
    channel_scales = _scales(scales, format, outputs)
    if on_device:
        if format in BLOCKS:
            return gpu_packing.pack_blocks(target, sources, format, (outputs, inputs))
        return gpu_packing.upload(target, sources, channel_scales, format, (outputs, inputs))
    code = FORMATS[format]
    buffer = target.allocate(weights_bytes(code, outputs, inputs))
    read = sum(source.nbytes for source in sources)
    rows = [source.nbytes * outputs // max(read, 1) for source in sources]
    sizes = [weights_bytes(code, count, inputs) for count in rows]
    if channel_scales is not None or sum(sizes) != buffer.nbytes:
        # Rows that share a panel, or whose scales follow all rows, must be packed together.
        sources = sources if len(sources) == 1 else [np.concatenate(sources)]
        rows, sizes = [outputs], [buffer.nbytes]

    def run(copies: list[Any] | None = None) -> None:
        out = memoryview(buffer if copies is None else copies[0])  # type: ignore[arg-type]
        start = 0
        for source, count, size in zip(sources, rows, sizes, strict=True):
            part = out[start : start + size]
            pack_weights(code, source, channel_scales, count, inputs, part)
            start += size

    if buffer.nbytes:
        target.launch("pack", run, [], [buffer], bytes=read + buffer.nbytes)
    return Weights(target, buffer, format, (outputs, inputs))


def _is_quantized_on_device(data: Any, format: str, scales: Any) -> bool:
    """Whether the device quantizes: values, to a format that files do not store."""
    if format not in (*PER_CHANNEL, "int4") or scales is not None or isinstance(data, list):
        return False
    return isinstance(data, Array) or np.asarray(data).dtype == np.float32


def _sources(data: Any, format: str, outputs: int, inputs: int) -> list[gpu_packing.HostBytes]:
    """The bytes of the format, from stored bytes or from float32 values."""
    if isinstance(data, list):
        sources: list[gpu_packing.HostBytes] = [memoryview(part).cast("B") for part in data]
    else:
        sources = [_host_bytes(data, format, outputs, inputs)]
    total = sum(source.nbytes for source in sources)
    if format in BLOCKS:
        values, size = BLOCKS[format]
        if inputs % values:
            raise ShapeError(
                f"pack: expected inputs in multiples of {values} for {format}, got {inputs}"
            )
        expected = outputs * (inputs // values) * size
    else:
        size = 1 if format in PER_CHANNEL else DENSE[format]
        expected = outputs * inputs * size
    if format in PER_CHANNEL and inputs % 32:
        raise ShapeError(f"pack: expected inputs in multiples of 32 for {format}, got {inputs}")
    row_bytes = expected // max(outputs, 1)
    if total != expected or any(row_bytes and source.nbytes % row_bytes for source in sources):
        got = " and ".join(str(source.nbytes) for source in sources)
        raise ShapeError(
            f"pack: expected {expected} bytes for {outputs} x {inputs} of {format}, got {got}"
        )
    return sources


def _host_bytes(data: Any, format: str, outputs: int, inputs: int) -> gpu_packing.HostBytes:
    if isinstance(data, memoryview) and data.format == "B":
        return data.cast("B")
    host = data.to_numpy() if isinstance(data, Array) else np.asarray(data)
    if host.dtype == np.float32 and format in STORED_BLOCKS:
        raise InputError(
            f"pack: expected bytes of {format} as a file stores them, got float32 values",
            f"quantize to one of: {', '.join(NAMES)}",
        )
    if host.dtype == np.float32 and format not in ("f32", *PER_CHANNEL):
        host = _quantized(np.ascontiguousarray(host), format, outputs, inputs)
    raw: npt.NDArray[Any] = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    return raw


def _quantized(
    values: npt.NDArray[np.float32], format: str, outputs: int, inputs: int
) -> npt.NDArray[Any]:
    if values.size != outputs * inputs:
        raise ShapeError(
            f"pack: expected {outputs} x {inputs} values, got shape {tuple(values.shape)}"
        )
    if values.size == 0:
        return np.empty(0, np.uint8)
    if format in BLOCKS and inputs % BLOCKS[format][0]:
        raise ShapeError(
            f"pack: expected inputs in multiples of {BLOCKS[format][0]} for {format}, got {inputs}"
        )
    return quantize(transfer.store("pack", device_named("cpu"), values), format).to_numpy()


def _scales(scales: Any, format: str, outputs: int) -> npt.NDArray[np.float32] | None:
    if format not in PER_CHANNEL:
        if scales is not None:
            raise InputError(f"pack: expected no scales for {format}, got some")
        return None
    if scales is None:
        raise InputError(f"pack: expected a scale for each output of {format} weights, got none")
    array = np.ascontiguousarray(scales)
    if array.dtype != np.float32:
        raise DTypeError(f"pack: expected scales of float32, got {array.dtype}")
    if array.shape != (outputs,):
        raise ShapeError(f"pack: expected scales of shape ({outputs},), got {array.shape}")
    return array
