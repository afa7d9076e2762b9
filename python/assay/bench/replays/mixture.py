"""The confidence sequence's closed form against its definition, by numerical integration.

For data with mean m and squared deviations Q, the marginal likelihood of a prior N(0, g) on the
standardized effect and Jeffreys' prior on the standard deviation is an integral over both. The
closed form in `confidence_sequence` has to agree with its ratio to the null.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from assay.improve.experiments.confidence_sequence import EFFECT_SCALES, log_martingale
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    from scipy import integrate
else:
    integrate = LazyModule("scipy.integrate", globals(), "integrate")

_POINTS: Final = ((3, 4.0), (5, 1.5), (12, 0.4), (40, 0.3))
"""Numbers of pairs, and statistics n m^2 / Q."""


def quadrature_error() -> float:
    """Largest relative error of the closed form over a few points."""
    errors = []
    for count, statistic in _POINTS:
        exact = math.exp(log_martingale(statistic, count))
        integrated = sum(_bayes_factor(statistic, count, scale) for scale in EFFECT_SCALES)
        errors.append(abs(exact / (integrated / len(EFFECT_SCALES)) - 1.0))
    return max(errors)


def _bayes_factor(statistic: float, count: int, scale: float) -> float:
    """Integrate effect and deviation numerically; squared deviations are 1, the mean follows.

    The likelihood of the mean and Q is normal times chi-square; factors that do not depend on the
    effect cancel. The deviation is integrated as u = 1 / deviation.
    """
    mean = math.sqrt(statistic / count)

    def given_effect(effect: float) -> float:
        def density(u: float) -> float:
            exponent = -0.5 * (u * u + count * (u * mean - effect) ** 2)
            return math.exp((count - 1) * math.log(u) + exponent) if u > 0.0 else 0.0

        likelihood, _ = integrate.quad(density, 0.0, _most(count, effect), epsabs=0.0, epsrel=1e-10)
        return float(likelihood)

    def weighted(effect: float) -> float:
        prior = math.exp(-0.5 * effect * effect / scale) / math.sqrt(2.0 * math.pi * scale)
        return prior * given_effect(effect)

    # Beyond a few standardized effects of the data the likelihood is nothing.
    center = mean * math.sqrt(count)
    reach = center + 12.0
    above, _ = integrate.quad(weighted, -reach, reach, epsabs=0.0, epsrel=1e-9, limit=400)
    return float(above) / given_effect(0.0)


def _most(count: int, effect: float) -> float:
    return math.sqrt(count) * (abs(effect) + 1.0) + 12.0
