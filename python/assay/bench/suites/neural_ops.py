"""The parts of models besides products and attention, for the suite `ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench.harness import checks, inputs
from assay.bench.harness.clocks import Call
from assay.bench.harness.inputs import NumPyArray
from assay.bench.suites.operation import Operation, Place, Work
from assay.runtime.array import Array

EPSILON: Final = 1e-5
HEAD: Final = 64
TOLERANCE: Final = 1e-5
"""Of the largest value: sums over a row in single precision, and an exponential."""

InTorch = Callable[[Any, Callable[[Any], Any]], Call]
Formula = Callable[[NumPyArray], NumPyArray]


def _rowwise(
    own: Callable[[Array, Array], object],
    formula: Formula,
    in_torch: Callable[[Any], Callable[[Any], object]],
    columns_out: Callable[[int], int] = lambda columns: columns,
) -> Callable[[Place], Work]:
    """An operation from rows to rows; `formula` is NumPy's way, in the precision it is given."""

    def make(place: Place) -> Work:
        host = inputs.normal(place.shape, 1)
        x = place.spread(inputs.place(place.device, host))
        shape = (place.rows, columns_out(place.columns))
        out = place.spread(xp.empty(shape, dtype=xp.float32, device=place.device))
        reference = formula(host.astype(np.float64))

        def call(number: int) -> None:
            own(x[number % len(x)], out[number % len(x)])

        def torch_call(module: Any, put: Callable[[Any], Any]) -> Call:
            function, placed = in_torch(module), place.spread_tensor(put(host))
            return lambda number: function(placed[number % len(placed)])

        return Work(
            call,
            checks.written_in_turn("double precision", call, out, lambda _: reference, TOLERANCE),
            lambda _: formula(host),
            torch_call,
        )

    return make


def _rms(x: NumPyArray) -> NumPyArray:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON))


def _layer(x: NumPyArray) -> NumPyArray:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    return np.asarray(centered / np.sqrt(variance + EPSILON))


def _softmax(x: NumPyArray) -> NumPyArray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _silu(x: NumPyArray) -> NumPyArray:
    return np.asarray(x / (1 + np.exp(-x)))


def _swiglu(x: NumPyArray) -> NumPyArray:
    half = x.shape[-1] // 2
    return _silu(x[:, :half]) * x[:, half:]


def _gelu_tanh(x: NumPyArray) -> NumPyArray:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _ones(x: Array) -> Array:
    return xp.ones((x.shape[1],), dtype=xp.float32, device=x.device)


def _norm(
    own: Callable[[Array, Array, Array], object], formula: Formula, name: str
) -> Callable[[Place], Work]:
    def make(place: Place) -> Work:
        probe = inputs.place(place.device, inputs.normal((1, place.columns), 0))
        weight = _ones(probe)
        return _rowwise(
            lambda x, out: own(x, weight, out),
            formula,
            lambda module: (
                lambda x: getattr(module.nn.functional, name)(x, (place.columns,), eps=EPSILON)
            ),
        )(place)

    return make


