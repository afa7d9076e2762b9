"""`--maximize rate`: a workload whose objective is the highest rate that keeps the service levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from assay.errors import InputError, NoDataError
from assay.improve.engines.protocol import Engine
from assay.load.metrics import limits_ms
from assay.load.workloads.ramp import LEAST_REQUESTS, SLO_RATE, SPAN, ramp_length, ramped
from assay.load.workloads.workload import Window, Workload

MAXIMIZED: Final = ("rate",)
RAMP_SHARE: Final = 0.0125
"""Length of a ramp as a part of the budget."""
LEAST_RAMP_S: Final = 5.0
EDGE: Final = 1.05
"""A rate that is kept within this of an end of a ramp may lie beyond it."""
INSIDE: Final = 1.25
"""The middle of the ramps of a run over the rate that is kept at its start: room for gains."""
MOST_PILOTS: Final = 8
LONGER: Final = 2.0
"""Length of a ramp over that of those that contradict each other."""
LEAST_BLOCKS: Final = 20
"""Ramps of a run that comes to a verdict, each a block: the start, its noise, a trial and its soak."""
MOST_RATE: Final = 2000.0
"""Requests a second that a load client of one process cannot send."""
AT_ONCE: Final = 16
"""Requests at once of the window that the first ramp is sized by."""


def maximizing_rate(
    engine: Engine,
    workload: Workload,
    budget_s: float,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Workload:
    """The workload as ramps around the rate that the engine keeps its service levels at now.

    Raises `NoDataError` where it keeps them at no rate that was tried, and where ramps are so long that
    what is left of the budget is too short for a verdict.
    """
    if not limits_ms(workload.slo):
        raise InputError(
            "--maximize rate: expected service levels to keep, got none",
            "add --slo ttft=1s,tpot=50ms",
        )
    rate, left_s = workload.rate, budget_s
    if rate is None:
        rate, took_s = _first_rate(engine, workload)
        left_s -= took_s
    seconds = max(RAMP_SHARE * budget_s, LEAST_RAMP_S)
    keeps, breaks = 0.0, math.inf
    for _ in range(MOST_PILOTS):
        ramp = ramped(workload, rate, round(rate * seconds), seed)
        if _seconds(ramp) > left_s / LEAST_BLOCKS and not keeps and breaks < math.inf:
            # The lower the rate, the longer the ramp: none that may be tried keeps the limits.
            break
        _check_length(ramp, budget_s, left_s)
        say(f"raising the rate from {rate / SPAN:.3g} to {rate * SPAN:.3g} requests/s")
        measured = engine.measure(ramp, Window(requests=ramp_length(ramp)))
        left_s -= measured.seconds
        kept = measured.figures.get(SLO_RATE)
        if kept is None:
            raise NoDataError(
                f"{workload.name}: expected answers to a ramp of {ramp_length(ramp)} requests, got "
                f"{measured.errors} errors"
            )
        if rate / SPAN * EDGE < kept < rate * SPAN / EDGE:
            around = _around(workload, kept, seconds, seed)
            _check_length(around, budget_s, left_s)
            return around
        if kept < rate:
            breaks = min(breaks, rate / SPAN)
            rate = kept / SPAN
        else:
            keeps = max(keeps, rate * SPAN)
            rate = kept * SPAN / INSIDE
        if keeps >= breaks:
            # A ramp that ends before its answers do meets no queue, or only one of later requests.
            rate, seconds = math.sqrt(keeps * breaks), LONGER * seconds
            keeps, breaks = 0.0, math.inf
        if rate > MOST_RATE:
            raise NoDataError(
                f"--maximize rate: expected a rate at which the service levels break, got none up to "
                f"{kept:.3g} requests/s, which is as many as one client sends",
                "tighter limits, or longer requests (--input-tokens, --output-tokens)",
            )
    raise NoDataError(
        f"--maximize rate: expected a rate that keeps the service levels, got none near {rate:.3g} "
        "requests/s",
        "assay load --find max-rate searches with steady rates; the limits may be out of reach",
    )


def _around(workload: Workload, kept: float, seconds: float, seed: int) -> Workload:
    """Ramps with room for gains above the rate that is kept now."""
    rate = INSIDE * kept
    ramp = ramped(workload, rate, round(rate * seconds), seed)
    note = (
        f"rates rise from {rate / SPAN:.3g} to {rate * SPAN:.3g} requests/s in each block of "
        f"{ramp_length(ramp)} requests"
    )
    return replace(ramp, notes=(*ramp.notes, note))


def _seconds(ramp: Workload) -> float:
    """How long the requests of one ramp take to arrive."""
    assert ramp.rate is not None
    return ramp_length(ramp) / ramp.rate


def _check_length(ramp: Workload, budget_s: float, left_s: float) -> None:
    """Refuse ramps that no trial could be decided with."""
    seconds, most_s = _seconds(ramp), left_s / LEAST_BLOCKS
    if seconds <= most_s:
        return
    needed_s = LEAST_BLOCKS * seconds + budget_s - left_s
    raise NoDataError(
        f"--maximize rate: expected ramps of at most {max(most_s, 0.0):.1f} s, of which a verdict needs "
        f"{LEAST_BLOCKS}, got {seconds:.1f} s for {ramp_length(ramp)} requests at {ramp.rate:.3g} a second",
        f"--budget {math.ceil(1.1 * needed_s / 60.0)}m; shorter requests (--output-tokens) arrive faster",
    )


def _first_rate(engine: Engine, workload: Workload) -> tuple[float, float]:
    """Requests a second with some at once, where the search begins, and the seconds of asking."""
    closed = replace(workload, arrival="closed", concurrency=AT_ONCE, rate=None)
    measured = engine.measure(closed, Window(requests=max(2 * AT_ONCE, LEAST_REQUESTS // 2)))
    rate = measured.figures.get("request_throughput", 0.0)
    if not rate > 0:
        raise NoDataError(f"{workload.name}: expected answers, got {measured.errors} errors")
    return rate, measured.seconds
