"""Samples of one ceiling; those that waited for a core while other programs ran are set aside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from assay.bench.harness.case import UNITS, Check, PreparedCase
from assay.bench.harness.quiescence import wait_until_idle
from assay.bench.harness.run_queue import waited_seconds
from assay.bench.harness.runner import QUICK, Sampler, SamplingPlan
from assay.bench.harness.statistics import quantile
from assay.errors import AssayError
from assay.planner.specs import Ceiling

PLAN: Final = replace(
    QUICK, seconds=0.2, min_rounds=7, max_rounds=31, min_sample_seconds=2e-4, waits_for_idle=False
)
GPU_PLAN: Final = replace(PLAN, min_sample_seconds=4e-3)
"""Longer samples, because of launch latency."""

LEAST_QUIET: Final = 5
"""Samples without waiting that suffice for a median; with fewer, the best of all count."""
_MIDDLE: Final = (0.1, 0.5, 0.9)
_BEST: Final = (0.5, 0.9, 1.0)
_LEAST: Final = (0.0, 0.1, 0.5)
"""Quantiles of the samples that are a ceiling's low end, value and high end."""
_MOST_WAITING: Final = 0.02
"""Share of a sample that its threads may have waited for a core."""

BASE_UNITS: Final = {"GB/s": "byte/s", "GFLOP/s": "FLOP/s", "TFLOP/s": "FLOP/s", "us": "s"}
"""Base units, in which a calibration is stored."""


Limit = Callable[[int | None], AbstractContextManager[object]]
"""Limits the threads of CPU kernels in its `with` block."""


class WrongAnswerError(AssayError):
    """What was timed did not compute the right answer."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """A ceiling to measure; `prepare` allocates memory, so it is called just before."""

    name: str
    unit: str
    parameters: Mapping[str, Any]
    prepare: Callable[[], PreparedCase]
    setting: Callable[[], AbstractContextManager[object]] = nullcontext
    """Holds while it is measured, such as a limit on threads."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A measured ceiling, and how many samples other programs disturbed."""

    ceiling: Ceiling
    disturbed: int
    """Samples that were set aside; all of them count where too few would remain."""
    is_quiet: bool
    """Whether enough samples were undisturbed."""


def threads_text(threads: int | None) -> str:
    """The end of a name that says how many threads; empty where they are not chosen."""
    return "" if threads is None else f", {threads} thread{'s' if threads > 1 else ''}"


def measure(what: Measurement, plan: SamplingPlan) -> Sampled:
    """Check the answer, sample, check again; raises `WrongAnswerError`."""
    prepared = what.prepare()
    subject = prepared.own
    with what.setting():
        _require_right(what, prepared.check, 0)
        sampler = Sampler(subject, plan)
        quiet, disturbed = _samples(sampler, plan)
        # The first check would miss a buffer that later calls corrupt.
        _require_right(what, prepared.check, sampler.made - 1)
    is_quiet = len(quiet) >= LEAST_QUIET
    unit = UNITS[what.unit]
    values = [
        unit.value(subject.amount, seconds) * unit.scale
        for seconds in (quiet if is_quiet else quiet + disturbed)
    ]
    # Other programs only make samples worse: the best of disturbed ones are nearest to the ceiling.
    shares = _MIDDLE if is_quiet else _BEST if unit.higher_is_better else _LEAST
    low, middle, high = (quantile(values, share) for share in shares)
    ceiling = Ceiling(
        value=middle,
        lo=low,
        hi=high,
        unit=BASE_UNITS[what.unit],
        repeats=len(values),
        parameters={**_work(prepared), **what.parameters},
    )
    return Sampled(ceiling, len(disturbed), is_quiet)


def _work(prepared: PreparedCase) -> dict[str, float]:
    counts = {"bytes": prepared.bytes, "flops": prepared.flops}
    return {name: count for name, count in counts.items() if count is not None}


def _samples(sampler: Sampler, plan: SamplingPlan) -> tuple[list[float], list[float]]:
    """Undisturbed and disturbed samples; more of them, up to the plan's limit, under load."""
    quiet: list[float] = []
    disturbed: list[float] = []
    start = time.perf_counter()
    while len(quiet) + len(disturbed) < plan.max_rounds:
        spent = time.perf_counter() - start
        number = len(quiet) + len(disturbed)
        is_enough = spent > plan.seconds and number >= plan.min_rounds
        if (is_enough and len(quiet) >= LEAST_QUIET) or spent > plan.max_seconds:
            break
        sampler.subject.call(sampler.made)
        sampler.made += 1
        before, began = waited_seconds(), time.perf_counter()
        value = sampler.sample()
        took = time.perf_counter() - began
        # The wait of a thread that did not get a core is counted only once it gets one.
        wait_until_idle()
        after = waited_seconds()
        # Where waiting is not counted, no sample is known to be disturbed.
        waited = 0.0 if before is None or after is None else after - before
        (disturbed if waited > _MOST_WAITING * took else quiet).append(value)
    return quiet, disturbed


def _require_right(what: Measurement, check: Check, number: int) -> None:
    error = check.error(number)
    # The comparison is false for NaN, which an output that was not written gives.
    if not error <= check.tolerance:
        raise WrongAnswerError(
            f"{what.name} computed a wrong answer: expected a relative error of at most "
            f"{check.tolerance:g} to {check.against}, got {error:g}",
            "assay doctor checks the device",
        )
