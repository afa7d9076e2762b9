"""When the pairs of a comparison are enough, and what they say."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from assay.gating.settings import GateSettings
from assay.improve.experiments.result import Verdict
from assay.improve.experiments.verdict import between, decide, percent
from assay.intervals import Interval


class Judgment(NamedTuple):
    """A verdict after some pairs; `final` where more of them would not change what to do."""

    verdict: Verdict
    reason: str
    passed: bool
    """Improved, or without the slowdown that matters."""
    final: bool


def judge(ratio: Interval, pairs: int, settings: GateSettings) -> Judgment:
    """Head over base, above 1 better, after so many pairs.

    >>> judge(Interval(0.95, 0.92, 0.98), 8, GateSettings()).verdict
    'regressed'
    >>> judge(Interval(1.0, 0.97, 1.03), 8, GateSettings())[2:]
    (True, True)
    >>> judge(Interval(1.05, 0.97, 1.13), 8, GateSettings())[2:]
    (True, False)
    >>> judge(Interval(1.0, 0.90, 1.10), 8, GateSettings())[2:]
    (False, False)
    """
    if pairs < settings.least_pairs:
        reason = f"{pairs} of {settings.least_pairs} pairs: too few for a verdict"
        return Judgment("undecided", reason, False, False)
    confidence = 1.0 - settings.alpha
    decided = decide(ratio, settings.threshold, confidence)
    if decided.verdict != "undecided":
        return Judgment(decided.verdict, decided.reason, decided.verdict == "improved", True)
    least = 1.0 - settings.margin
    interval = f"{between(ratio)}, {share(confidence)} confidence sequence"
    margin = f"a slowdown of {share(settings.margin)}"
    if ratio.lo > least:
        reason = f"{margin} or more is excluded: {interval}"
        # A gain of as much may still be shown.
        return Judgment("undecided", reason, True, ratio.hi < 1.0 / least)
    reason = f"{percent(ratio.value)}, {margin} is not excluded: {interval}"
    return Judgment("undecided", reason, False, False)


def share(value: float) -> str:
    """A share in percent.

    >>> share(0.05), share(0.9917)
    ('5 %', '99.17 %')
    """
    return f"{100.0 * value:.4g} %"


Half = Literal["like the base", "like the head"]


def cut_of(ends: Interval) -> float:
    """The ratio that tells commits like the base from those like the head.

    Half of the estimated effect, in logarithms; no further from 1 than the near end of its interval,
    so that the true effect is beyond the cut whenever the interval covers it.

    >>> round(cut_of(Interval(0.90, 0.85, 0.95)), 4), round(cut_of(Interval(0.90, 0.81, 0.99)), 4)
    (0.95, 0.99)
    """
    estimate = 0.5 * math.log(ends.value)
    near = math.log(ends.hi if ends.value < 1.0 else ends.lo)
    return math.exp(estimate if abs(estimate) < abs(near) else near)


def is_bounded(ends: Interval) -> bool:
    """Whether half of the estimated effect lies inside its interval's near end: the cut is best there.

    >>> is_bounded(Interval(0.90, 0.85, 0.94)), is_bounded(Interval(0.90, 0.81, 0.99))
    (True, False)
    """
    return abs(math.log(cut_of(ends)) - 0.5 * math.log(ends.value)) < _RESOLUTION


_RESOLUTION: Final = 1e-12


def half_of(ratio: Interval, cut: float) -> Half | None:
    """Which end a commit is like, by its ratio to the base; None where the interval has the cut.

    >>> half_of(Interval(0.99, 0.97, 1.01), 0.95), half_of(Interval(0.97, 0.93, 1.01), 0.95)
    ('like the base', None)
    """
    if ratio.lo <= cut <= ratio.hi:
        return None
    is_beyond = ratio.hi < cut if cut < 1.0 else ratio.lo > cut
    return "like the head" if is_beyond else "like the base"
