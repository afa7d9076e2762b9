"""A kept result measured again: within its spread, outside, undecided, or of another machine."""

from __future__ import annotations

from collections.abc import Sequence
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
    doubt: str = ""
    """How the figure itself moved where that contradicts its ratio."""

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **data_of(self, "name verdict by then now doubt"),
            "band": list(self.band),
            "interval": list(self.interval),
        }


def reproduced(now: Result, then: Result, *, is_timed: bool) -> list[Reproduced]:
    """Every figure that both results have."""
    before = {figure.name: figure for figure in then.figures}
    is_same = now.machine["fingerprint"] == then.machine["fingerprint"]
    return [
        _reproduced(
            figure, before[figure.name], may_compare=is_same or not is_timed, is_same=is_same
        )
        for figure in now.figures
        if figure.name in before
    ]


def _reproduced(now: Figure, then: Figure, *, may_compare: bool, is_same: bool) -> Reproduced:
    """Of another machine only ratios to what ran in the same rounds are compared."""
    shared = by_reference(now, then)
    by, values_now, values_then = shared or (now.unit, now.own.values, then.own.values)
    middle, value = median(values_then), median(values_now)
    band, interval = _band(values_then), _interval(values_now)
    doubt = ""
    if not now.check.passed or now.unit != then.unit:
        verdict = WRONG
    elif not may_compare and shared is None and unit_named(now.unit).is_timed:
        verdict = OTHER_MACHINE
    else:
        verdict = _verdict(value, band, interval)
        if shared is not None and is_same:
            doubt = _doubt(verdict, band, middle, now, then)
            verdict = UNDECIDED if doubt else verdict
    return Reproduced(now.name, verdict, by, middle, value, band, interval, doubt)


def _band(values: Sequence[float]) -> Interval:
    middle = median(values)
    return Interval(
        min(quantile(values, 0.1), middle * (1.0 - LEAST_BAND)),
        max(quantile(values, 0.9), middle * (1.0 + LEAST_BAND)),
    )


def _interval(values: Sequence[float]) -> Interval:
    return median_interval(values) or Interval(min(values), max(values))


def _verdict(value: float, band: Interval, interval: Interval) -> str:
    if band.low <= value <= band.high:
        return WITHIN
    is_apart = interval.high < band.low or interval.low > band.high
    return OUTSIDE if is_apart else UNDECIDED


def _doubt(verdict: str, band: Interval, middle: float, now: Figure, then: Figure) -> str:
    """How the figure itself contradicts the verdict by its ratio, on the same machine; empty if not.

    A ratio says that a slower figure is one of a slower machine only where its spread would have
    shown the difference.
    """
    value, before = now.value, then.value
    alone = _verdict(value, _band(then.own.values), _interval(now.own.values))
    if not value or not before:
        return ""
    times = value / before
    # Had the reference stayed as it was, the ratio would be this now.
    expected = middle * (times if unit_named(now.unit).higher_is_better else 1.0 / times)
    would_show = not band.low <= expected <= band.high
    if (verdict, alone) == (OUTSIDE, WITHIN) or (
        (verdict, alone) == (WITHIN, OUTSIDE) and not would_show
    ):
        return f"by value {alone}: {before:.4g} then, {value:.4g} {now.unit} now"
    return ""


def machine_text(result: Result) -> str:
    """The machine of a result, in words."""
    machine = result.machine
    hardware = dict.fromkeys([machine["device_description"], machine["processor"]])
    return f"{', '.join(hardware)}, {machine['usable_cores']} cores ({machine['fingerprint'][:8]})"
