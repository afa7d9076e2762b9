"""From the tensors of a file to weights in a device's memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from assay import ops
from assay.engine.loading import ModelFiles, Tensor
from assay.engine.step import activation_type
from assay.errors import UnsupportedError
from assay.runtime import Array, Device, launching

DENSE = ("f32", "f16", "bf16")
"""Formats that hold plain numbers."""

MIXED = "f16"
"""What matrices of several formats become when they are joined into one."""


ON_GPU = ("bf16", "int8")
"""Formats that GPUs multiply activations of bfloat16 by; others become the first."""


UPLOADERS = 4
"""Threads that copy weights to a GPU at once."""

PIECE_BYTES = 16 << 20
"""Bytes that one of them copies at a time."""


class WeightSource:
    """Gives a model its weights: arranged for the device, joined where one product serves several.

    `format` is what matrices are stored in; None keeps the format of the file.
    """

    def __init__(self, files: ModelFiles, device: Device, format: str | None) -> None:
        """Read from these files for this device."""
        self.files = files
        self.device = device
        self.format = format
        self.nbytes = 0
        """Bytes of all matrices so far, each counted once."""
        self.notes: list[str] = []
        self._tables: dict[str, ops.Weights] = {}
        self._threads = ThreadPoolExecutor(UPLOADERS, "weights")

    def matrix(self, *names: str, looked_up: bool = False) -> ops.Weights:
        """The matrices of these names, one below the other.

        Those that are looked up by row have to be dense on a GPU.
        """
        tensors = [self._tensor(f"{name}.weight") for name in names]
        inputs = _shape(tensors[0])[1]
        outputs = sum(_shape(tensor)[0] for tensor in tensors)
        formats = {tensor.format for tensor in tensors}
        if len(formats) > 1:
            note = f"{', '.join(sorted(formats))} joined as {MIXED}"
            if self.format is None and note not in self.notes:
                self.notes.append(note)
        format = self.format or (formats.pop() if len(formats) == 1 else MIXED)
        if self.device.kind == "cuda" and format not in ON_GPU[: 1 if looked_up else None]:
            note = f"{format} computed on as {ON_GPU[0]}"
            if note not in self.notes:
                self.notes.append(note)
            format = ON_GPU[0]
        same = all(tensor.format == format and not tensor.transposed for tensor in tensors)
        if same and self.device.kind == "cuda":
            weights = self._upload(tensors, format, (outputs, inputs))
        elif same:
            stored = [tensor.bytes for tensor in tensors]
            weights = ops.pack(stored, format, (outputs, inputs), self.device)
        else:
            values = np.concatenate([self._values(tensor) for tensor in tensors])
            weights = pack_values(values, format, self.device)
        self.nbytes += weights.nbytes
        return weights

    def table(self, name: str) -> ops.Weights:
        """A matrix whose rows are looked up; asked for twice, it is the same one."""
        if name not in self._tables:
            self._tables[name] = self.matrix(name, looked_up=True)
        return self._tables[name]

    def vector(self, *names: str) -> Array:
        """Vectors, one after the other, of the type of activations."""
        values = np.concatenate([self._tensor(name).to_float32() for name in names])
        return launching.store("weights", self.device, values, activation_type(self.device))

    def optional_vector(self, *names: str) -> Array | None:
        """Vectors that a model of this configuration may not have."""
        if names[0] not in self.files.tensors:
            return None
        return self.vector(*names)

    def _upload(self, tensors: list[Tensor], format: str, shape: tuple[int, int]) -> ops.Weights:
        """Copy matrices from where they are mapped to one below the other in device memory."""
        sources = [np.frombuffer(tensor.bytes, np.uint8) for tensor in tensors]
        buffer = self.device.allocate(sum(source.nbytes for source in sources))
        context = self.device._context
        pieces, offset = [], 0
        for source in sources:
            for first in range(0, source.nbytes, PIECE_BYTES):
                pieces.append((source[first : first + PIECE_BYTES], offset + first))
            offset += source.nbytes
        # Staging is a copy on the host, and pages of the file may have to be found first.
        uploads = self._threads.map(
            lambda piece: context.upload("weights", piece[0], buffer, piece[1]), pieces
        )
        for _ in uploads:
            pass
        return ops.Weights(self.device, buffer, format, shape)

    def _tensor(self, name: str) -> Tensor:
        return self.files.tensors[name]

    def _values(self, tensor: Tensor) -> npt.NDArray[np.float32]:
        if tensor.format in DENSE:
            values = tensor.to_float32()
            return np.ascontiguousarray(values.T) if tensor.transposed else values
        shape = _shape(tensor)
        packed = ops.pack(tensor.bytes, tensor.format, shape, "cpu")
        values = packed.dequantize().to_numpy().copy()
        packed.free()
        return values


def pack_values(values: npt.NDArray[np.float32], format: str, device: Device) -> ops.Weights:
    """Numbers as weights of a format; int8 has one scale for each row."""
    shape = (values.shape[0], values.shape[1])
    if format != "int8":
        return ops.pack(values, format, shape, device)
    scales = np.abs(values).max(axis=1) / np.float32(127)
    divisors = np.where(scales > 0, scales, np.float32(1))
    rounded = np.rint(values / divisors[:, None]).astype(np.int8)
    return ops.pack(rounded, format, shape, device, scales=scales.astype(np.float32))


def _shape(tensor: Tensor) -> tuple[int, int]:
    if len(tensor.shape) != 2:
        raise UnsupportedError(
            f'tensor "{tensor.name}": expected a matrix, got shape {list(tensor.shape)}'
        )
    rows, columns = tensor.shape
    return (columns, rows) if tensor.transposed else (rows, columns)
