"""Answers from measured ceilings: bandwidth of a working set, time of a linear layer or attention.

An operation costs its overhead and its bytes at a rate; the overhead and the rate follow from a
small and a large one that were measured (the alpha-beta model of Hockney).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.planner.specs import Ceiling


class Affine(NamedTuple):
    """Time of an operation: an overhead, and bytes at a rate."""

    overhead: float
    """Seconds."""
    rate: float
    """Bytes per second."""

    def seconds(self, nbytes: float) -> float:
        """Time of an operation that moves so many bytes."""
        return self.overhead + nbytes / self.rate


def select(ceilings: Mapping[str, Ceiling], operation: str, **parameters: Any) -> Iterator[Ceiling]:
    """Ceilings of an operation that have these parameters."""
    wanted = {"operation": operation, **parameters}
    for ceiling in ceilings.values():
        if all(ceiling.parameters.get(name) == value for name, value in wanted.items()):
            yield ceiling


def seconds_of(ceiling: Ceiling) -> float:
    """Seconds of the one operation that was measured."""
    if ceiling.unit == "s":
        return ceiling.value
    amount = ceiling.parameters["bytes" if ceiling.unit == "byte/s" else "flops"]
    return float(amount) / ceiling.value


def affine(measured: Iterable[Ceiling]) -> Affine | None:
    """Overhead and rate from the smallest and the largest operation; None from fewer than two."""
    points = sorted(
        (float(ceiling.parameters["bytes"]), seconds_of(ceiling)) for ceiling in measured
    )
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return None
    (small, short), (large, long) = points[0], points[-1]
    # A large operation that took no longer than a small one was measured in noise.
    slope = max((long - short) / (large - small), 0.1 * long / large)
    return Affine(max(short - slope * small, 0.0), 1.0 / slope)


def read_bandwidth(
    ceilings: Mapping[str, Ceiling], nbytes: float, threads: int | None = None
) -> float:
    """Bytes per second of reading a working set again and again, between the measured sizes.

    Time per byte is interpolated over the logarithm of the size: caches give way gradually.
    """
    reads = _on(threads, list(select(ceilings, "read")), "read bandwidth")
    points = sorted((float(ceiling.parameters["bytes"]), 1.0 / ceiling.value) for ceiling in reads)
    return 1.0 / _interpolate([(math.log(size), cost) for size, cost in points], math.log(nbytes))


def linear_seconds(
    ceilings: Mapping[str, Ceiling],
    dtype: str,
    rows: int,
    outputs: int,
    inputs: int,
    *,
    threads: int | None = None,
    working_set: float | None = None,
) -> float:
    """Time of a linear layer on so many tokens.

    `working_set` is what a step reads: weights that stay in a cache are read at its rate, as far
    as reading them is what takes the time. By default they come from memory.
    """
    products = _on(
        threads, list(select(ceilings, "linear", dtype=dtype)), f"linear layer of {dtype} weights"
    )
    large = max(_weights(product) for product in products)
    gemv = affine(product for product in products if product.parameters["rows"] == 1)
    if gemv is None:
        raise InputError(f"no linear layer of {dtype} weights on one token was measured")
    per_weight: list[tuple[float, float]] = [
        (math.log(product.parameters["rows"]), seconds_of(product) - gemv.overhead)
        for product in sorted(products, key=lambda product: int(product.parameters["rows"]))
        if _weights(product) == large
    ]
    logs = [(row, math.log(max(cost, 1e-12))) for row, cost in per_weight]
    busy = math.exp(_interpolate(logs, math.log(rows)))
    # Beyond the measured numbers of tokens the rate of arithmetic stays.
    busy *= max(rows / math.exp(logs[-1][0]), 1.0)
    seconds = busy * outputs * inputs / large
    if working_set is not None and rows == 1:
        cold = max(float(ceiling.parameters["bytes"]) for ceiling in select(ceilings, "read"))
        gain = read_bandwidth(ceilings, working_set, threads) / read_bandwidth(
            ceilings, cold, threads
        )
        seconds /= max(gain, 1.0)
    return gemv.overhead + seconds


def _weights(layer: Ceiling) -> float:
    return float(layer.parameters["outputs"] * layer.parameters["inputs"])


def _on(threads: int | None, measured: Sequence[Ceiling], what: str) -> list[Ceiling]:
    """Those on so many threads, or on as many as were measured."""
    known = sorted({int(ceiling.parameters.get("threads", 1)) for ceiling in measured})
    if not known:
        raise InputError(f"no {what} was measured", "assay calibrate")
    wanted = known[-1] if threads is None else threads
    if wanted not in known:
        raise InputError(
            f"no {what} was measured on {wanted} threads, only on {', '.join(map(str, known))}"
        )
    return [ceiling for ceiling in measured if int(ceiling.parameters.get("threads", 1)) == wanted]


def _interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """The piecewise linear function through the points, constant beyond them."""
    if at <= points[0][0]:
        return points[0][1]
    if at >= points[-1][0]:
        return points[-1][1]
    above = bisect.bisect_left(points, at, key=lambda point: point[0])
    (x0, y0), (x1, y1) = points[above - 1], points[above]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
