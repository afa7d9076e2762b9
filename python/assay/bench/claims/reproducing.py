"""A kept result measured again: within its spread, outside, undecided, or of another machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from assay.answers import data_of
from assay.bench.harness.case import unit_named
from assay.bench.harness.comparison import by_reference
from assay.bench.harness.result import Figure, Result
from assay.bench.harness.statistics import Interval, median, median_interval, quantile

WITHIN: Final = "within its spread"
OUTSIDE: Final = "outside"
UNDECIDED: Final = "undecided"
OTHER_MACHINE: Final = "another machine"
WRONG: Final = "wrong"
LEAST_BAND: Final = 0.02
"""A spread below this is not held against a result: machines drift by as much within an hour."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A figure then and now, by what both are compared."""

    name: str
    verdict: str
    by: str
    then: float
    now: float
    band: Interval
    """From the 10 to the 90 % quantile of the kept rounds, at least 2 % to each side."""
    interval: Interval
    """Of the median now; of fewer than six rounds, from the least to the most."""

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **data_of(self, "name verdict by then now"),
            "band": list(self.band),
            "interval": list(self.interval),
        }


def reproduced(now: Result, then: Result, *, is_timed: bool) -> list[Reproduced]:
    """Every figure that both results have."""
    before = {figure.name: figure for figure in then.figures}
    is_same = now.machine["fingerprint"] == then.machine["fingerprint"]
    return [
        _reproduced(figure, before[figure.name], may_compare=is_same or not is_timed)
        for figure in now.figures
        if figure.name in before
    ]


def _reproduced(now: Figure, then: Figure, *, may_compare: bool) -> Reproduced:
    """Of another machine only ratios to what ran in the same rounds are compared."""
    shared = by_reference(now, then)
    by, values_now, values_then = shared or (now.unit, now.own.values, then.own.values)
    middle = median(values_then)
    band = Interval(
        min(quantile(values_then, 0.1), middle * (1.0 - LEAST_BAND)),
        max(quantile(values_then, 0.9), middle * (1.0 + LEAST_BAND)),
    )
    interval = median_interval(values_now) or Interval(min(values_now), max(values_now))
    value = median(values_now)
    if not now.check.passed or now.unit != then.unit:
        verdict = WRONG
    elif not may_compare and shared is None and unit_named(now.unit).is_timed:
        verdict = OTHER_MACHINE
    elif band.low <= value <= band.high:
        verdict = WITHIN
    else:
        is_apart = interval.high < band.low or interval.low > band.high
        verdict = OUTSIDE if is_apart else UNDECIDED
    return Reproduced(now.name, verdict, by, middle, value, band, interval)


def machine_text(result: Result) -> str:
    """The machine of a result, in words."""
    machine = result.machine
    hardware = dict.fromkeys([machine["device_description"], machine["processor"]])
    return f"{', '.join(hardware)}, {machine['usable_cores']} cores ({machine['fingerprint'][:8]})"
