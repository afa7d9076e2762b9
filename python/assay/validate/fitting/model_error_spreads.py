"""Spreads of the model error from residuals: by kind of figure, and by what is not known.

A residual is the logarithm of observed over predicted, by constants fitted without its source.
Its variance is what the constants explain plus one term for each feature that it has. Residuals of
a level have two parts: what a source has in common, and what its figures differ by. An interval is
for a source that is not among them, so it is the wider the fewer sources there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from assay.array_types import Floats
from assay.model.language.distributions import Z90

COVERAGE = 0.9
FREEDOM = 4.0
"""Degrees of freedom of Student's t: residuals have more outliers than a normal distribution."""
PRIOR = 0.1
PRIOR_LOG_SPREAD = 1.0
"""Prior of each spread, so that a term of which few residuals know stays of the usual size."""
ROUNDS = 40


@dataclass(frozen=True)
class Residual:
    """One figure: how far it is missed, what constants explain, and its features with powers."""

    case: str
    source: str
    level: str
    """The term that is set by residuals of this level, so that 90 % of a new source's are inside."""
    log: float
    explained: float
    features: Mapping[str, float]

    def variance(self, spreads: Mapping[str, float]) -> float:
        """Variance of the logarithm by some spreads."""
        terms = ((spreads.get(name, 0.0) * power) ** 2 for name, power in self.features.items())
        return self.explained**2 + math.fsum(terms)


def weights_of(residuals: Sequence[Residual]) -> Floats:
    """A source weighs as the root of its figures: neither one figure nor one team decides."""
    sources = [(residual.source, residual.level) for residual in residuals]
    counts = Counter(sources)
    return np.array([counts[source] ** -0.5 for source in sources])


def fit_spreads(
    residuals: Sequence[Residual], known: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The spread of every feature; those in `known` stay.

    The most probable spreads come first, from all residuals together. Then the term of each
    level is set so that its intervals hold 90 % of its residuals, each larger by Student's factor.
    A level that one source alone knows keeps its most probable spread: it says how the figures of
    that source scatter, not how sources differ.
    """
    fixed = dict(known or {})
    names = sorted({name for residual in residuals for name in residual.features} - fixed.keys())
    spreads = {**fixed, **_most_probable(residuals, names, fixed)}
    levels = sorted(
        {residual.level for residual in residuals}, key=lambda level: _order(level, residuals)
    )
    for level in levels:
        own = [residual for residual in residuals if residual.level == level]
        if level not in fixed and len({residual.source for residual in own}) > 1:
            factor = student_factor(own)
            larger = [replace(residual, log=residual.log * factor) for residual in own]
            spreads[level] = _calibrated(larger, level, spreads)
    return spreads


def degrees_of_freedom(residuals: Sequence[Residual]) -> float:
    """How well residuals know the variance of a figure of a further source.

    That variance is one between sources plus one within, estimated by the method of moments around
    a mean of zero; Satterthwaite's equation gives the degrees of freedom of their sum. Sources that
    differ by more than their figures count, figures of sources that agree do.
    """
    logs: dict[str, list[float]] = {}
    for residual in residuals:
        logs.setdefault(residual.source, []).append(residual.log)
    count, sources = len(residuals), len(logs)
    means = {source: float(np.mean(own)) for source, own in logs.items()}
    squares = math.fsum((residual.log - means[residual.source]) ** 2 for residual in residuals)
    within = squares / (count - sources) if count > sources else 0.0
    of_means = float(np.mean([mean**2 for mean in means.values()]))
    between = of_means - within * float(np.mean([1 / len(own) for own in logs.values()]))
    if between <= 0:
        return float(count)
    inside = within**2 / (count - sources) if count > sources else 0.0
    return (between + within) ** 2 / (between**2 / sources + inside)


def student_factor(residuals: Sequence[Residual]) -> float:
    """How much wider an interval is than a normal one, for the sources that it was learned from."""
    quantile = float(student.ppf((1 + COVERAGE) / 2, degrees_of_freedom(residuals)))
    return quantile / Z90


def _order(level: str, residuals: Sequence[Residual]) -> tuple[int, str]:
    """Levels that others build on come first."""
    return -sum(level in residual.features for residual in residuals), level


def _most_probable(
    residuals: Sequence[Residual], names: Sequence[str], fixed: Mapping[str, float]
) -> dict[str, float]:
    powers = np.array(
        [[residual.features.get(name, 0.0) for name in names] for residual in residuals]
    )
    base = np.array([residual.variance(fixed) for residual in residuals])
    logs = np.array([residual.log for residual in residuals])
    weights = weights_of(residuals)

    def loss(point: Floats) -> float:
        variance = base + powers**2 @ np.exp(2 * point)
        t = np.log1p(logs**2 / (FREEDOM * variance))
        misfit = 0.5 * np.log(variance) + 0.5 * (FREEDOM + 1) * t
        prior = ((point - math.log(PRIOR)) / PRIOR_LOG_SPREAD) ** 2
        return float((weights * misfit).sum() + 0.5 * prior.sum())

    start = np.full(len(names), math.log(PRIOR))
    solution = minimize(loss, start, method="L-BFGS-B", bounds=[(math.log(1e-3), 1.0)] * len(names))
    return {name: float(math.exp(log)) for name, log in zip(names, solution.x, strict=True)}


def _calibrated(residuals: Sequence[Residual], level: str, spreads: Mapping[str, float]) -> float:
    """The spread of a level at which 90 % of its residuals, by weight, are inside."""
    weights = weights_of(residuals)

    def inside(spread: float) -> float:
        changed = {**spreads, level: spread}
        reach = [Z90 * math.sqrt(residual.variance(changed)) for residual in residuals]
        hits = [
            abs(residual.log) <= limit for residual, limit in zip(residuals, reach, strict=True)
        ]
        return float((weights * hits).sum() / weights.sum())

    low, high = 0.0, 2.0
    if inside(low) >= COVERAGE:
        return low
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= COVERAGE else (middle, high)
    return high


def coverage(residuals: Sequence[Residual], spreads: Mapping[str, float]) -> float:
    """Share of residuals inside their interval."""
    hits = [
        abs(residual.log) <= Z90 * math.sqrt(residual.variance(spreads)) for residual in residuals
    ]
    return sum(hits) / len(hits)
