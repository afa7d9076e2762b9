"""Equivalence by two one-sided t-tests (TOST): after a rollback the metric is what it was.

"No significant difference" would also hold after measuring almost nothing. TOST turns it round:
the change is shown to lie within a margin (Schuirmann 1987; Welch's degrees of freedom).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from assay.errors import InputError
from assay.intervals import Interval
from assay.lazy_import import stats

MARGIN: Final = 0.03
"""Share by which the metric may differ and still count as what it was."""


class Equivalence(NamedTuple):
    """After over before, with the interval of the tests: 1 - 2 alpha."""

    ratio: Interval
    margin: float
    p_value: float
    """The larger of the two tests."""
    equivalent: bool
    statement: str


def equivalent(
    before: Sequence[float], after: Sequence[float], margin: float = MARGIN, alpha: float = 0.05
) -> Equivalence:
    """Test that values after are those before, within a margin.

    >>> equivalent([100.0, 101.0, 99.0, 100.5], [100.2, 99.8, 100.9, 99.5]).equivalent
    True
    """
    if len(before) < 2 or len(after) < 2:
        raise InputError(
            f"equivalence: expected two values or more on each side, got {len(before)} and {len(after)}"
        )
    if not all(value > 0.0 for value in (*before, *after)):
        raise InputError("equivalence: expected values above 0")
    old, new = _moments(before), _moments(after)
    change = new.mean - old.mean
    bound = math.log1p(margin)
    variance = old.error + new.error
    if variance == 0.0:
        p_value, half = (0.0 if abs(change) < bound else 1.0), 0.0
    else:
        error = math.sqrt(variance)
        freedom = variance**2 / (old.error**2 / (len(before) - 1) + new.error**2 / (len(after) - 1))
        lower = stats.t.sf((change + bound) / error, freedom)
        upper = stats.t.cdf((change - bound) / error, freedom)
        p_value = float(max(lower, upper))
        half = float(stats.t.ppf(1.0 - alpha, freedom)) * error
    ratio = Interval(*(math.exp(value) for value in (change, change - half, change + half)))
    shown = p_value < alpha
    statement = (
        f"{'equivalent' if shown else 'equivalence not shown'}: after over before "
        f"{ratio.value:.3f} ({ratio.lo:.3f} to {ratio.hi:.3f}, {1 - 2 * alpha:.0%} interval), "
        f"margin {margin:.0%}, TOST p = {p_value:.2g}"
    )
    return Equivalence(ratio, margin, p_value, shown, statement)


class _Moments(NamedTuple):
    mean: float
    error: float
    """Variance of the mean."""


def _moments(values: Sequence[float]) -> _Moments:
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum((value - mean) ** 2 for value in logs)
    return _Moments(mean, squares / (len(logs) - 1) / len(logs))
