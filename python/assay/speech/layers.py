"""Layers that models of speech share, in device memory."""

from __future__ import annotations

from typing import Final, NamedTuple

from assay import ops
from assay.runtime import Array, Device, allocation
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major

_EPSILON: Final = 1e-5
"""Of PyTorch's LayerNorm, which Whisper and Moonshine were trained with."""


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
    bias: Array | None

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
    """Two linear layers with an activation between, added to their input."""

    norm: Norm
    up: Linear
    down: Linear
    activation: str = "gelu"

    def forward(self, x: Array, label: str, buffers: Buffers | None = None) -> Array:
        """The sum of `x` and the layers' output."""
        normed = taken(buffers, "norm", x.shape)
        normed = self.norm.forward(x, f"{label}.mlp.norm", out=normed)
        inner = taken(buffers, "mlp.up", (x.shape[0], self.down.weights.shape[1]))
        inner = self.up.forward(normed, f"{label}.mlp.up", activation=self.activation, out=inner)
        out = taken(buffers, "mlp", x.shape)
        return self.down.forward(inner, f"{label}.mlp.down", residual=x, out=out)


def heads_of(x: Array, heads: int) -> Array:
    """Rows as heads, without a copy."""
    rows, width = x.shape
    return view_as(x, (rows, heads, width // heads))


def view_as(x: Array, shape: tuple[int, ...]) -> Array:
    """A contiguous array in another shape, without a copy."""
    return x.view(Layout(shape, row_major(shape, x.dtype.itemsize), x.offset))


def rounded(x: Array, format: str | None, label: str) -> Array:
    """An array in another format, or as it is."""
    return x if format is None else ops.quantize(x, format, label=label)
