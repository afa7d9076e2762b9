"""LSTM layers, with the gates and layouts of PyTorch."""

from __future__ import annotations

from typing import NamedTuple

from assay.errors import ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.linear import linear
from assay.ops.matmul import batched_matmul
from assay.ops.operands import F32, call, check, check_given, nbytes, reshaped, result
from assay.ops.weights import Weights
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array


class LSTMWeights(NamedTuple):
    """The weights of one direction: gates input, forget, cell, output, one below the other."""

    w_ih: Array | Weights
    """(4 hidden, inputs); packed weights save nothing on the CPU but may be of another format."""
    w_hh: Array
    """(4 hidden, hidden)."""
    b_ih: Array | None = None
    b_hh: Array | None = None


State = tuple[Array, Array]
"""Hidden state and cell, each (directions, N, hidden), or (directions, hidden) without a batch."""


def lstm(
    x: Array,
    w_ih: Array | Weights,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
    *,
    state: State | None = None,
    reverse: bool = False,
    out: Array | None = None,
    label: str | None = None,
) -> tuple[Array, State]:
    """Run an LSTM of one direction over `x`, (length, N, inputs) or (length, inputs).

    Returns the hidden states of all steps, (length, N, hidden), and the last state, which continues
    a stream when it is passed as `state`; without one, states are zeros. The state that is passed is
    not changed. With `reverse`, steps run from the last to the first.
    """
    return _run("lstm", x, [LSTMWeights(w_ih, w_hh, b_ih, b_hh)], state, reverse, out, label)


def bidirectional_lstm(
    x: Array,
    forward: LSTMWeights,
    backward: LSTMWeights,
    *,
    state: State | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> tuple[Array, State]:
    """Run two LSTMs over `x`, the second from the last step to the first, beside each other.

    Returns (length, N, 2 hidden): the forward states of a step, then the backward ones.
    """
    name = "bidirectional_lstm"
    return _run(name, x, [forward, backward], state, False, out, label)


def _run(
    name: str,
    x: Array,
    weights: list[LSTMWeights],
    state: State | None,
    reverse: bool,
    out: Array | None,
    label: str | None,
) -> tuple[Array, State]:
    check(name, "x", x, None, F32)
    if x.ndim not in (2, 3):
        raise ShapeError(f"{name}: expected x of 2 or 3 axes, got {tuple(x.shape)}")
    batched = x.ndim == 3
    steps, inputs = x.shape[0], x.shape[-1]
    batch = x.shape[1] if batched else 1
    check(name, "w_hh", weights[0].w_hh, (None, None), F32)
    hidden = weights[0].w_hh.shape[1]
    for direction in weights:
        check(name, "w_hh", direction.w_hh, (4 * hidden, hidden), F32)
        check_given(name, "b_ih", direction.b_ih, (4 * hidden,), F32)
        check_given(name, "b_hh", direction.b_hh, (4 * hidden,), F32)
        if tuple(direction.w_ih.shape) != (4 * hidden, inputs):
            raise ShapeError(
                f"{name}: expected w_ih of shape ({4 * hidden}, {inputs}), "
                f"got {tuple(direction.w_ih.shape)}"
            )
    count, device = len(weights), x.device
    states = (count, batch, hidden) if batched else (count, hidden)
    h, c = (allocation.zeros(device, states, dtypes.float32, name) for _ in range(2))
    for target, what, given in zip((h, c), "hc", state or (), strict=False):
        target[...] = check(name, what, given, states, F32)
    shape = (steps, batch, count * hidden) if batched else (steps, count * hidden)
    out = result(name, device, out, shape, x.dtype)
    if out.size == 0:
        return out, (h, c)
    gates = allocation.empty(device, (count, steps * batch, 4 * hidden), dtypes.float32, name)
    rows = reshaped(name, "x", x, (steps * batch, inputs))
    biases = []
    for index, direction in enumerate(weights):
        if isinstance(direction.w_ih, Weights):
            linear(rows, direction.w_ih, out=gates[index], label=label or name)
        else:
            batched_matmul(rows, direction.w_ih.T, gates[index], label=label or name)
        biases.append(_sum(direction.b_ih, direction.b_hh))
    recurrence = counting.gemm(steps * batch, 4 * hidden, hidden, 4.0)
    backward = (weights[1].w_hh, biases[1]) if count == 2 else (None, None)
    operands = (weights[0].w_hh, biases[0], *backward)
    call(
        "lstm",
        [gates, *operands, h, c, out],
        (steps, batch, hidden, int(reverse)),
        device,
        Count(count * recurrence.flops, nbytes(gates, *operands, h, c, h, c, out)),
        label or name,
    )
    return out, (h, c)


def _sum(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    total: Array = first + second
    return total
