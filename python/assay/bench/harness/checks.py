"""Checks of timed code against a reference; outputs are overwritten with NaN beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assay.bench.harness import inputs
from assay.bench.harness.case import Check
from assay.bench.harness.clocks import Call
from assay.bench.harness.inputs import NumPyArray
from assay.runtime.array import Array


def output(
    against: str,
    call: Call,
    out: Array,
    expected: Callable[[int], NumPyArray],
    tolerance: float,
    rows: NumPyArray | None = None,
) -> Check:
    """A call that writes `out`; `expected` gives the reference result of call number i.

    With `rows`, only these rows have a reference; the others must be finite.
    """

    def error(number: int) -> float:
        inputs.fill_nan(out)
        call(number)
        got = inputs.download(out)
        if rows is not None:
            if not np.isfinite(got).all():
                return float("nan")
            got = got[rows]
        return inputs.relative_error(got, np.asarray(expected(number), np.float64))

    return Check(against, error, tolerance)


def rotated_outputs(
    against: str,
    call: Call,
    outs: Sequence[Array],
    expected: Callable[[int], NumPyArray],
    tolerance: float,
) -> Check:
    """The same for a call that rotates through several outputs."""
    each = [output(against, call, out, expected, tolerance) for out in outs]
    return Check(against, lambda number: each[number % len(each)].error(number), tolerance)


def returned_array(
    against: str,
    call: Callable[[int], Array],
    expected: Callable[[int], NumPyArray],
    tolerance: float,
) -> Check:
    """A call that returns a new array: memory that the pool reuses for it is NaN beforehand."""

    def error(number: int) -> float:
        inputs.fill_nan_and_free(call(number))
        return inputs.relative_error(
            inputs.download(call(number)), np.asarray(expected(number), np.float64)
        )

    return Check(against, error, tolerance)
