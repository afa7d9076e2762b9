"""Forecasts scored against outcomes: how far off, and how often inside the interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from assay.improve.experiments.result import ExperimentResult
from assay.load.figure import Figure


@dataclass(frozen=True, slots=True)
class ForecastScore:
    """Predicted against measured ratios."""

    count: int
    inside: int
    """Predictions whose 90 % interval meets the measured interval."""
    median_error: float | None
    """Median of |predicted / measured - 1|; None without a forecast."""
    bias: float | None
    """Median of predicted / measured - 1: above 0 is too hopeful."""

    @property
    def coverage(self) -> float | None:
        """The share inside; 90 % where the intervals are right."""
        return self.inside / self.count if self.count else None

    def sentence(self) -> str:
        """In words."""
        if not self.count or self.median_error is None or self.bias is None:
            return "no forecast had an outcome to be scored against"
        return (
            f"{self.inside} of {self.count} outcomes inside the 90 % interval; median error "
            f"{self.median_error:.1%}, bias {self.bias:+.1%}"
        )

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "count": self.count,
            "inside": self.inside,
            "coverage": self.coverage,
            "median_error": self.median_error,
            "bias": self.bias,
        }


def score(pairs: Iterable[tuple[Figure, Figure]]) -> ForecastScore:
    """Score predicted ratios against measured ones.

    An outcome is inside where the two intervals have a value in common: what is measured is not
    exact either.

    >>> score([(Figure(1.5, 1.2, 1.9), Figure(1.4, 1.38, 1.42))]).coverage
    1.0
    """
    errors = []
    inside = 0
    for predicted, measured in pairs:
        errors.append(predicted.value / measured.value - 1)
        inside += predicted.lo <= measured.hi and measured.lo <= predicted.hi
    if not errors:
        return ForecastScore(0, 0, None, None)
    return ForecastScore(
        len(errors),
        inside,
        statistics.median(abs(one) for one in errors),
        statistics.median(errors),
    )


def score_results(results: Iterable[ExperimentResult]) -> ForecastScore:
    """Score the forecasts of a run's trials; those without one, or without an outcome, do not count."""
    return score(
        (one.candidate.prediction, one.ratio)
        for one in results
        if one.candidate.prediction is not None
        and one.ratio is not None
        and one.verdict != "invalid"
        and math.isfinite(one.ratio.value)
        and one.ratio.value > 0
    )
