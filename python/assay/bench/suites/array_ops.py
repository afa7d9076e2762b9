"""Elementwise operations and reductions of the array namespace, for the suite `ops`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import xp
from assay.bench.harness import checks, inputs
from assay.bench.harness.case import Absent
from assay.bench.suites.operation import Operation, Place, Work
from assay.runtime.array import Array

_FLOATS: Final = ("f32", "bf16")
_NAMES: Final = {"cumulative_sum": ("cumsum", "cumsum")}
"""What functions are called in NumPy and in PyTorch, where that is different."""


def _work(name: str, operands: int, axis: int | None, place: Place) -> Work:
    """A function that has the same name in all three libraries, or one of `_NAMES`."""
    # Positive, so that the error of a sum is small beside the sum.
    hosts = [np.abs(inputs.normal(place.shape, seed)) for seed in range(operands)]
    placed = [inputs.place(place.device, host, place.dtype) for host in hosts]
    sets = list(zip(*map(place.spread, placed), strict=True))
    options = {} if axis is None else {"axis": axis}
    in_numpy, in_pytorch = _NAMES.get(name, (name, name))
    own: Callable[..., Array] = functools.partial(getattr(xp, name), **options)
    theirs: Callable[..., Any] = functools.partial(getattr(np, in_numpy), **options)
    reference = theirs(*(inputs.fetch(array) for array in placed))
    # A sum rounds once for each halving of its length, and each number once at the end.
    tolerance = 2 * inputs.rounding(place.dtype) * (np.log2(place.rows * place.columns) + 2)

    def call(number: int) -> Array:
        return own(*sets[number % len(sets)])

    def in_torch(module: Any, put: Callable[[Any], Any]) -> Callable[[int], Any]:
        kind = getattr(module, inputs.DTYPES[place.dtype])
        tensors = [place.spread_tensor(put(host).to(kind)) for host in hosts]
        function = functools.partial(getattr(module, in_pytorch), **options)
        turns = list(zip(*tensors, strict=True))
        return lambda number: function(*turns[number % len(turns)])

    return Work(
        call,
        checks.returned("double precision", call, lambda _: np.asarray(reference), tolerance),
        (lambda _: theirs(*hosts)) if place.dtype == "f32" else Absent("NumPy", "has no bfloat16"),
        in_torch,
    )


def _operation(
    name: str,
    dtypes: tuple[str, ...],
    operands: int = 1,
    *,
    axis: int | None = None,
    reads_only: bool = False,
) -> Operation:
    make = functools.partial(_work, name, operands, axis)
    return Operation(name, dtypes, make, reads_only, allocates=True)


OPERATIONS: Final = (
    _operation("add", _FLOATS, 2),
    _operation("multiply", _FLOATS, 2),
    _operation("exp", _FLOATS),
    _operation("sum", ("f32",), reads_only=True),
    _operation("max", ("f32",), reads_only=True),
    _operation("argmax", ("f32",), axis=1, reads_only=True),
    _operation("var", ("f32",), axis=1, reads_only=True),
    _operation("cumulative_sum", ("f32",), axis=1),
    _operation("sort", ("f32",)),
)
