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

# Coefficients of Cody 1969, Rational Chebyshev Approximations for the Error Function, Mathematics of
# Computation 23: erf below 0.46875, erfc times exp(x^2) up to 4, and what is left of its asymptote.
_ERF: Final = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
     2.84423683343917062e3),
)  # fmt: skip
_ERFC: Final = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3,
     1.23033935480374942e3),
)  # fmt: skip
_ERFC_FAR: Final = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1,
     6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip
_SQRT_INVERSE_PI: Final = 5.6418958354775628695e-1


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
    at = scores.ravel() / -math.sqrt(2.0)
    with np.errstate(all="ignore"):
        depth = np.abs(at)
        shares = 0.5 - 0.5 * at * _ratio(_ERF, at * at)
        tails = depth > 0.46875
        shares[tails] = _tail_share(at[tails], depth[tails])
    return shares.reshape(scores.shape)


def _tail_share(at: Floats, depth: Floats) -> Floats:
    """Half of the complementary error function away from 0, on either side."""
    result = _ratio(_ERFC, np.minimum(depth, 4.0))
    far = depth > 4.0
    if far.any():
        inverse = 1.0 / (depth[far] * depth[far])
        result[far] = (_SQRT_INVERSE_PI - inverse * _ratio(_ERFC_FAR, inverse)) / depth[far]
    # The square in two parts: its rounding would be magnified by the exponential.
    rough = np.trunc(depth * 16.0) / 16.0
    result *= 0.5 * np.exp(-rough * rough) * np.exp((rough - depth) * (rough + depth))
    result[np.isposinf(depth)] = 0.0
    return np.where(at < 0.0, 1.0 - result, result)
