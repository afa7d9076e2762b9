"""SLO attainment: the share of requests that keep every limit, and whether it is surely high enough.

Requests of one window are not independent: one long queue delays many. The interval is the exact binomial
one (Clopper and Pearson) of the effective number of requests, n / (1 + 2 sum of autocorrelations), with the sum
cut at the first pair that is not positive (Geyer's initial positive sequence).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.array_types import Flags
from assay.intervals import Interval
from assay.lazy_import import LazyModule
from assay.load.metrics import is_good, limits_ms, request_latencies_ms, succeeded
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import ServiceLevel

special: Any = LazyModule("scipy.special", globals(), "special")

CONFIDENCE: Final = 0.95
"""Of each one-sided bound."""

OVERLOAD: Final = "overload"
ERRORS: Final = "errors"


@dataclass(frozen=True, slots=True)
class Attainment:
    """What windows at one load say of an SLO."""

    share: Interval
    """Requests that keep every limit; the bounds are one-sided at 95 %."""
    binds: str
    """The term that is kept least often: ttft, tpot, e2el, errors, or overload."""
    requests: int

    def holds(self, least: float) -> bool | None:
        """Whether at least this share keeps the SLO; None where the interval does not say."""
        if self.binds == OVERLOAD or self.share.hi < least:
            return False
        return True if self.share.lo >= least else None


def attainment(windows: Sequence[Measurement], slo: ServiceLevel) -> Attainment:
    """The attainment of an SLO over windows at one load; failed requests do not keep it.

    An overloaded window has no attainment: its latencies depend on its length.
    """
    records = [record for window in windows for record in window.records]
    if any(window.load_state == "overloaded" for window in windows):
        return Attainment(Interval(0.0, 0.0, 0.0), OVERLOAD, len(records))
    series = [good_requests(window.records, slo) for window in windows]
    good = sum(float(window.sum()) for window in series)
    number = sum(window.size for window in series)
    share = good / number if number else 0.0
    effective = sum(effective_number(window) for window in series)
    return Attainment(_interval(share, effective), _binding(records, slo), number)


def good_requests(records: Sequence[RequestRecord], slo: ServiceLevel) -> Flags:
    """Which requests keep the SLO, in the order in which they were sent."""
    ordered = sorted(records, key=lambda record: record.sent_s)
    good = np.array([succeeded(record) for record in ordered], dtype=bool)
    if good.any():
        done = [record for record in ordered if succeeded(record)]
        good[good] = is_good(done, slo)
    return good


def effective_number(good: Flags) -> float:
    """How many independent requests say as much as these.

    >>> effective_number(np.ones(40, dtype=bool))
    40.0
    """
    centered = good.astype(np.float64) - good.mean() if good.size else np.zeros(0)
    variance = float(centered @ centered)
    if variance == 0.0:
        return float(good.size)
    total = 0.0
    for lag in range(1, good.size - 1, 2):
        pair = float(centered[:-lag] @ centered[lag:] + centered[: -lag - 1] @ centered[lag + 1 :])
        if pair <= 0:
            break
        total += pair / variance
    return max(1.0, good.size / (1.0 + 2.0 * total))


def least_requests(share: float) -> int:
    """How many requests, all good, are needed before a share can be shown.

    >>> least_requests(0.9), least_requests(0.99)
    (29, 299)
    """
    return math.ceil(math.log(1.0 - CONFIDENCE) / math.log(share))


def _interval(share: float, number: float) -> Interval:
    """Clopper and Pearson's bounds; the number of requests need not be whole."""
    if number <= 0:
        return Interval(share, 0.0, 1.0)
    good, bad = share * number, (1.0 - share) * number
    tail = 1.0 - CONFIDENCE
    lo = float(special.betaincinv(good, bad + 1.0, tail)) if good > 0 else 0.0
    hi = float(special.betaincinv(good + 1.0, bad, CONFIDENCE)) if bad > 0 else 1.0
    return Interval(share, lo, hi)


def _binding(records: Sequence[RequestRecord], slo: ServiceLevel) -> str:
    """The term that the fewest requests keep; of equals, the one nearest to its limit."""
    done = [record for record in records if succeeded(record)]
    failed = 1.0 - len(done) / len(records) if records else 0.0
    values = request_latencies_ms(done)
    misses = {ERRORS: (failed, 0.0)}
    for name, limit in limits_ms(slo).items():
        broken = float((values[name] > limit).mean()) if done else 0.0
        mean = float(values[name].mean()) / limit if done else 0.0
        misses[name] = (broken, mean)
    return max(misses, key=lambda name: misses[name])
