"""Layers of a Whisper model in device memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import ops
from assay.errors import ShapeError
from assay.lazy_import import np
from assay.runtime import Array, Device, transfer
from assay.runtime.layout import Layout, row_major
from assay.speech.whisper.files import WhisperFiles

if TYPE_CHECKING:
    import numpy.typing as npt

_EPSILON = 1e-5
"""Of PyTorch's LayerNorm, which Whisper was trained with."""


class Linear(NamedTuple):
    """A linear layer."""

    weights: ops.Weights
    bias: Array | None

    def forward(
        self, x: Array, label: str, *, activation: str | None = None, residual: Array | None = None
    ) -> Array:
        """activation(x @ weights.T + bias) + residual."""
        return ops.linear(
            x, self.weights, bias=self.bias, activation=activation, residual=residual, label=label
        )


class Norm(NamedTuple):
    """A LayerNorm."""

    weight: Array
    bias: Array

    def forward(self, x: Array, label: str) -> Array:
        """The norm of each row."""
        return ops.layer_norm(x, self.weight, self.bias, _EPSILON, label=label)


class Mlp(NamedTuple):
    """Two linear layers with a GELU between, added to their input."""

    norm: Norm
    up: Linear
    down: Linear

    def forward(self, x: Array, label: str) -> Array:
        """The sum of `x` and the layers' output."""
        inner = self.norm.forward(x, f"{label}.mlp.norm")
        inner = self.up.forward(inner, f"{label}.mlp.up", activation="gelu")
        return self.down.forward(inner, f"{label}.mlp.down", residual=x)


def heads_of(x: Array, heads: int) -> Array:
    """Rows as heads, without a copy."""
    rows, width = x.shape
    return view_as(x, (rows, heads, width // heads))


def view_as(x: Array, shape: tuple[int, ...]) -> Array:
    """A contiguous array in another shape, without a copy."""
    return x.view(Layout(shape, row_major(shape, x.dtype.itemsize), x.offset))


class Loader:
    """Puts tensors of files into device memory."""

    def __init__(self, files: WhisperFiles, device: Device) -> None:
        """Read from `files` into the memory of `device`."""
        self.files = files
        self.device = device

    def vector(self, name: str) -> Array:
        """A vector, or a table of rows, in single precision."""
        values = np.ascontiguousarray(self.files.tensor(name), dtype=np.float32)
        return transfer.store(name, self.device, values)

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
        return Linear(
            weights, transfer.store(bias, self.device, np.ascontiguousarray(values.reshape(-1)))
        )

    def matrix(
        self,
        name: str,
        change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda values: values,
    ) -> ops.Weights:
        """A matrix of one row an output."""
        values = np.ascontiguousarray(change(self.files.tensor(name)))
        if values.ndim != 2:
            raise ShapeError(f"{name}: expected a matrix, got shape {values.shape}")
        format = "f16" if values.dtype == np.float16 else "f32"
        outputs, inputs = values.shape
        return ops.pack(values, format, (outputs, inputs), self.device)

    def convolution(self, name: str) -> Linear:
        """A convolution as a linear layer over the columns of its kernel, in time order."""
        kernel = self.files.tensor(f"{name}.weight")
        outputs, inputs, width = kernel.shape
        columns = np.ascontiguousarray(kernel.transpose(0, 2, 1)).reshape(outputs, width * inputs)
        format = "f16" if columns.dtype == np.float16 else "f32"
        weights = ops.pack(columns, format, (outputs, width * inputs), self.device)
        bias = np.array(self.files.tensor(f"{name}.bias"), np.float32).reshape(-1)
        return Linear(weights, transfer.store(name, self.device, bias))
