"""Rows of measurements, and the suites that produce them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import unknown_name

_SUITES = {"graph": "assay.bench.graph"}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, beside its ceiling and its rival where it has them, all in `unit`.

    `ratio` above one means that we win; `spread` is (p90 - p10) / median over repetitions.
    """

    name: str
    value: float
    unit: str
    ceiling: float | None = None
    rival: float | None = None
    ratio: float | None = None
    spread: float | None = None
    note: str = ""

    def to_data(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def suites() -> tuple[str, ...]:
    """Names of the suites."""
    return tuple(_SUITES)


def run(
    suite: str, *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> list[Row]:
    """Run a suite; `progress` is told what is being measured."""
    if suite not in _SUITES:
        raise unknown_name("suite", suite, _SUITES)
    rows: list[Row] = importlib.import_module(_SUITES[suite]).run(
        quick, progress or (lambda _: None)
    )
    return rows


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of repeated calls: the median and the relative spread."""

    median: float
    spread: float


def measure(call: Callable[[], object], *, seconds: float = 1.0, at_least: int = 5) -> Timing:
    """Time a call again and again, after one call to warm up."""
    call()
    samples: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(samples) < at_least or time.perf_counter() < deadline:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    samples.sort()
    median = samples[len(samples) // 2]
    low, high = samples[len(samples) // 10], samples[(len(samples) * 9) // 10]
    return Timing(median, (high - low) / median)
