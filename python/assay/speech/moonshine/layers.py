"""Layers of Moonshine from its ONNX files, whose weights are of 8 bits.

The files multiply integers: weights less a zero point, times activations that are quantized by one
scale for all rows. Here the weights are the same integers, but for rows that need a ninth bit, and
activations have a scale for each 32 of a row, or 16 bits where rows are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from assay import ops
from assay.lazy_import import np
from assay.runtime import Device, transfer
from assay.speech.layers import Linear, Norm
from assay.speech.moonshine.files import MoonshineFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int16]

LAYERS: Final = 6
HEADS: Final = 8
HEAD_DIM: Final = 36
SCALE: Final = HEAD_DIM**-0.5
"""Of attention's scores: heads are padded with zeros, which change no product."""
_ROTATED: Final = 32
"""Numbers of a head that positions rotate, in pairs of neighbors."""
_LARGEST: Final = 127
"""Of a code of 8 bits."""


def rotations(positions: int, device: Device) -> ops.RopeTable:
    """Cosines and sines of positions."""
    return ops.rope_table(_ROTATED, positions, interleaved=True, device=device)


def eight_bits(integers: Integers, scale: float) -> tuple[npt.NDArray[np.int8], Floats]:
    """Codes and a scale for each row; rows that need a ninth bit lose their last."""
    is_wide = np.abs(integers).max(axis=1, initial=0) > _LARGEST
    halved = np.clip(np.rint(integers / 2), -_LARGEST, _LARGEST)
    codes = np.where(is_wide[:, None], halved, integers).astype(np.int8)
    return codes, np.where(is_wide, 2 * scale, scale).astype(np.float32)


def wider_outputs(integers: Integers, head_dim: int) -> Integers:
    """A matrix whose outputs are heads, padded with zeros to a wider head."""
    heads = integers.reshape(HEADS, HEAD_DIM, -1)
    padded = np.pad(heads, ((0, 0), (0, head_dim - HEAD_DIM), (0, 0)))
    return padded.reshape(HEADS * head_dim, -1)


def wider_inputs(integers: Integers, head_dim: int) -> Integers:
    """A matrix whose inputs are heads, padded with zeros to a wider head."""
    return np.ascontiguousarray(wider_outputs(np.ascontiguousarray(integers.T), head_dim).T)


class Loader:
    """Puts tensors of a file into device memory."""

    def __init__(self, file: MoonshineFile, device: Device, head_dim: int) -> None:
        """Read from a file; heads are padded to `head_dim`."""
        self._file = file
        self._head_dim = head_dim
        self.device: Final = device

    def norm(self, name: str) -> Norm:
        """A LayerNorm, which has no bias."""
        weight = self._file.vector(f"{name}.weight")
        return Norm(transfer.store(name, self.device, weight), None)

    def heads(self, name: str, parts: str) -> Linear:
        """Linear layers whose outputs are heads, such as "q_proj k_proj v_proj", as one."""
        return self._packed(
            [
                (wider_outputs(matrix.integers, self._head_dim), matrix.scale)
                for matrix in (self._file.matrix(f"{name}.{part}") for part in parts.split())
            ]
        )

    def from_heads(self, name: str) -> Linear:
        """A linear layer whose inputs are heads."""
        matrix = self._file.matrix(name)
        return self._packed([(wider_inputs(matrix.integers, self._head_dim), matrix.scale)])

    def linear(self, name: str, *, swapped: bool = False) -> Linear:
        """A linear layer with a bias; `swapped` puts the second half of its outputs first."""
        matrix, bias = self._file.matrix(name), self._file.vector(f"{name}.bias")
        shift = len(bias) // 2 if swapped else 0
        packed = self._packed([(np.roll(matrix.integers, shift, axis=0), matrix.scale)])
        return packed._replace(bias=transfer.store(name, self.device, np.roll(bias, shift)))

    def embedding(self, name: str) -> ops.Weights:
        """A table of rows."""
        matrix = self._file.quantized(name, transposed=True)
        return self._packed([(matrix.integers, matrix.scale)]).weights

    def _packed(self, matrices: Sequence[tuple[Integers, float]]) -> Linear:
        parts = [eight_bits(integers, scale) for integers, scale in matrices]
        codes = np.concatenate([codes for codes, _ in parts])
        scales = np.concatenate([scales for _, scales in parts])
        outputs, inputs = codes.shape
        weights = ops.pack(codes, "int8", (outputs, inputs), self.device, scales=scales)
        return Linear(weights, None)
