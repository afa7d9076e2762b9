"""Holding what was timed against a reference, with the output spoilt beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assay.bench.harness import inputs
from assay.bench.harness.case import Check
from assay.bench.harness.clocks import Call
from assay.bench.harness.inputs import NumPyArray
from assay.runtime.array import Array


def written(
    against: str,
    call: Call,
    out: Array,
    wanted: Callable[[int], NumPyArray],
    tolerance: float,
    rows: NumPyArray | None = None,
) -> Check:
    """A call that writes `out`; `wanted` gives what piece of work number i should leave there.

    With `rows`, only these are known; the others have to be numbers.
    """

    def error(number: int) -> float:
        inputs.spoil(out)
        call(number)
        got = inputs.fetch(out)
        if rows is not None:
            if not np.isfinite(got).all():
                return float("nan")
            got = got[rows]
        return inputs.far(got, np.asarray(wanted(number), np.float64))

    return Check(against, error, tolerance)


def written_in_turn(
    against: str,
    call: Call,
    outs: Sequence[Array],
    wanted: Callable[[int], NumPyArray],
    tolerance: float,
) -> Check:
    """The same of a call that writes another output at each number, in turn."""
    each = [written(against, call, out, wanted, tolerance) for out in outs]
    return Check(against, lambda number: each[number % len(each)].error(number), tolerance)


def returned(
    against: str,
    call: Callable[[int], Array],
    wanted: Callable[[int], NumPyArray],
    tolerance: float,
) -> Check:
    """A call that returns fresh memory: what the pool hands out next is spoilt."""

    def error(number: int) -> float:
        inputs.spoil_like(call(number))
        return inputs.far(inputs.fetch(call(number)), np.asarray(wanted(number), np.float64))

    return Check(against, error, tolerance)
