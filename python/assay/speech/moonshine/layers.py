"""Layers of Moonshine, with the 8-bit arithmetic of its ONNX files.

There activations are quantized to 8 bits by one scale for all rows (DynamicQuantizeLinear), and
multiplied as integers. Here the same integers are multiplied in floating point, where each of them
is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.lazy_import import np
from assay.runtime import Device, transfer
from assay.speech.moonshine.files import MoonshineFile, QuantizedMatrix

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

HEADS: Final = 8
_EPSILON: Final = 1e-5
_ROTATED: Final = 32
"""Numbers of a head that positions rotate, in pairs of neighbors."""
_BASE: Final = 10_000.0
_LANES: Final = 16
"""Numbers in a register."""


class QuantizedRows(NamedTuple):
    """Rows as integers, by the scale that they share."""

    integers: Floats
    scale: np.float32


def quantize(x: Floats) -> QuantizedRows:
    """ONNX's DynamicQuantizeLinear, less the zero point."""
    least = np.minimum(x.min(), np.float32(0))
    most = np.maximum(x.max(), np.float32(0))
    scale = np.float32((most - least) / np.float32(255))
    if scale == 0:
        return QuantizedRows(np.zeros_like(x), np.float32(1))
    zero_point = np.clip(np.rint(-least / scale), 0, 255).astype(np.float32)
    integers = np.clip(np.rint(x / scale) + zero_point, 0, 255) - zero_point
    return QuantizedRows(np.asarray(integers, np.float32), scale)


class Linear:
    """A linear layer of quantized weights, or several over the same rows, one behind the other."""

    def __init__(
        self, matrices: Sequence[QuantizedMatrix], bias: Floats | None, device: Device
    ) -> None:
        """Put the weights into the memory of a device."""
        integers = np.concatenate([matrix.integers for matrix in matrices])
        outputs, inputs = integers.shape
        self._weights = ops.pack(integers, "f16", (outputs, inputs), device)
        self._scale = np.concatenate(
            [np.full(len(matrix.integers), matrix.scale, np.float32) for matrix in matrices]
        )
        self._bias = bias
        self._device = device

    def forward(self, x: QuantizedRows, label: str) -> Floats:
        """Rows times the weights, plus the bias."""
        rows = transfer.store(label, self._device, x.integers)
        product = ops.linear(rows, self._weights, label=label).to_numpy() * (x.scale * self._scale)
        return product if self._bias is None else product + self._bias


def normed(x: Floats, weight: Floats) -> Floats:
    """A LayerNorm without a bias."""
    centered = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt(np.square(centered).mean(-1, keepdims=True) + np.float32(_EPSILON))
    return np.asarray(centered / deviation * weight)


def rotations(first: int, count: int) -> tuple[Floats, Floats]:
    """Cosines and sines of positions, for pairs of neighbors."""
    frequencies = (1 / _BASE ** (np.arange(0, _ROTATED, 2) / _ROTATED)).astype(np.float32)
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * frequencies
    return np.cos(angles)[:, None], np.sin(angles)[:, None]


def rotated(x: Floats, turns: tuple[Floats, Floats]) -> Floats:
    """Heads of rows, turned by their positions."""
    cosines, sines = turns
    out = x.copy()
    even, odd = x[..., 0:_ROTATED:2], x[..., 1:_ROTATED:2]
    out[..., 0:_ROTATED:2] = even * cosines - odd * sines
    out[..., 1:_ROTATED:2] = odd * cosines + even * sines
    return out


def heads_of(x: Floats, parts: int = 1) -> list[Floats]:
    """Each part of the rows as heads."""
    return [part.reshape(len(x), HEADS, -1) for part in np.split(x, parts, axis=1)]


def attend(query: Floats, keys: Floats, values: Floats, device: Device, label: str) -> Floats:
    """Attention of heads, each row over all keys."""
    width = query.shape[2]
    # Heads as wide as registers take a sixth of the time; the scale is that of the wider ones.
    padding = ((0, 0), (0, 0), (0, -width % _LANES))
    scale = np.float32(((width + padding[2][1]) / width) ** 0.5)
    q, k, v = (
        transfer.store(label, device, np.pad(part, padding))
        for part in (query * scale, keys, values)
    )
    attended: Floats = ops.attention(q, k, v, False, label=label).to_numpy()
    return attended[:, :, :width].reshape(len(query), -1)


def attend_one(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Attention of one row; keys and values have their heads first."""
    scores = np.matmul(keys, query[:, :, None])[:, :, 0] * np.float32(query.shape[1] ** -0.5)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    attended: Floats = np.matmul(weights[:, None], values)
    return attended.reshape(1, -1)


def load_linear(
    file: MoonshineFile, name: str, parts: str, device: Device, *, bias: bool = False
) -> Linear:
    """The linear layers of modules, such as "q_proj k_proj v_proj", as one."""
    names = [f"{name}.{part}" for part in parts.split()]
    biases = file.vector(f"{names[0]}.bias") if bias else None
    return Linear([file.matrix(name) for name in names], biases, device)
