"""Weights of linear layers, arranged once for the device's kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from assay import _native
from assay._native import BLOCK_FORMATS, FORMATS, Buffer
from assay.errors import DTypeError, InputError, ShapeError, UnsupportedError
from assay.lazy_import import LazyModule
from assay.ops import counting, packing
from assay.ops.calling import Operand, call
from assay.runtime import dtypes, launching
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.hardware import device as device_named

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Stored = npt.NDArray[Any] | memoryview
    """Bytes of weights in the host's memory."""
else:
    np = LazyModule("numpy", globals(), "np")

DENSE: Final = {name: BLOCK_FORMATS[name].bytes for name in ("f32", "f16", "bf16")}
"""Dense formats and the bytes of a number."""

BLOCKS: Final = {
    name: (BLOCK_FORMATS[name].values, BLOCK_FORMATS[name].bytes)
    for name in ("q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
}
"""Block formats with kernels: values and bytes per block, as in GGUF."""

BYTES: Final = ("int8", "fp8")
"""Formats of one byte with a scale for each output: signed integers, and e4m3 floats."""

INT4_GROUP: Final = BLOCK_FORMATS["int4"].values
"""Weights of int4 that share a scale and a minimum."""

NAMES: Final = (*DENSE, *BYTES, "int4", *BLOCKS)

ON_GPU: Final = (*DENSE, *BYTES, "int4", "q8_0", "q4_0", "q4_1")
"""Formats that GPUs have kernels for."""

ON_CPU: Final = (*DENSE, "int8", *BLOCKS)
"""Formats that processors have kernels for."""

_TYPES: Final = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}