def _rope(place: Place) -> Work:
    heads = max(place.columns // HEAD, 1)
    shape = (place.rows, heads, HEAD)
    host = inputs.normal(shape, 1)
    x = place.spread(inputs.place(place.device, host))
    positions = np.arange(place.rows, dtype=np.int32)[::-1].copy()
    where = xp.asarray(positions, device=place.device, copy=True)
    table = ops.rope_table(HEAD, place.rows, device=place.device)
    out = place.spread(xp.empty(shape, dtype=xp.float32, device=place.device))
    angles = positions[:, None] * 10_000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    cosines, sines = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]

    def turned(values: NumPyArray, cosine: NumPyArray, sine: NumPyArray) -> NumPyArray:
        first, second = values[..., : HEAD // 2], values[..., HEAD // 2 :]
        return np.concatenate(
            [first * cosine - second * sine, second * cosine + first * sine], axis=-1
        )

    reference = turned(host.astype(np.float64), cosines, sines)
    narrow = (cosines.astype(np.float32), sines.astype(np.float32))

    def call(number: int) -> None:
        ops.rope(x[number % len(x)], where, table, out=out[number % len(x)])

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        placed, cosine, sine = place.spread_tensor(put(host)), put(narrow[0]), put(narrow[1])

        def turn(number: int) -> object:
            first, second = placed[number % len(placed)].chunk(2, dim=-1)
            halves = [first * cosine - second * sine, second * cosine + first * sine]
            return module.cat(halves, dim=-1)

        return turn

    # Angles of distant positions lose digits in single precision.
    tolerance = TOLERANCE + place.rows * inputs.rounding("f32")
    return Work(
        call,
        checks.written_in_turn("double precision", call, out, lambda _: reference, tolerance),
        lambda _: turned(host, *narrow),
        in_torch,
    )


def _gather(place: Place) -> Work:
    host = inputs.normal(place.shape, 1)
    x = place.spread(inputs.place(place.device, host))
    order = np.random.default_rng(2).permutation(place.rows).astype(np.int32)
    rows = xp.asarray(order, device=place.device, copy=True)
    out = place.spread(xp.empty(place.shape, dtype=xp.float32, device=place.device))

    def call(number: int) -> None:
        ops.gather_rows(x[number % len(x)], rows, out=out[number % len(x)])

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        placed, numbers = place.spread_tensor(put(host)), put(order.astype(np.int64))
        return lambda number: placed[number % len(placed)].index_select(0, numbers)

    return Work(
        call,
        checks.written_in_turn("NumPy's rows", call, out, lambda _: host[order], 0.0),
        lambda _: host[order],
        in_torch,
    )


def _greedy(place: Place) -> Work:
    host = inputs.normal(place.shape, 1)
    logits = place.spread(inputs.place(place.device, host))

    def same(value: float, kind: Any) -> Array:
        return xp.full((place.rows,), value, dtype=kind, device=place.device)

    nothing, all_of_it = same(0.0, xp.float32), same(1.0, xp.float32)
    zero, seeds = same(0, xp.int32), same(0, xp.int64)
    out = xp.empty((place.rows,), dtype=xp.int32, device=place.device)

    def call(number: int) -> None:
        given = logits[number % len(logits)]
        ops.sample(given, nothing, zero, all_of_it, nothing, seeds, zero, tokens_out=out)

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Call:
        placed = place.spread_tensor(put(host))
        return lambda number: placed[number % len(placed)].argmax(dim=-1)

    return Work(
        call,
        checks.written("argmax", call, out, lambda _: host.argmax(axis=-1), 0.0),
        lambda _: host.argmax(axis=-1),
        in_torch,
    )


_F32: Final = ("f32",)

OPERATIONS: Final = (
    Operation(
        "rms_norm",
        _F32,
        _norm(lambda x, weight, out: ops.rms_norm(x, weight, EPSILON, out=out), _rms, "rms_norm"),
    ),
    Operation(
        "layer_norm",
        _F32,
        _norm(
            lambda x, weight, out: ops.layer_norm(x, weight, None, EPSILON, out=out),
            _layer,
            "layer_norm",
        ),
    ),
    Operation(
        "softmax",
        _F32,
        _rowwise(
            lambda x, out: ops.softmax(x, out=out),
            _softmax,
            lambda module: lambda x: module.softmax(x, dim=-1),
        ),
    ),
    Operation(
        "silu",
        _F32,
        _rowwise(
            lambda x, out: ops.activate(x, "silu", out=out),
            _silu,
            lambda module: module.nn.functional.silu,
        ),
    ),
    Operation(
        "gelu_tanh",
        _F32,
        _rowwise(
            lambda x, out: ops.activate(x, "gelu_tanh", out=out),
            _gelu_tanh,
            lambda module: lambda x: module.nn.functional.gelu(x, approximate="tanh"),
        ),
    ),
    Operation(
        "swiglu",
        _F32,
        _rowwise(
            lambda x, out: ops.swiglu(x, out=out),
            _swiglu,
            lambda module: (
                lambda x: (
                    module.nn.functional.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]
                )
            ),
            lambda columns: columns // 2,
        ),
    ),
    Operation("rope", _F32, _rope),
    Operation("gather_rows", _F32, _gather),
    Operation("sample, greedy", _F32, _greedy, reads_only=True),
)
