"""Silero VAD over one chunk at a time, as seven small products of matrices.

A chunk has one million multiplications: launches of kernels would take longer than they do, and in
a stream they would wait behind the kernels of other models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.lazy_import import np
from assay.speech.products import linear

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

STATE: Final = 128
_WINDOW, _HOP, _FRAMES = 256, 128, 4
_BINS: Final = 129


class ChunkNetwork:
    """The weights, as linear layers over rows of frames."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        """Take the tensors of the ONNX file."""
        # A copy is aligned, which those of a file need not be.
        weights = {name: np.array(values) for name, values in weights.items()}

        def layer(index: int) -> tuple[Floats, Floats]:
            name = f"model.encoder.{index}.reparam_conv"
            # Taps by channels, as rows of frames lie in memory.
            matrix = weights[f"{name}.weight"].transpose(0, 2, 1)
            return np.ascontiguousarray(matrix), weights[f"{name}.bias"]

        self._basis = np.ascontiguousarray(weights["model.stft.forward_basis_buffer"][:, 0])
        first, self._bias1 = layer(0)
        second, self._bias2 = layer(1)
        third, self._bias3 = layer(2)
        fourth, self._bias4 = layer(3)
        self._first = first.reshape(len(first), -1)
        self._second = second.reshape(len(second), -1)
        # Of two frames the first output sees no frame before; of one frame, none behind either.
        self._third = np.ascontiguousarray(third[:, 1:].reshape(len(third), -1))
        self._fourth = np.ascontiguousarray(fourth[:, 1])
        both = [weights[f"model.decoder.rnn.weight_{kind}"] for kind in ("ih", "hh")]
        gates = np.concatenate(both, 1)
        gate_bias = weights["model.decoder.rnn.bias_ih"] + weights["model.decoder.rnn.bias_hh"]
        # tanh(x) is 2 sigmoid(2 x) - 1: one exponential for all gates. The sign is that of its argument.
        factors = np.full((4 * STATE, 1), -1, np.float32)
        factors[2 * STATE : 3 * STATE] = -2
        self._gates = gates * factors
        self._gate_bias = gate_bias * factors[:, 0]
        self._final = np.ascontiguousarray(weights["model.decoder.decoder.2.weight"][:, :, 0])
        self._final_bias = weights["model.decoder.decoder.2.bias"]
        self._allocate()

    def _allocate(self) -> None:
        """Memory of results, and rows of it that overlap: to make them anew would take as long as the products."""
        self._chunk = np.zeros(_WINDOW + (_FRAMES - 1) * _HOP, np.float32)
        self._frames = _rows(self._chunk, _FRAMES, _HOP, _WINDOW)
        self._parts = np.empty((_FRAMES, 2 * _BINS), np.float32)
        self._real, self._imaginary = self._parts[:, :_BINS], self._parts[:, _BINS:]
        magnitudes = np.zeros((_FRAMES + 2, _BINS), np.float32)
        self._magnitudes = magnitudes[1:-1]
        self._magnitude_rows = _rows(magnitudes, _FRAMES, _BINS, 3 * _BINS)
        width = len(self._bias1)
        inner = np.zeros((_FRAMES + 2, width), np.float32)
        self._inner = inner[1:-1]
        self._inner_rows = _rows(inner, 2, 2 * width, 3 * width)
        self._outer = np.empty((2, len(self._bias2)), np.float32)
        self._flat = self._outer.reshape(-1)
        self._last = np.empty(len(self._bias3), np.float32)
        self._state = np.zeros(2 * STATE, np.float32)
        self._features, self._hidden = self._state[:STATE], self._state[STATE:]
        self._opened = np.empty(4 * STATE, np.float32)

    def step(self, chunk: Floats, hidden: Floats, cell: Floats) -> tuple[Floats, Floats]:
        """The next state, from a chunk with its context before and its reflection behind it."""
        self._chunk[:] = chunk
        linear(self._frames, self._basis, out=self._parts)
        np.multiply(self._parts, self._parts, self._parts)
        np.add(self._real, self._imaginary, self._magnitudes)
        np.sqrt(self._magnitudes, self._magnitudes)
        linear(self._magnitude_rows, self._first, self._bias1, relu=True, out=self._inner)
        linear(self._inner_rows, self._second, self._bias2, relu=True, out=self._outer)
        linear(self._flat, self._third, self._bias3, relu=True, out=self._last)
        linear(self._last, self._fourth, self._bias4, relu=True, out=self._features)
        self._hidden[:] = hidden
        gates = self._opened
        linear(self._state, self._gates, self._gate_bias, out=gates)
        _open(gates)
        taken, forgotten = gates[:STATE], gates[STATE : 2 * STATE]
        new = gates[2 * STATE : 3 * STATE]
        new *= 2
        new -= 1
        new *= taken
        cell = forgotten * cell
        cell += new
        return gates[3 * STATE :] * np.tanh(cell), cell

    def probabilities(self, hidden: Floats) -> Any:
        """The probability of speech, of one state or of rows of them."""
        logits = linear(np.maximum(hidden, 0), self._final, self._final_bias)[..., 0]
        return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def _rows(values: Floats, count: int, step: int, width: int) -> Floats:
    """Rows that begin `step` numbers after each other, and may overlap."""
    strides = (step * values.itemsize, values.itemsize)
    return np.lib.stride_tricks.as_strided(values, (count, width), strides, writeable=False)


def _open(negated: Floats) -> None:
    """The sigmoid of numbers whose sign was changed, in their place."""
    np.exp(negated, negated)
    np.add(negated, 1, negated)
    np.reciprocal(negated, negated)