class Weights:
    """A matrix of weights in a device's memory, one row per output, as its kernels read it.

    `pack` makes one.
    """

    __slots__ = ("buffer", "device", "format", "shape")

    def __init__(self, device: Device, buffer: Buffer, format: str, shape: tuple[int, int]) -> None:
        """Describe packed memory."""
        self.device: Final = device
        self.buffer: Final = buffer
        self.format: Final = format
        self.shape: Final = shape
        """Outputs and inputs."""

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads of them."""
        return self.buffer.nbytes

    @property
    def element_bytes(self) -> float:
        """Bytes of one weight, its part of scales and padding included."""
        return self.nbytes / max(math.prod(self.shape), 1)

    @property
    def bits(self) -> int:
        """Bits of one weight, without scales."""
        return BLOCK_FORMATS[self.format].bits

    @property
    def dtype(self) -> DType | None:
        """The element type of dense weights."""
        return _TYPES.get(self.format)

    def operand(self) -> Operand:
        """The weights as an operand of an operation."""
        return (self.buffer, 0, self.buffer.nbytes, FORMATS[self.format])

    def dequantize(self) -> Array:
        """The weights as a matrix of float32."""
        out = launching.empty(self.device, self.shape, dtypes.float32, "dequantize")
        outputs, inputs = self.shape
        code, buffer = FORMATS[self.format], self.buffer
        if self.device.kind == "cuda" and self.dtype is None:
            call(
                "unpack",
                [("weights", self.operand()), ("out", out)],
                self.shape,
                self.device,
                counting.moved(buffer.nbytes + out.nbytes),
                "dequantize",
            )
            return out
        if not self.device.host_memory:
            raise UnsupportedError(
                f"dequantize: expected weights of fewer bits on {self.device}, got {self.format}",
                "they are plain numbers already",
            )

        def run() -> None:
            _native.dequantize_weights(code, buffer, outputs, inputs, out.buffer)

        stream = self.device.current_stream()._native
        self.device._context.launch(
            "dequantize", run, [buffer], [out.buffer], stream,
            bytes=buffer.nbytes + out.nbytes, flops=0.0,
        )  # fmt: skip
        return out

    def free(self) -> None:
        """Give the memory back now; later use is an error."""
        self.buffer.free()

    def __repr__(self) -> str:
        return f"Weights({self.format}, {self.shape[0]} x {self.shape[1]}, {self.device})"


def pack(
    data: Any,
    format: str,
    shape: tuple[int, int],
    device: Device | str = "cpu",
    *,
    scales: npt.NDArray[np.float32] | None = None,
) -> Weights:
    """Arrange weights of `shape` (outputs, inputs) in a device's memory.

    `data` is anything with the buffer protocol: the bytes of the format as a file has them, or
    float32 numbers, which are rounded to the format; or a list of such bytes, whose rows come one
    below the other. Weights of int8 and fp8 are bytes with one of `scales` for each output; a GPU
    also makes them, and int4, of numbers, which may be an array in its memory.

    >>> weights = pack(np.full((4, 32), 127.0, np.float32), "q8_0", (4, 32))
    >>> float(weights.dequantize()[0, 0])
    127.0
    """
    on = device_named(device)
    if format not in NAMES:
        raise InputError(
            f'pack: expected a format of weights, got "{format}"', f"one of: {', '.join(NAMES)}"
        )
    if len(shape) != 2 or min(shape) < 0:
        raise ShapeError(f"pack: expected a shape of (outputs, inputs), got {tuple(shape)}")
    outputs, inputs = (int(extent) for extent in shape)
    if format not in (known := ON_GPU if on.kind == "cuda" else ON_CPU):
        raise UnsupportedError(
            f"pack: expected {', '.join(known)} on {on}, got {format}",
            "dequantize them on the cpu device and pack them as bf16"
            if on.kind == "cuda"
            else "they are for GPUs: pack them as int8 or q4_1 here",
        )
    if on.kind == "cuda" and _is_made_there(data, format, scales):
        return packing.pack_numbers(on, data, format, (outputs, inputs))
    sources = _sources(data, format, outputs, inputs)
    behind = _scales(scales, format, outputs)
    if on.kind == "cuda":
        if format in BLOCKS:
            return packing.pack_blocks(on, sources, format, (outputs, inputs))
        return packing.upload(on, sources, behind, format, (outputs, inputs))
    code = FORMATS[format]
    buffer = on.allocate(_native.weights_bytes(code, outputs, inputs))
    read = sum(source.nbytes for source in sources)
    rows = [source.nbytes * outputs // max(read, 1) for source in sources]
    sizes = [_native.weights_bytes(code, count, inputs) for count in rows]
    if behind is not None or sum(sizes) != buffer.nbytes:
        # Rows that share a panel, or have their scales behind all of them, are packed together.
        sources = sources if len(sources) == 1 else [np.concatenate(sources)]
        rows, sizes = [outputs], [buffer.nbytes]

    def run(copies: list[Any] | None = None) -> None:
        out = memoryview(buffer if copies is None else copies[0])  # type: ignore[arg-type]
        start = 0
        for source, count, size in zip(sources, rows, sizes, strict=True):
            part = out[start : start + size]
            _native.pack_weights(code, source, behind, count, inputs, part)
            start += size

    stream = on.current_stream()._native
    if buffer.nbytes:
        on._context.launch("pack", run, [], [buffer], stream, bytes=read + buffer.nbytes, flops=0.0)
    return Weights(on, buffer, format, (outputs, inputs))


def _is_made_there(data: Any, format: str, scales: Any) -> bool:
    """Whether a GPU makes the weights: of numbers, in a format that files do not have."""
    if format not in (*BYTES, "int4") or scales is not None or isinstance(data, list):
        return False
    return isinstance(data, Array) or np.asarray(data).dtype == np.float32


def _sources(data: Any, format: str, outputs: int, inputs: int) -> list[packing.Stored]:
    """The bytes of the format, from bytes of it or from numbers."""
    if isinstance(data, list):
        sources: list[packing.Stored] = [memoryview(part).cast("B") for part in data]
    else:
        sources = [_stored(data, format, outputs, inputs)]
    given = sum(source.nbytes for source in sources)
    if format in BLOCKS:
        values, size = BLOCKS[format]
        if inputs % values:
            raise ShapeError(
                f"pack: expected inputs in multiples of {values} for {format}, got {inputs}"
            )
        expected = outputs * (inputs // values) * size
    else:
        size = 1 if format in BYTES else DENSE[format]
        expected = outputs * inputs * size
    if format in BYTES and inputs % 32:
        raise ShapeError(f"pack: expected inputs in multiples of 32 for {format}, got {inputs}")
    row_bytes = expected // max(outputs, 1)
    if given != expected or any(row_bytes and one.nbytes % row_bytes for one in sources):
        got = " and ".join(str(source.nbytes) for source in sources)
        raise ShapeError(
            f"pack: expected {expected} bytes for {outputs} x {inputs} of {format}, got {got}"
        )
    return sources


def _stored(data: Any, format: str, outputs: int, inputs: int) -> packing.Stored:
    if isinstance(data, memoryview) and data.format == "B":
        return data.cast("B")
    given = data.to_numpy() if isinstance(data, Array) else np.asarray(data)
    if given.dtype == np.float32 and format not in ("f32", *BYTES):
        given = _rounded(np.ascontiguousarray(given), format, outputs, inputs)
    raw: npt.NDArray[Any] = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    return raw


def _rounded(
    values: npt.NDArray[np.float32], format: str, outputs: int, inputs: int
) -> npt.NDArray[Any]:
    from assay import xp
    from assay.ops.quantization import quantize

    if values.size != outputs * inputs:
        raise ShapeError(
            f"pack: expected {outputs} x {inputs} numbers, got shape {tuple(values.shape)}"
        )
    if values.size == 0:
        return np.empty(0, np.uint8)
    if format in BLOCKS and inputs % BLOCKS[format][0]:
        raise ShapeError(
            f"pack: expected inputs in multiples of {BLOCKS[format][0]} for {format}, got {inputs}"
        )
    return quantize(xp.asarray(values, copy=True), format).to_numpy()


def _scales(scales: Any, format: str, outputs: int) -> npt.NDArray[np.float32] | None:
    if format not in BYTES:
        if scales is not None:
            raise InputError(f"pack: expected no scales for {format}, got some")
        return None
    if scales is None:
        raise InputError(f"pack: expected a scale for each output of {format} weights, got none")
    given = np.ascontiguousarray(scales)
    if given.dtype != np.float32:
        raise DTypeError(f"pack: expected scales of float32, got {given.dtype}")
    if given.shape != (outputs,):
        raise ShapeError(f"pack: expected scales of shape ({outputs},), got {given.shape}")
    return given
