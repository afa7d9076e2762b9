"""Layers that Kokoro is made of, over arrays of shape (1, channels, length) or (length, channels)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay.runtime import Array, Device, transfer
from assay.runtime.layout import Layout, row_major
from assay.speech.kokoro.onnx_names import Parameters

_NORM_EPSILON: Final = 1e-5
_HALF: Final = math.sqrt(0.5)


class Styles:
    """Gamma and beta of all adaptive norms for a style: one product, then views of it."""

    def __init__(self, device: Device) -> None:
        """Start without norms; `Builder.style` adds them."""
        self._device = device
        self._weights: list[npt.NDArray[np.float32]] = []
        self._biases: list[npt.NDArray[np.float32]] = []
        self._starts = [0]
        self._layer: LinearLayer | None = None

    def add(self, weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> int:
        """The number of a norm with these weights."""
        self._weights.append(weight)
        self._biases.append(bias)
        self._starts.append(self._starts[-1] + len(bias))
        return len(self._weights) - 1

    def of(self, style: npt.NDArray[np.float32]) -> Style:
        """Gamma and beta of every norm for a style."""
        layer = self.packed()
        row = transfer.store("style", self._device, np.ascontiguousarray(style)[None])
        return Style(layer.forward(row, "style"), self._starts)

    def packed(self) -> LinearLayer:
        """The weights of all norms; to be called before a task speaks, inside of which nothing is packed."""
        if self._layer is None:
            weights = np.concatenate(self._weights)
            packed = ops.pack(weights, "f32", (weights.shape[0], weights.shape[1]), self._device)
            bias = transfer.store("style.bias", self._device, np.concatenate(self._biases))
            self._layer = LinearLayer(packed, bias)
        return self._layer


class Style(NamedTuple):
    """Gamma and beta of every norm."""

    values: Array
    starts: list[int]

    def of(self, norm: int) -> tuple[Array, Array]:
        """Gamma and beta of a norm, each (1, channels)."""
        first, last = self.starts[norm], self.starts[norm + 1]
        middle = (first + last) // 2
        return self._part(first, middle), self._part(middle, last)

    def _part(self, first: int, last: int) -> Array:
        shape = (1, last - first)
        size = self.values.dtype.itemsize
        offset = self.values.offset + first * size
        return self.values.view(Layout(shape, row_major(shape, size), offset))


class Convolution(NamedTuple):
    """A convolution over samples."""

    weight: Array
    bias: Array | None
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    precision: str = "highest"

    def forward(self, x: Array, label: str, *, residual: Array | None = None) -> Array:
        """The convolution of `x`, plus `residual`."""
        return ops.conv1d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            residual=residual,
            precision=self.precision,
            label=label,
        )


class Upsampling(NamedTuple):
    """A transposed convolution over samples."""

    weight: Array
    bias: Array | None
    stride: int
    padding: int
    output_padding: int = 0
    groups: int = 1
    precision: str = "highest"

    def forward(self, x: Array, label: str) -> Array:
        """The transposed convolution of `x`."""
        return ops.conv_transpose1d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            groups=self.groups,
            precision=self.precision,
            label=label,
        )


class LinearLayer(NamedTuple):
    """A linear layer with bias."""

    weights: ops.Weights
    bias: Array

    def forward(
        self, x: Array, label: str, *, activation: str | None = None, residual: Array | None = None
    ) -> Array:
        """activation(x @ weights.T + bias) + residual."""
        return ops.linear(
            x, self.weights, bias=self.bias, activation=activation, residual=residual, label=label
        )


class Recurrence(NamedTuple):
    """A bidirectional LSTM."""

    forward_weights: ops.LSTMWeights
    backward_weights: ops.LSTMWeights

    def forward(self, x: Array, label: str) -> Array:
        """The states of both directions over `x`, (length, inputs)."""
        return ops.bidirectional_lstm(x, self.forward_weights, self.backward_weights, label=label)[
            0
        ]


class StyledBlock(NamedTuple):
    """Two convolutions behind adaptive norms, beside a shortcut; may double the length."""

    norms: tuple[int, int]
    convolutions: tuple[Convolution, Convolution]
    pool: Upsampling | None
    shortcut: Convolution | None

    def forward(self, x: Array, style: Style, label: str) -> Array:
        """The block over `x`."""
        inner = ops.adain(
            x, *style.of(self.norms[0]), _NORM_EPSILON, slope=0.2, label=f"{label}.norm1"
        )
        if self.pool is not None:
            inner = self.pool.forward(inner, f"{label}.pool")
        if self.shortcut is not None:
            x = self.shortcut.forward(x, f"{label}.shortcut")
        if self.pool is not None:
            x = xp.repeat(x, 2, axis=2)
        inner = self.convolutions[0].forward(inner, f"{label}.conv1")
        inner = ops.adain(
            inner, *style.of(self.norms[1]), _NORM_EPSILON, slope=0.2, label=f"{label}.norm2"
        )
        summed = self.convolutions[1].forward(inner, f"{label}.conv2", residual=x)
        return xp.multiply(summed, _HALF)


class SnakeBlock(NamedTuple):
    """Pairs of convolutions, the first of each dilated, behind adaptive norms with snake."""

    norms: tuple[tuple[int, int], ...]
    alphas: tuple[tuple[Array, Array], ...]
    convolutions: tuple[tuple[Convolution, Convolution], ...]

    def forward(self, x: Array, style: Style, label: str) -> Array:
        """The block over `x`."""
        for index, (norms, alphas, convolutions) in enumerate(
            zip(self.norms, self.alphas, self.convolutions, strict=True)
        ):
            inner = x
            for half in range(2):
                inner = ops.adain(
                    inner,
                    *style.of(norms[half]),
                    _NORM_EPSILON,
                    alpha=alphas[half],
                    label=f"{label}.norm{half + 1}.{index}",
                )
                inner = convolutions[half].forward(
                    inner, f"{label}.conv{half + 1}.{index}", residual=x if half else None
                )
            x = inner
        return x


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes layers from parameters, by the names of the PyTorch definition."""

    parameters: Parameters
    device: Device
    precision: str = "highest"
    """Of convolutions."""
    styles: Styles = field(init=False)

    def __post_init__(self) -> None:
        """Start without adaptive norms."""
        object.__setattr__(self, "styles", Styles(self.device))

    def with_precision(self, precision: str) -> Builder:
        """One for convolutions of this precision, whose norms are added to the same styles."""
        other = Builder(self.parameters, self.device, precision)
        object.__setattr__(other, "styles", self.styles)
        return other

    def array(self, name: str) -> Array:
        """A parameter on the device."""
        return transfer.store(name, self.device, np.ascontiguousarray(self.parameters[name]))

    def style(self, name: str) -> int:
        """The number of an adaptive norm."""
        return self.styles.add(
            self.parameters[f"{name}.fc.weight"], self.parameters[f"{name}.fc.bias"]
        )

    def convolution(
        self, name: str, *, stride: int = 1, padding: int | None = None, dilation: int = 1
    ) -> Convolution:
        """A convolution; without a padding, its output is as long as its input."""
        weight = self.array(f"{name}.weight")
        if padding is None:
            padding = dilation * (weight.shape[2] - 1) // 2
        return Convolution(weight, self._bias(name), stride, padding, dilation, self.precision)

    def upsampling(
        self, name: str, *, stride: int, padding: int, output_padding: int = 0, groups: int = 1
    ) -> Upsampling:
        """A transposed convolution."""
        weight = self.array(f"{name}.weight")
        return Upsampling(
            weight, self._bias(name), stride, padding, output_padding, groups, self.precision
        )

    def linear(self, name: str) -> LinearLayer:
        """A linear layer."""
        weight = np.ascontiguousarray(self.parameters[f"{name}.weight"])
        packed = ops.pack(weight, "f32", (weight.shape[0], weight.shape[1]), self.device)
        return LinearLayer(packed, self.array(f"{name}.bias"))

    def recurrence(self, name: str) -> Recurrence:
        """A bidirectional LSTM."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        directions = [
            ops.LSTMWeights(*(self.array(f"{name}.{kind}_l0{suffix}") for kind in kinds))
            for suffix in ("", "_reverse")
        ]
        return Recurrence(directions[0], directions[1])

    def styled_block(self, name: str) -> StyledBlock:
        """A block with two adaptive norms."""
        pool = None
        if f"{name}.pool.weight" in self.parameters:
            channels = len(self.parameters[f"{name}.pool.weight"])
            pool = self.upsampling(
                f"{name}.pool", stride=2, padding=1, output_padding=1, groups=channels
            )
        shortcut = None
        if f"{name}.conv1x1.weight" in self.parameters:
            shortcut = self.convolution(f"{name}.conv1x1")
        return StyledBlock(
            (self.style(f"{name}.norm1"), self.style(f"{name}.norm2")),
            (self.convolution(f"{name}.conv1"), self.convolution(f"{name}.conv2")),
            pool,
            shortcut,
        )

    def snake_block(self, name: str, dilations: Sequence[int]) -> SnakeBlock:
        """A block of the generator."""
        indices = range(len(dilations))
        return SnakeBlock(
            tuple(
                (self.style(f"{name}.adain1.{index}"), self.style(f"{name}.adain2.{index}"))
                for index in indices
            ),
            tuple(
                (
                    xp.reshape(self.array(f"{name}.alpha1.{index}"), (-1,)),
                    xp.reshape(self.array(f"{name}.alpha2.{index}"), (-1,)),
                )
                for index in indices
            ),
            tuple(
                (
                    self.convolution(f"{name}.convs1.{index}", dilation=dilations[index]),
                    self.convolution(f"{name}.convs2.{index}"),
                )
                for index in indices
            ),
        )

    def _bias(self, name: str) -> Array | None:
        return self.array(f"{name}.bias") if f"{name}.bias" in self.parameters else None
