"""From the tensors of a file to weights in device memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from assay import ops
from assay.engine.architectures.decoder import StackedLinear
from assay.engine.loading import ModelFiles, Tensor, dequantize, exact_q8_0
from assay.engine.loading.tensor_values import DENSE, tensor_values
from assay.engine.models.stacked_experts import (
    PACKED_FORMAT,
    stacked_bias,
    stacked_blocks,
    stacked_values,
    stored_format,
)
from assay.engine.models.workspace import activation_type
from assay.errors import UnsupportedError
from assay.lazy_import import np
from assay.ops.formats import INT4_GROUP, PER_CHANNEL
from assay.runtime import Array, Device, allocation, dtypes, transfer
from assay.runtime.dtypes import bfloat16
from assay.runtime.layout import Layout, row_major

if TYPE_CHECKING:
    import numpy.typing as npt

MIXED_FORMAT = "f16"
"""The format of matrices whose format has no kernels, or whose fused parts have different ones."""


GPU_DENSE = "bf16"
"""The dense format that GPU kernels multiply bfloat16 activations by."""

QUANTIZED_ON_GPU = (*PER_CHANNEL, "int4")
"""Formats that a GPU quantizes to from bfloat16 in its memory."""

UPLOAD_THREADS = 4
"""Threads that upload weights to a GPU concurrently."""

UPLOAD_CHUNK_BYTES = 16 << 20
"""Bytes of one copy."""


Change = Callable[["npt.NDArray[np.float32]"], "npt.NDArray[np.float32]"]
"""What is done to values before they are stored on the device."""


class WeightSource:
    """Loads weights into device memory; matrices with the same input are fused into one.

    `format` is the format of the matrices; None keeps that of the file.
    """

    def __init__(self, files: ModelFiles, device: Device, format: str | None) -> None:
        """Load from these files to this device."""
        self.files = files
        self.device = device
        self.format = format
        self.nbytes = 0
        """Bytes of all matrices loaded so far, each counted once."""
        self.notes: list[str] = []
        self._tables: dict[str, ops.Weights] = {}

    def matrix(
        self,
        *names: str,
        gathered: bool = False,
        unquantized: bool = False,
        change: Change | None = None,
    ) -> ops.Weights:
        """The matrices of these names, concatenated by rows, and changed before they are packed.

        A matrix that is gathered by row (an embedding) has to be dense on a GPU. One that stays
        `unquantized` keeps the file's format, whatever that of the others.
        """
        asked = None if unquantized else self.format
        tensors = [self._tensor(f"{name}.weight") for name in names]
        inputs = _shape(tensors[0])[1]
        outputs = sum(_shape(tensor)[0] for tensor in tensors)
        formats = {tensor.format for tensor in tensors}
        as_stored = len(formats) == 1 and formats <= {*self.device.capabilities.weight_formats}
        keeps_format = asked is None and change is None
        if keeps_format and not as_stored and _is_exact_as_q8_0(tensors):
            return self._as_q8_0(tensors, (outputs, inputs), gathered=gathered)
        if len(formats) > 1 and asked is None:
            self._note(f"{', '.join(sorted(formats))} fused as {MIXED_FORMAT}")
        format = asked or (formats.pop() if len(formats) == 1 else MIXED_FORMAT)
        computed = any(tensor.compute for tensor in tensors)
        has_kernel = format in self.device.capabilities.weight_formats
        substitutes = computed and asked is None and format not in DENSE
        if (format in dequantize.FORMATS and not has_kernel) or substitutes:
            self._note(f"{format} computed as {MIXED_FORMAT}")
            format = MIXED_FORMAT
        on_gpu = self.device.capabilities.packs_weights_on_device
        if on_gpu and not _has_gpu_kernel(self.device, format, inputs, gathered):
            reason = ", as rows are gathered from it" if gathered and format not in DENSE else ""
            self._note(f"{format} computed as {GPU_DENSE}{reason}")
            format = GPU_DENSE
        stored_as = {
            None if tensor.transposed or tensor.compute else tensor.format for tensor in tensors
        }
        same = stored_as == {format}
        if change is not None:
            values = change(np.concatenate([tensor_values(tensor) for tensor in tensors]))
            weights = pack_values(values, format, self.device)
        elif on_gpu and stored_as == {GPU_DENSE} and format in (GPU_DENSE, *QUANTIZED_ON_GPU):
            weights = self._upload(tensors, GPU_DENSE, (outputs, inputs))
            if format != GPU_DENSE:
                weights = _quantize_on_device(weights, format)
        elif same:
            stored = [tensor.bytes for tensor in tensors]
            weights = ops.pack(stored, format, (outputs, inputs), self.device)
        else:
            values = np.concatenate([tensor_values(tensor) for tensor in tensors])
            weights = pack_values(values, format, self.device)
        self.nbytes += weights.nbytes
        return weights

    def runs(self, *names: str) -> list[tuple[str, ...]]:
        """The matrices as groups that are fused: neighbors of one format, each with kernels.

        Matrices of different formats are one group where they cannot stay as stored: another format
        is asked for, one of them has no kernels, or Q8_0 holds the values of all; and on GPUs.
        """
        tensors = [self._tensor(f"{name}.weight") for name in names]
        found: list[tuple[str, ...]] = []
        for name, tensor in zip(names, tensors, strict=True):
            if found and self._tensor(f"{found[-1][0]}.weight").format == tensor.format:
                found[-1] = (*found[-1], name)
            else:
                found.append((name,))
        # On an H200 several products and a gather are slower than one product of bf16.
        on_gpu = self.device.capabilities.packs_weights_on_device
        stays = self.format is None and all(self._has_kernel(tensor) for tensor in tensors)
        stays = stays and not on_gpu
        return found if stays and not _is_exact_as_q8_0(tensors) else [names]

    def _has_kernel(self, tensor: Tensor) -> bool:
        """Whether a matrix is computed in the format of the file."""
        if tensor.compute is not None or tensor.transposed:
            return False
        capabilities = self.device.capabilities
        if capabilities.packs_weights_on_device:
            return _has_gpu_kernel(self.device, tensor.format, _shape(tensor)[1], gathered=False)
        return tensor.format in capabilities.weight_formats

    def _as_q8_0(
        self, tensors: list[Tensor], shape: tuple[int, int], *, gathered: bool
    ) -> ops.Weights:
        """Fuse matrices whose blocks Q8_0 holds exactly."""
        others = sorted({tensor.format for tensor in tensors} - {exact_q8_0.FORMAT})
        if self.device.capabilities.packs_weights_on_device and not _has_gpu_kernel(
            self.device, exact_q8_0.FORMAT, shape[1], gathered
        ):
            self._note(f"{', '.join(others)} computed as {GPU_DENSE}")
            values = np.concatenate([tensor_values(tensor) for tensor in tensors])
            weights = pack_values(values, GPU_DENSE, self.device)
        else:
            self._note(f"{', '.join(others)} computed as {exact_q8_0.FORMAT}, which is exact")
            stored = [exact_q8_0.as_q8_0(tensor.bytes, tensor.format) for tensor in tensors]
            weights = ops.pack(stored, exact_q8_0.FORMAT, shape, self.device)
        self.nbytes += weights.nbytes
        return weights

    def stacked(self, linear: StackedLinear) -> tuple[ops.Weights, Array]:
        """The matrices of all experts, one below the other, and their biases, a row for each."""
        tensors = self.files.tensors
        bias = transfer.store(
            "weights", self.device, stacked_bias(linear, tensors), activation_type(self.device)
        )
        stored = stored_format(linear, tensors)
        if stored == PACKED_FORMAT and self.format is None:
            # Every device has kernels for it.
            shape = (linear.experts * linear.outputs, linear.inputs)
            weights = ops.pack(stacked_blocks(linear, tensors), PACKED_FORMAT, shape, self.device)
            self.nbytes += weights.nbytes
            return weights, bias
        format = self.format or (stored if stored in DENSE else MIXED_FORMAT)
        if self.device.capabilities.packs_weights_on_device and format not in QUANTIZED_ON_GPU:
            format = GPU_DENSE
        if stored not in DENSE:
            self._note(f"{stored} computed as {format}")
        weights = pack_values(stacked_values(linear, tensors), format, self.device)
        self.nbytes += weights.nbytes
        return weights, bias

    def table(self, name: str) -> ops.Weights:
        """A matrix that is gathered by row; the same name gives the same matrix."""
        if name not in self._tables:
            self._tables[name] = self.matrix(name, gathered=True)
        return self._tables[name]

    def float_vector(self, name: str) -> Array:
        """A vector in single precision."""
        return transfer.store("weights", self.device, self._tensor(name).to_float32().reshape(-1))

    def vector(self, *names: str, offset: float = 0.0, change: Change | None = None) -> Array:
        """Concatenated vectors, in the data type of activations, with a number added to each."""
        tensors = [self._tensor(name) for name in names]
        kind = activation_type(self.device)
        is_stored = all(tensor.format == "f32" for tensor in tensors)
        stored = is_stored and not offset and change is None
        if not stored or kind is not dtypes.float32:
            values = np.concatenate([tensor.to_float32() for tensor in tensors]) + np.float32(
                offset
            )
            values = values if change is None else change(values)
            return transfer.store("weights", self.device, values, kind)
        count = sum(math.prod(tensor.shape) for tensor in tensors)
        out = allocation.empty(self.device, (count,), kind, "weights")
        start = 0
        for tensor in tensors:
            self.device.upload("weights", tensor.bytes, out.buffer, start)
            start += tensor.bytes.nbytes
        return out

    def _upload(self, tensors: list[Tensor], format: str, shape: tuple[int, int]) -> ops.Weights:
        """Upload mapped matrices into one device buffer, concatenated by rows.

        The records of the copies are labeled with the names of the tensors.
        """
        from concurrent.futures import ThreadPoolExecutor

        sources = [(tensor.name, np.frombuffer(tensor.bytes, np.uint8)) for tensor in tensors]
        buffer = self.device.allocate(sum(source.nbytes for _, source in sources))
        chunks, offset = [], 0
        for name, source in sources:
            for first in range(0, source.nbytes, UPLOAD_CHUNK_BYTES):
                chunks.append((name, source[first : first + UPLOAD_CHUNK_BYTES], offset + first))
            offset += source.nbytes
        # Staging copies on the host, which may fault in pages of the file: several threads overlap.
        with ThreadPoolExecutor(UPLOAD_THREADS, "weights") as threads:
            uploads = threads.map(
                lambda chunk: self.device.upload(chunk[0], chunk[1], buffer, chunk[2]), chunks
            )
            for _ in uploads:
                pass
        return ops.Weights(self.device, buffer, format, shape)

    def _note(self, note: str) -> None:
        """Say once what is computed in another format than the file's."""
        if note not in self.notes:
            self.notes.append(note)

    def _tensor(self, name: str) -> Tensor:
        return self.files.tensors[name]


