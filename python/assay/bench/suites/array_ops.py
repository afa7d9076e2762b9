"""Elementwise operations and reductions of the array namespace, for the suite `ops`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay import xp
from assay.bench.harness import checks, inputs
from assay.bench.harness.case import Absent
from assay.bench.suites.operation import Operation, OperationSetup, PreparedOperation
from assay.runtime.array import Array

_FLOATS: Final = ("f32", "bf16")
_NAMES: Final = {"cumulative_sum": ("cumsum", "cumsum")}
"""Names in NumPy and in PyTorch, where they differ."""


def _work(name: str, operands: int, axis: int | None, setup: OperationSetup) -> PreparedOperation:
    """A function with the same name in all three libraries, or one of `_NAMES`."""
    # Positive, so that sums do not cancel.
    hosts = [np.abs(inputs.standard_normal(setup.shape, seed)) for seed in range(operands)]
    arrays = [inputs.upload(setup.device, host, setup.dtype) for host in hosts]
    sets = list(zip(*map(setup.rotated, arrays), strict=True))
    options = {} if axis is None else {"axis": axis}
    in_numpy, in_pytorch = _NAMES.get(name, (name, name))
    own: Callable[..., Array] = functools.partial(getattr(xp, name), **options)
    theirs: Callable[..., Any] = functools.partial(getattr(np, in_numpy), **options)
    reference = theirs(*(inputs.download(array) for array in arrays))
    # A pairwise sum rounds once per level, and the result once more.
    tolerance = 2 * inputs.unit_roundoff(setup.dtype) * (np.log2(setup.rows * setup.columns) + 2)

    def call(number: int) -> Array:
        return own(*sets[number % len(sets)])

    def in_torch(module: Any, upload: Callable[[Any], Any]) -> Callable[[int], Any]:
        kind = getattr(module, inputs.DTYPES[setup.dtype])
        tensors = [setup.rotated_tensors(upload(host).to(kind)) for host in hosts]
        function = functools.partial(getattr(module, in_pytorch), **options)
        arguments = list(zip(*tensors, strict=True))
        return lambda number: function(*arguments[number % len(arguments)])

    return PreparedOperation(
        call,
        checks.returned_array("double precision", call, lambda _: np.asarray(reference), tolerance),
        (lambda _: theirs(*hosts)) if setup.dtype == "f32" else Absent("NumPy", "has no bfloat16"),
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
