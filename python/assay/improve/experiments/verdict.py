"""When a confidence sequence becomes a verdict."""

from __future__ import annotations

from typing import Final, NamedTuple

from assay.improve.experiments.result import Verdict
from assay.intervals import Interval

MOST_SHOWN: Final = 100.0
"""A ratio beyond this, or below its inverse, bounds nothing."""


class Decision(NamedTuple):
    """A verdict with its sentence; `final` where more pairs cannot change what to do."""

    verdict: Verdict
    reason: str
    final: bool


def decide(ratio: Interval, threshold: float, confidence: float = 0.95) -> Decision:
    """The verdict at one look.

    Improved: the whole interval lies above 1 and the estimate is beyond the practical threshold.
    Regressed: the mirror image. An interval that lies within the threshold on both sides ends the
    experiment as undecided: there is no difference worth having.

    >>> decide(Interval(1.05, 1.02, 1.08), 0.01).verdict
    'improved'
    >>> decide(Interval(1.05, 0.99, 1.11), 0.01).verdict
    'undecided'
    """
    interval = f"{between(ratio)}, {confidence:.0%} confidence sequence"
    if ratio.lo > 1.0 and ratio.value >= 1.0 + threshold:
        return Decision("improved", f"{percent(ratio.value)} ({interval})", True)
    if ratio.hi < 1.0 and ratio.value <= 1.0 / (1.0 + threshold):
        return Decision("regressed", f"{percent(ratio.value)} ({interval})", True)
    if ratio.lo > 1.0 / (1.0 + threshold) and ratio.hi < 1.0 + threshold:
        reason = f"no practical difference: {interval}, all within {threshold:.1%} of 1"
        return Decision("undecided", reason, True)
    if ratio.hi < 1.0 + threshold:
        reason = f"no gain worth having: {interval}, practical threshold {threshold:.1%}"
        return Decision("undecided", reason, True)
    reason = f"{percent(ratio.value)}, but the interval includes 1 ({interval})"
    if ratio.lo > 1.0:
        reason = f"{percent(ratio.value)} is below the practical threshold of {threshold:.1%}"
    return Decision("undecided", reason, False)


def percent(ratio: float) -> str:
    """A ratio as a change.

    >>> percent(1.034), percent(0.98), percent(2.5)
    ('+3.4 %', '-2.0 %', '2.50x')
    """
    if ratio >= 2.0:
        return f"{ratio:.2f}x"
    return f"{100.0 * (ratio - 1.0):+.1f} %"


def between(ratio: Interval) -> str:
    """The interval of a ratio; after two noisy pairs it may be too wide to be worth printing.

    >>> between(Interval(1.05, 1.02, 1.08)), between(Interval(1.05, 0.9, 4e7))
    ('+2.0 % to +8.0 %', '-10.0 % or more, not bounded above yet')
    >>> between(Interval(1.05, 1e-9, 4e7))
    'not bounded yet'
    """
    above, below = ratio.hi < MOST_SHOWN, ratio.lo > 1.0 / MOST_SHOWN
    if above and below:
        return f"{percent(ratio.lo)} to {percent(ratio.hi)}"
    if below:
        return f"{percent(ratio.lo)} or more, not bounded above yet"
    return f"{percent(ratio.hi)} or less, not bounded below yet" if above else "not bounded yet"
