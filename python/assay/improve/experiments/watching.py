"""The guard after promotion: tells when a kept configuration has become worse than the start.

A change may be faster first and slower later, at a time that nobody knows: what was good before must
not outweigh what is bad now. Tests begin anew at every window; the one that begins at window j has the
part 1/(j (j + 1)) of alpha, and these parts add up to alpha. The chance that a configuration which is
no worse than the start is ever taken back is alpha at most, however long it is watched.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.improve.experiments.confidence_sequence import ALPHA, log_martingale
from assay.improve.experiments.verdict import percent

MOST_TESTS: Final = 512
"""Tests under way; the oldest that are dropped can only miss, not alarm."""
MOST_CORRELATION: Final = 0.95
LEAST_CORRELATED: Final = 12
"""Windows, those of the A/A experiment among them, before their autocorrelation is told; until then
it is assumed."""
ASSUMED_CORRELATION: Final = 0.8
COUNTED_DIFFERENCES: Final = 0.9
"""Share of the differences of windows that tell the correlation: the largest may be a change of
level, which is what is looked for."""
CORRELATION_Z: Final = 2.0
"""Standard errors, 1 over the root of the windows each, that the correlation is taken to be higher."""
BETS: Final = (2.0, 10.0, 50.0)
"""Bets on the share of bad requests of a window, as far as the allowed share bears them."""
MOST_BET: Final = 0.5
"""Part of the wealth that a window without a bad request may take."""


@dataclass(slots=True)
class _MeanTest:
    """A t-test martingale over the windows since its beginning."""

    level: float
    """Logarithm of 1 over its part of alpha."""
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        change = value - self.mean
        self.mean += change / self.count
        self.squares += change * (value - self.mean)

    def rejects(self, least_sd: float, inflation: float) -> bool:
        """Whether a mean of 0 or more is excluded."""
        if self.count < 2 or self.mean >= 0.0:
            return False
        squares = inflation * max(self.squares, (self.count - 1) * least_sd**2, 1e-18)
        return log_martingale(self.count * self.mean**2 / squares, self.count) >= self.level


@dataclass(slots=True)
class MeanWatch:
    """Watches log-ratios to the start, above 0 better, window by window."""

    alpha: float = ALPHA
    margin: float = 0.0
    """How far below the start does not count: what the start itself is not known better than."""
    least_sd: float = 0.0
    """Standard deviation of a window that is taken as known."""
    before: Sequence[float] = ()
    """Logarithms of windows of equal settings (A/A), one after the other: how far noise lasts."""
    windows: int = 0
    _tests: deque[_MeanTest] = field(default_factory=lambda: deque(maxlen=MOST_TESTS))
    _values: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TESTS))

    def add(self, log_ratio: float) -> float | None:
        """The mean log-ratio of the windows that show a regression; None where none do."""
        self.windows += 1
        value = log_ratio + self.margin
        self._values.append(value)
        number = self.windows
        self._tests.append(_MeanTest(math.log(number * (number + 1) / self.alpha)))
        inflation = self._inflation()
        alarm = None
        for test in self._tests:
            test.add(value)
            if alarm is None and test.rejects(self.least_sd, inflation):
                alarm = test.mean - self.margin
        return alarm

    def _inflation(self) -> float:
        """By how much the mean of windows that correlate varies more than their spread says.

        Squared differences of windows two apart and one apart tell the correlation rho of an AR(1)
        process, (1 - rho^2) to (1 - rho), whatever the level is and should it change. Two standard
        errors are added: few windows tell little.
        """
        series = (list(self.before), list(self._values))
        count = sum(map(len, series))
        if count < LEAST_CORRELATED:
            return _inflation_of(ASSUMED_CORRELATION)
        near = _square_difference(series, 1)
        ratio = _square_difference(series, 2) / near if near > 0.0 else 1.0
        return _inflation_of(ratio - 1.0 + CORRELATION_Z / math.sqrt(count))


def _inflation_of(correlation: float) -> float:
    bounded = min(max(correlation, 0.0), MOST_CORRELATION)
    return (1.0 + bounded) / (1.0 - bounded)


def _square_difference(series: Sequence[Sequence[float]], apart: int) -> float:
    """Mean square of the differences of windows so far apart, without the largest."""
    squares = sorted(
        (later - value) ** 2
        for values in series
        for value, later in zip(values, values[apart:], strict=False)
    )
    counted = squares[: max(round(COUNTED_DIFFERENCES * len(squares)), 1)]
    return math.fsum(counted) / len(counted)


@dataclass(slots=True)
class ShareWatch:
    """Watches the share of bad requests of each window; the window is the unit, not the request."""

    allowed: float
    """The share that is no regression."""
    alpha: float = ALPHA
    windows: int = 0
    _wealth: list[float] = field(default_factory=lambda: [0.0] * len(BETS))

    def add(self, share: float) -> bool:
        """Whether more than the allowed share is shown to be bad."""
        self.windows += 1
        # Shiryaev-Roberts: a test begins at every window, and each has its part.
        begins = 1.0 / (self.windows * (self.windows + 1))
        for place, bet in enumerate(BETS):
            stake = min(bet, MOST_BET / max(self.allowed, 1e-9))
            gain = 1.0 + stake * (share - self.allowed)
            self._wealth[place] = (self._wealth[place] + begins) * gain
        return math.fsum(self._wealth) / len(BETS) >= 1.0 / self.alpha


@dataclass(slots=True)
class PromotionWatch:
    """Objective and service levels together; half of alpha for each."""

    objective: MeanWatch
    levels: ShareWatch

    @classmethod
    def of(
        cls,
        *,
        margin: float,
        least_sd: float,
        allowed: float,
        before: Sequence[float] = (),
        alpha: float = ALPHA,
    ) -> PromotionWatch:
        """A guard that goes back without reason with a chance of alpha at most."""
        return cls(MeanWatch(alpha / 2, margin, least_sd, before), ShareWatch(allowed, alpha / 2))

    def add(self, log_ratio: float | None, bad_share: float) -> str:
        """Why to go back, in words; empty where nothing shows a regression.

        The ratio is None in a window without a figure, as when every request failed.
        """
        if self.levels.add(bad_share):
            return (
                f"{bad_share:.1%} of requests failed or missed the SLO in window "
                f"{self.levels.windows}, {self.levels.allowed:.1%} is allowed"
            )
        worse = None if log_ratio is None else self.objective.add(log_ratio)
        if worse is None:
            return ""
        return (
            f"{percent(math.exp(worse))} to the start by window {self.objective.windows}: "
            "faster first, slower later"
        )
