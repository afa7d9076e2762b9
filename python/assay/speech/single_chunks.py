"""Silero VAD over one chunk at a time, as a dozen small products of matrices.

A chunk has one million multiplications: launches of kernels would take longer than they do, and in
a stream they would wait behind the kernels of other models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

STATE: Final = 128
_WINDOW, _HOP, _FRAMES = 256, 128, 4
_BINS: Final = 129


class ChunkNetwork:
    """The weights, as matrices that rows are multiplied by."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        """Take the tensors of the ONNX file."""

        def layer(index: int) -> tuple[Floats, Floats]:
            name = f"model.encoder.{index}.reparam_conv"
            # Taps by channels, as rows of frames lie in memory.
            matrix = weights[f"{name}.weight"].transpose(2, 1, 0)
            return np.ascontiguousarray(matrix), weights[f"{name}.bias"]

        basis = weights["model.stft.forward_basis_buffer"][:, 0]
        self._basis = np.ascontiguousarray(basis.T)
        first, self._bias1 = layer(0)
        second, self._bias2 = layer(1)
        third, self._bias3 = layer(2)
        fourth, self._bias4 = layer(3)
        self._first = first.reshape(-1, first.shape[2])
        self._second = second.reshape(-1, second.shape[2])
        # Of two frames the first output sees no frame before; of one frame, none behind either.
        self._third = np.ascontiguousarray(third[1:].reshape(-1, third.shape[2]))
        self._fourth = np.ascontiguousarray(fourth[1])
        both = [weights[f"model.decoder.rnn.weight_{kind}"] for kind in ("ih", "hh")]
        self._gates = np.ascontiguousarray(np.concatenate(both, 1).T)
        self._gate_bias = (
            weights["model.decoder.rnn.bias_ih"] + weights["model.decoder.rnn.bias_hh"]
        )
        self._final = np.ascontiguousarray(weights["model.decoder.decoder.2.weight"][0, :, 0])
        self._final_bias = float(weights["model.decoder.decoder.2.bias"][0])

    def step(self, chunk: Floats, hidden: Floats, cell: Floats) -> tuple[Floats, Floats]:
        """The next state, from a chunk with its context before and its reflection behind it."""
        frames = _rows(chunk, _FRAMES, _HOP, _WINDOW)
        parts = frames @ self._basis
        padded = np.zeros((_FRAMES + 2, _BINS), np.float32)
        np.hypot(parts[:, :_BINS], parts[:, _BINS:], out=padded[1:-1])
        x = np.maximum(_rows(padded, _FRAMES, _BINS, 3 * _BINS) @ self._first + self._bias1, 0)
        padded = np.zeros((_FRAMES + 2, x.shape[1]), np.float32)
        padded[1:-1] = x
        width = x.shape[1]
        x = np.maximum(_rows(padded, 2, 2 * width, 3 * width) @ self._second + self._bias2, 0)
        x = np.maximum(x.reshape(-1) @ self._third + self._bias3, 0)
        x = np.maximum(x @ self._fourth + self._bias4, 0)
        gates = np.concatenate([x, hidden]) @ self._gates + self._gate_bias
        taken, forgotten, shown = (
            _sigmoid(gates[start : start + STATE]) for start in (0, STATE, 3 * STATE)
        )
        cell = forgotten * cell + taken * np.tanh(gates[2 * STATE : 3 * STATE])
        return shown * np.tanh(cell), cell

    def probabilities(self, hidden: Floats) -> Any:
        """The probability of speech, of one state or of rows of them."""
        logits = np.maximum(hidden, 0) @ self._final + self._final_bias
        return _sigmoid(logits)


def _rows(values: Floats, count: int, step: int, width: int) -> Floats:
    """Rows that begin `step` numbers after each other, and may overlap."""
    strides = (step * values.itemsize, values.itemsize)
    return np.lib.stride_tricks.as_strided(values, (count, width), strides, writeable=False)


def _sigmoid(x: Any) -> Any:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)
