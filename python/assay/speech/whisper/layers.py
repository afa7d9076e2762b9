"""Layers of a Whisper model in device memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay import ops
from assay.errors import ShapeError
from assay.lazy_import import np
from assay.runtime import Array, Device, allocation, dtypes, transfer
from assay.runtime.dtypes import DType
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
        self,
        x: Array,
        label: str,
        *,
        activation: str | None = None,
        residual: Array | None = None,
        out: Array | None = None,
    ) -> Array:
        """activation(x @ weights.T + bias) + residual."""
        return ops.linear(
            x,
            self.weights,
            bias=self.bias,
            activation=activation,
            residual=residual,
            out=out,
            label=label,
        )


class Norm(NamedTuple):
    """A LayerNorm."""

    weight: Array
    bias: Array

    def forward(self, x: Array, label: str, *, out: Array | None = None) -> Array:
        """The norm of each row."""
        return ops.layer_norm(x, self.weight, self.bias, _EPSILON, out=out, label=label)


class Buffers:
    """Memory of results by name. A step that takes all of its results from here can be captured: it allocates none."""

    def __init__(self, device: Device, dtype: DType) -> None:
        """Memory of a device; results are of this type if nothing else is said."""
        self._device: Final = device
        self._dtype: Final = dtype
        self._arrays: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DType | None = None) -> Array:
        """The array of this name, allocated when it is first asked for."""
        if name not in self._arrays:
            self._arrays[name] = allocation.empty(self._device, shape, dtype or self._dtype, name)
        return self._arrays[name]


def taken(buffers: Buffers | None, name: str, shape: tuple[int, ...]) -> Array | None:
    """A buffer for a result; None, without buffers, lets the operation allocate."""
    return None if buffers is None else buffers.take(name, shape)


class Mlp(NamedTuple):
    """Two linear layers with a GELU between, added to their input."""

    norm: Norm
    up: Linear
    down: Linear

    def forward(self, x: Array, label: str, buffers: Buffers | None = None) -> Array:
        """The sum of `x` and the layers' output."""
        normed = taken(buffers, "norm", x.shape)
        normed = self.norm.forward(x, f"{label}.mlp.norm", out=normed)
        inner = taken(buffers, "mlp.up", (x.shape[0], self.up.weights.shape[0]))
        inner = self.up.forward(normed, f"{label}.mlp.up", activation="gelu", out=inner)
        out = taken(buffers, "mlp", x.shape)
        return self.down.forward(inner, f"{label}.mlp.down", residual=x, out=out)


def heads_of(x: Array, heads: int) -> Array:
    """Rows as heads, without a copy."""
    rows, width = x.shape
    return view_as(x, (rows, heads, width // heads))


def view_as(x: Array, shape: tuple[int, ...]) -> Array:
    """A contiguous array in another shape, without a copy."""
    return x.view(Layout(shape, row_major(shape, x.dtype.itemsize), x.offset))


def activation_dtype(device: Device) -> DType:
    """Single precision, or half where the device's kernels take it: Whisper's weights were published in half."""
    takes_half = dtypes.float16 in device.capabilities.activation_dtypes
    return dtypes.float16 if takes_half else dtypes.float32


class Loader:
    """Puts tensors of files into device memory."""

    def __init__(self, files: WhisperFiles, device: Device) -> None:
        """Read from `files` into the memory of `device`."""
        self.files = files
        self.device = device
        self.dtype: Final = activation_dtype(device)

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
        """A matrix as stored, or of 16 bits where activations are."""
        if self.dtype is dtypes.float16:
            values = values.astype(np.float16, copy=False)
        format = "f16" if values.dtype == np.float16 else "f32"
        outputs, inputs = values.shape
        return ops.pack(values, format, (outputs, inputs), self.device)

    def convolution(self, name: str) -> Linear:
        """A convolution as a linear layer over the columns of its kernel, in time order."""
        kernel = self.files.tensor(f"{name}.weight")
        outputs, inputs, width = kernel.shape
        columns = np.ascontiguousarray(kernel.transpose(0, 2, 1)).reshape(outputs, width * inputs)
        bias = np.array(self.files.tensor(f"{name}.bias"), np.float32).reshape(-1)
        return Linear(self._packed(columns), self._stored(name, bias))
