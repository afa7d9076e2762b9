"""Layers of a Whisper model from its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from assay import ops
from assay.errors import InputError, ShapeError
from assay.lazy_import import np
from assay.ops.formats import BLOCKS
from assay.runtime import Array, Device, dtypes, transfer
from assay.runtime.dtypes import DType
from assay.speech.layers import Linear, Norm
from assay.speech.whisper.files import WhisperFiles

if TYPE_CHECKING:
    import numpy.typing as npt

COMPUTE_TYPES: Final = ("default", "int8")
"""Weights as they are stored, or quantized to 8 bits when they are loaded."""
_INT8_FORMAT: Final = "q8_0"
"""Codes of 8 bits, with a scale for each 32: a scale for each row changes words of tiny.en."""


def activation_dtype(device: Device) -> DType:
    """Single precision, or half where the device's kernels take it: Whisper's weights were published in half."""
    takes_half = dtypes.float16 in device.capabilities.activation_dtypes
    return dtypes.float16 if takes_half else dtypes.float32


def _is_int8(compute_type: str, device: Device) -> bool:
    if compute_type not in COMPUTE_TYPES:
        raise InputError(f"compute_type: expected {' or '.join(COMPUTE_TYPES)}, got {compute_type}")
    if compute_type == "int8" and device.capabilities.is_gpu:
        raise InputError(
            f"compute_type: expected default on {device}, got int8",
            "a GPU computes in half precision; int8 is for the CPU",
        )
    return compute_type == "int8"


class Loader:
    """Puts tensors of files into device memory."""

    def __init__(
        self, files: WhisperFiles, device: Device, compute_type: str = COMPUTE_TYPES[0]
    ) -> None:
        """Read from `files` into the memory of `device`, with weights of a compute type."""
        self.files = files
        self.device = device
        self.dtype: Final = activation_dtype(device)
        self.is_int8: Final = _is_int8(compute_type, device)

    @property
    def attended_format(self) -> str | None:
        """The format of keys and values that many tokens read; None leaves them as they are computed."""
        return "bf16" if self.is_int8 else None

    def vector(self, name: str) -> Array:
        """A vector, or a table of rows, in the precision of activations."""
        return self._stored(name, self.files.tensor(name))

    def _stored(self, name: str, values: npt.NDArray[Any]) -> Array:
        values = np.ascontiguousarray(values, dtype=np.float32)
        return transfer.store(name, self.device, values, self.dtype)

    def norm(self, name: str) -> Norm:
        """A LayerNorm."""
        return Norm(self.vector(f"{name}.weight"), self.vector(f"{name}.bias"))

    def linear(
        self,
        name: str,
        change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda values: values,
    ) -> Linear:
        """A linear layer, its weights as stored; the bias is zero where the file has none."""
        bias = f"{name}.bias"
        weights = self.matrix(f"{name}.weight", change)
        if bias not in self.files.stored:
            return Linear(weights, None)
        values = change(np.asarray(self.files.tensor(bias), dtype=np.float32))
        return Linear(weights, self._stored(bias, values.reshape(-1)))

    def matrix(
        self,
        name: str,
        change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda values: values,
    ) -> ops.Weights:
        """A matrix of one row an output."""
        values = np.ascontiguousarray(change(self.files.tensor(name)))
        if values.ndim != 2:
            raise ShapeError(f"{name}: expected a matrix, got shape {values.shape}")
        return self._packed(values)

    def _packed(self, values: npt.NDArray[Any]) -> ops.Weights:
        """A matrix as stored, or of 16 bits where activations are, or of 8."""
        outputs, inputs = values.shape
        if self.is_int8 and inputs % BLOCKS[_INT8_FORMAT][0] == 0:
            values = np.ascontiguousarray(values, np.float32)
            return ops.pack(values, _INT8_FORMAT, (outputs, inputs), self.device)
        if self.dtype is dtypes.float16:
            values = values.astype(np.float16, copy=False)
        format = "f16" if values.dtype == np.float16 else "f32"
        return ops.pack(values, format, (outputs, inputs), self.device)

    def convolution(self, name: str) -> Linear:
        """A convolution as a linear layer over the columns of its kernel, in time order."""
        kernel = self.files.tensor(f"{name}.weight")
        outputs, inputs, width = kernel.shape
        columns = np.ascontiguousarray(kernel.transpose(0, 2, 1)).reshape(outputs, width * inputs)
        bias = np.array(self.files.tensor(f"{name}.bias"), np.float32).reshape(-1)
        return Linear(self._packed(columns), self._stored(name, bias))
