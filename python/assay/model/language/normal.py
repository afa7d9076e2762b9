"""The standard normal distribution over arrays, with NumPy alone.

Importing SciPy for these two functions takes longer than answering a question.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from assay.array_types import Floats
from assay.lazy_import import np

if TYPE_CHECKING:
    pass


# Coefficients of Wichura 1988, Algorithm AS 241: The Percentage Points of the Normal Distribution,
# Applied Statistics 37: numerator and denominator, highest power first. Errors are near 1e-16.
_CENTRAL: Final = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_NEAR_TAIL: Final = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip
_FAR_TAIL: Final = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def normal_quantile(probability: Any) -> Floats:
    """Quantiles of the standard normal distribution: infinite at 0 and 1, NaN outside them."""
    given: Floats = np.asarray(probability, dtype=np.float64)
    with np.errstate(all="ignore"):
        offset = given - 0.5
        result = _ratio(_CENTRAL, 0.180625 - offset * offset)
        result *= offset
        tails = np.abs(offset) > 0.425
        result[tails] = _tail_quantile(given[tails])
    return result


def _tail_quantile(probability: Floats) -> Floats:
    depth = np.sqrt(-np.log(np.minimum(probability, 1.0 - probability)))
    result = _ratio(_NEAR_TAIL, depth - 1.6)
    far = depth > 5.0
    if far.any():
        result[far] = _ratio(_FAR_TAIL, depth[far] - 5.0)
        result[np.isposinf(depth)] = math.inf
    return np.copysign(result, probability - 0.5)


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], at: Floats) -> Floats:
    above, below = (_polynomial(each, at) for each in coefficients)
    above /= below
    return above


def _polynomial(coefficients: tuple[float, ...], at: Floats) -> Floats:
    result = np.full_like(at, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= at
        result += coefficient
    return result


def normal_share(score: Any) -> Floats:
    """The share of the standard normal distribution below a score."""
    scores: Floats = np.asarray(score, dtype=np.float64)
    shares = [0.5 * math.erfc(-z / math.sqrt(2.0)) for z in scores.ravel().tolist()]
    return np.array(shares).reshape(scores.shape)
