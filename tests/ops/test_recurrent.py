"""LSTM against the equations, step by step in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_operations import upload

from assay import ops
from assay.errors import ShapeError

RNG = np.random.default_rng(63)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def weights(inputs: int, hidden: int) -> list[np.ndarray]:
    return [
        normal(4 * hidden, inputs),
        normal(4 * hidden, hidden),
        normal(4 * hidden),
        normal(4 * hidden),
    ]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def reference(
    x: np.ndarray, given: list[np.ndarray], h: np.ndarray, c: np.ndarray, reverse: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The hidden states of x, (length, N, inputs), and the last state (Hochreiter and Schmidhuber 1997)."""
    w_ih, w_hh, b_ih, b_hh = (array.astype(float) for array in given)
    out = np.zeros((*x.shape[:2], w_hh.shape[1]))
    for step in reversed(range(len(x))) if reverse else range(len(x)):
        i, f, g, o = np.split(x[step] @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out[step] = h
    return out, h, c


@pytest.mark.parametrize(
    ("length", "batch", "inputs", "hidden"), [(1, 1, 128, 128), (23, 3, 7, 20), (9, 33, 40, 16)]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_follows_its_equations(
    length: int, batch: int, inputs: int, hidden: int, reverse: bool
) -> None:
    x, given = normal(length, batch, inputs), weights(inputs, hidden)
    h, c = normal(batch, hidden), normal(batch, hidden)
    expected, last_h, last_c = reference(x, given, h, c, reverse)
    state = (upload(h[None]), upload(c[None]))
    out, (got_h, got_c) = ops.lstm(
        upload(x), *(upload(array) for array in given), state=state, reverse=reverse
    )
    assert np.abs(out.to_numpy() - expected).max() < 2e-6
    assert np.abs(got_h.to_numpy()[0] - last_h).max() < 2e-6
    assert np.abs(got_c.to_numpy()[0] - last_c).max() < 2e-6
    assert np.array_equal(state[0].to_numpy()[0], h)  # The state that was passed is not changed.


def test_bidirectional_lstm_joins_both_directions() -> None:
    x, forward, backward = normal(40, 12), weights(12, 24), weights(12, 24)
    zeros = np.zeros((1, 24))
    expected = [
        reference(x[:, None], given, zeros, zeros, reverse)[0][:, 0]
        for given, reverse in ((forward, False), (backward, True))
    ]
    packed = ops.pack(forward[0], "f32", forward[0].shape)
    first = ops.LSTMWeights(packed, *(upload(array) for array in forward[1:]))
    second = ops.LSTMWeights(*(upload(array) for array in backward))
    out, (h, _) = ops.bidirectional_lstm(upload(x), first, second)
    assert out.shape == (40, 48)
    assert h.shape == (2, 24)
    assert np.abs(out.to_numpy() - np.concatenate(expected, 1)).max() < 2e-6


def test_a_stream_in_chunks_equals_the_whole() -> None:
    x, given = normal(30, 2, 6), [upload(array) for array in weights(6, 18)]
    whole, _ = ops.lstm(upload(x), *given)
    state, parts = None, []
    for chunk in np.split(x, [1, 4, 17]):
        part, state = ops.lstm(upload(chunk), *given, state=state)
        parts.append(part.to_numpy())
    assert np.abs(np.concatenate(parts) - whole.to_numpy()).max() < 1e-6


def test_weights_of_another_size_are_named() -> None:
    w_ih, w_hh, *_ = (upload(array) for array in weights(5, 8))
    with pytest.raises(ShapeError, match="w_ih"):
        ops.lstm(upload(normal(3, 6)), w_ih, w_hh)
