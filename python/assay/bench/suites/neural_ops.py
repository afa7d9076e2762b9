"""Layers of models besides GEMMs and attention, for the suite `ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.bench.harness import checks, inputs
from assay.bench.harness.clocks import Call
from assay.bench.harness.inputs import NumPyArray
from assay.bench.harness.seeding import shifted
from assay.bench.suites.operation import Operation, OperationSetup, PreparedOperation
from assay.runtime.array import Array

EPSILON: Final = 1e-5
HEAD: Final = 64
TOLERANCE: Final = 1e-5
"""Relative to the largest value: FP32 sums over a row, and an exponential."""

Formula = Callable[[NumPyArray], NumPyArray]


def _rowwise(
    own: Callable[[Array, Array], object],
    formula: Formula,
    in_torch: Callable[[Any], Callable[[Any], object]],
    columns_out: Callable[[int], int] = lambda columns: columns,
) -> Callable[[OperationSetup], PreparedOperation]:
    """A row-wise operation; `formula` is its NumPy reference, in the precision of its input."""

    def make(setup: OperationSetup) -> PreparedOperation:
        host = inputs.standard_normal(setup.shape, 1)
        x = setup.rotated(inputs.upload(setup.device, host))
        shape = (setup.rows, columns_out(setup.columns))
        out = setup.rotated(xp.empty(shape, dtype=xp.float32, device=setup.device))
        reference = formula(host.astype(np.float64))

        def call(number: int) -> None:
            own(x[number % len(x)], out[number % len(x)])

        def torch_call(module: Any, upload: Callable[[Any], Any]) -> Call:
            function, tensors = in_torch(module), setup.rotated_tensors(upload(host))
            return lambda number: function(tensors[number % len(tensors)])

        return PreparedOperation(
            call,
            checks.rotated_outputs("double precision", call, out, lambda _: reference, TOLERANCE),
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
) -> Callable[[OperationSetup], PreparedOperation]:
    def make(setup: OperationSetup) -> PreparedOperation:
        probe = inputs.upload(setup.device, inputs.standard_normal((1, setup.columns), 0))
        weight = _ones(probe)
        return _rowwise(
            lambda x, out: own(x, weight, out),
            formula,
            lambda module: (
                lambda x: getattr(module.nn.functional, name)(x, (setup.columns,), eps=EPSILON)
            ),
        )(setup)

    return make


def _rope(setup: OperationSetup) -> PreparedOperation:
    heads = max(setup.columns // HEAD, 1)
    shape = (setup.rows, heads, HEAD)
    host = inputs.standard_normal(shape, 1)
    x = setup.rotated(inputs.upload(setup.device, host))
    positions = np.arange(setup.rows, dtype=np.int32)[::-1].copy()
    position_array = xp.asarray(positions, device=setup.device, copy=True)
    table = ops.rope_table(HEAD, setup.rows, device=setup.device)
    out = setup.rotated(xp.empty(shape, dtype=xp.float32, device=setup.device))
    angles = positions[:, None] * 10_000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    cosines, sines = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]

    def rotate(values: NumPyArray, cosine: NumPyArray, sine: NumPyArray) -> NumPyArray:
        first, second = values[..., : HEAD // 2], values[..., HEAD // 2 :]
        return np.concatenate(
            [first * cosine - second * sine, second * cosine + first * sine], axis=-1
        )

    reference = rotate(host.astype(np.float64), cosines, sines)
    single = (cosines.astype(np.float32), sines.astype(np.float32))

    def call(number: int) -> None:
        ops.rope(x[number % len(x)], position_array, table, out=out[number % len(x)])

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        tensors, cosine, sine = (
            setup.rotated_tensors(upload(host)),
            upload(single[0]),
            upload(single[1]),
        )

        def rotate_in_torch(number: int) -> object:
            first, second = tensors[number % len(tensors)].chunk(2, dim=-1)
            halves = [first * cosine - second * sine, second * cosine + first * sine]
            return module.cat(halves, dim=-1)

        return rotate_in_torch

    # Angles of large positions lose digits in FP32.
    tolerance = TOLERANCE + setup.rows * inputs.unit_roundoff("f32")
    return PreparedOperation(
        call,
        checks.rotated_outputs("double precision", call, out, lambda _: reference, tolerance),
        lambda _: rotate(host, *single),
        in_torch,
    )


def _gather(setup: OperationSetup) -> PreparedOperation:
    host = inputs.standard_normal(setup.shape, 1)
    x = setup.rotated(inputs.upload(setup.device, host))
    order = np.random.default_rng(shifted(2)).permutation(setup.rows).astype(np.int32)
    rows = xp.asarray(order, device=setup.device, copy=True)
    out = setup.rotated(xp.empty(setup.shape, dtype=xp.float32, device=setup.device))

    def call(number: int) -> None:
        ops.gather_rows(x[number % len(x)], rows, out=out[number % len(x)])

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        tensors, numbers = setup.rotated_tensors(upload(host)), upload(order.astype(np.int64))
        return lambda number: tensors[number % len(tensors)].index_select(0, numbers)

    return PreparedOperation(
        call,
        checks.rotated_outputs("NumPy's rows", call, out, lambda _: host[order], 0.0),
        lambda _: host[order],
        in_torch,
    )


def _greedy(setup: OperationSetup) -> PreparedOperation:
    host = inputs.standard_normal(setup.shape, 1)
    logits = setup.rotated(inputs.upload(setup.device, host))

    def same(value: float, kind: Any) -> Array:
        return xp.full((setup.rows,), value, dtype=kind, device=setup.device)

    zeros, ones = same(0.0, xp.float32), same(1.0, xp.float32)
    no_limit, seeds = same(0, xp.int32), same(0, xp.int64)
    out = xp.empty((setup.rows,), dtype=xp.int32, device=setup.device)

    def call(number: int) -> None:
        given = logits[number % len(logits)]
        ops.sample(given, zeros, no_limit, ones, zeros, seeds, no_limit, tokens_out=out)

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Call:
        tensors = setup.rotated_tensors(upload(host))
        return lambda number: tensors[number % len(tensors)].argmax(dim=-1)

    return PreparedOperation(
        call,
        checks.output("argmax", call, out, lambda _: host.argmax(axis=-1), 0.0),
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