def _is_exact_as_q8_0(tensors: list[Tensor]) -> bool:
    """Whether matrices that need another format than their own have all their values in Q8_0."""
    formats = {tensor.format for tensor in tensors}
    if len(formats) == 1 and not formats <= dequantize.FORMATS.keys():
        return False
    return formats <= set(exact_q8_0.FORMATS) and not any(
        tensor.transposed or tensor.compute for tensor in tensors
    )


def _has_gpu_kernel(device: Device, format: str, inputs: int, gathered: bool) -> bool:
    """Whether there is a GPU kernel for a matrix; rows are gathered from dense ones only."""
    quantized = format in device.capabilities.weight_formats and format not in DENSE
    if gathered or not quantized:
        return format == GPU_DENSE
    return format != "int4" or inputs % INT4_GROUP == 0


def _quantize_on_device(weights: ops.Weights, format: str) -> ops.Weights:
    """Quantize dense weights in GPU memory."""
    layout = Layout(weights.shape, row_major(weights.shape, 2), 0)
    dense = Array(weights.device, weights.buffer, bfloat16, layout)
    quantized = ops.pack(dense, format, weights.shape, weights.device)
    weights.free()
    return quantized


def pack_values(values: npt.NDArray[np.float32], format: str, device: Device) -> ops.Weights:
    """Quantize values to a format; int8 has one scale for each row."""
    shape = (values.shape[0], values.shape[1])
    if format != "int8" or device.capabilities.packs_weights_on_device:
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
