"""Service-level objectives: the share of requests in time, and goodput.

Predicted latencies are means over requests. Each latency is lognormal with that mean and a stated
coefficient of variation, so that its median lies below the mean. How often both limits hold depends
on how the two latencies move together: an input, between bounds that need no assumption.
"""

from __future__ import annotations

import math

from assay.model import (
    POSITIVE,
    Expression,
    Variable,
    by_definition,
    cited,
    erf,
    exp,
    log,
    maximum,
    minimum,
    sqrt,
    total,
)
from assay.stack import works
from assay.stack.serving.deployment import scope
from assay.stack.serving.latency import request_rate, time_per_output_token, time_to_first_token

_DISTSERVE = cited(works.DIST_SERVE, "sec. 1 and 2.1")
_LOGNORMAL = cited(works.NIST_HANDBOOK, "sec. 1.3.6.6.9, the lognormal distribution")
_FRECHET = cited(
    "Frechet 1951, Sur les tableaux de correlation dont les marges sont donnees",
    "bounds of a joint distribution by its margins",
)
_BIVARIATE = cited(
    "Plackett 1954, A reduction formula for normal multivariate integrals",
    "the derivative of the joint distribution by its correlation",
)
_CLIENT = by_definition("a property of the requests and their arrivals")

# Nodes and weights of Gauss-Legendre quadrature on (-1, 1), twelve points: half of them.
_NODES = (
    (0.1252334085114689, 0.2491470458134028),
    (0.3678314989981802, 0.2334925365383548),
    (0.5873179542866175, 0.2031674267230659),
    (0.7699026741943047, 0.1600783285433462),
    (0.9041172563704749, 0.1069393259953184),
    (0.9815606342467193, 0.0471753363865118),
)
_MOST_CORRELATION = 0.95


def _limit(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_DISTSERVE, boundary="scenario")


def _variation(name: str, symbol: str, what: str) -> Variable:
    return scope.declare(
        f"{name}, {symbol}: standard deviation of the {what} of requests over its mean",
        bounds=POSITIVE,
        reference=_CLIENT,
        boundary="scenario",
    )


first_token_limit = _limit("slo.time_to_first_token, L_1 [s]: TTFT limit (SLO)")
output_token_limit = _limit("slo.time_per_output_token, L_t [s/token]: TPOT limit (SLO)")
first_token_variation = _variation("slo.first_token_variation", "c_1", "TTFT")
output_token_variation = _variation("slo.output_token_variation", "c_t", "TPOT")
correlation = scope.declare(
    "slo.correlation, rho: correlation of the logarithms of TTFT and TPOT over requests",
    bounds=(-_MOST_CORRELATION, _MOST_CORRELATION),
    reference=_CLIENT,
    boundary="scenario",
)

first_token_median = scope.declare(
    "median_time_to_first_token, TTFT_50 [s as ms]: median time to first token (TTFT)",
    equals=time_to_first_token / sqrt(1 + first_token_variation**2),
    reference=_LOGNORMAL,
    target=True,
)
output_token_median = scope.declare(
    "median_time_per_output_token, TPOT_50 [s/token as ms/token]: median time per output token (TPOT)",
    equals=time_per_output_token / sqrt(1 + output_token_variation**2),
    reference=_LOGNORMAL,
    target=True,
)


def _deviations(limit: Expression, median: Expression, variation: Expression) -> Expression:
    """Standard deviations of the logarithm between the median and a limit."""
    return log(limit / median) / sqrt(log(1 + variation**2))


def _share(deviations: Expression) -> Expression:
    return (1 + erf(deviations / math.sqrt(2))) / 2


first_token_margin = scope.declare(
    "slo.first_token_margin, h: standard deviations of the logarithm between the median TTFT and its limit",
    bounds=(None, None),
    reference=_LOGNORMAL,
    equals=_deviations(first_token_limit, first_token_median, first_token_variation),
)
output_token_margin = scope.declare(
    "slo.output_token_margin, k: standard deviations of the logarithm between the median TPOT and its limit",
    bounds=(None, None),
    reference=_LOGNORMAL,
    equals=_deviations(output_token_limit, output_token_median, output_token_variation),
)
first_token_attainment = scope.declare(
    "slo.first_token_attainment, a_1: share of requests within the TTFT limit",
    bounds=(0, 1),
    equals=_share(first_token_margin),
    reference=_LOGNORMAL,
    target=True,
)
output_token_attainment = scope.declare(
    "slo.output_token_attainment, a_t: share of requests within the TPOT limit",
    bounds=(0, 1),
    equals=_share(output_token_margin),
    reference=_LOGNORMAL,
    target=True,
)
least_attainment = scope.declare(
    "slo.least_attainment, a_min: least share of requests that meet both SLOs, however TTFT and TPOT are correlated",
    bounds=(0, 1),
    equals=maximum(first_token_attainment + output_token_attainment - 1, 0),
    reference=_FRECHET,
    target=True,
)
most_attainment = scope.declare(
    "slo.most_attainment, a_max: most requests that can meet both SLOs, however TTFT and TPOT are correlated",
    bounds=(0, 1),
    equals=minimum(first_token_attainment, output_token_attainment),
    reference=_FRECHET,
    target=True,
)


def _correlated_part() -> Expression:
    """Integral of the bivariate normal density over the correlation, from none to the stated."""
    terms: list[Expression] = []
    for node, weight in (pair for x, w in _NODES for pair in ((x, w), (-x, w))):
        at = correlation * ((1 + node) / 2)
        rest = 1 - at**2
        quadratic = first_token_margin**2 + output_token_margin**2
        exponent = (2 * at * first_token_margin * output_token_margin - quadratic) / (2 * rest)
        terms.append(weight / (4 * math.pi) * exp(exponent) / sqrt(rest))
    return correlation * total(*terms)


attainment = scope.declare(
    "slo.attainment, a: share of requests that meet both SLOs",
    bounds=(0, 1),
    equals=minimum(
        maximum(first_token_attainment * output_token_attainment + _correlated_part(), least_attainment),
        most_attainment,
    ),
    reference=_BIVARIATE,
    target=True,
)
goodput = scope.declare(
    "goodput, G [request/s]: goodput: requests per second that meet both SLOs",
    equals=attainment * request_rate,
    reference=_DISTSERVE,
    target=True,
)
scope.inequality(
    "first_token_in_time", time_to_first_token <= first_token_limit, "TTFT is within its limit", reference=_DISTSERVE
)
scope.inequality(
    "output_tokens_in_time",
    time_per_output_token <= output_token_limit,
    "TPOT is within its limit",
    reference=_DISTSERVE,
)
