"""Order statistics of the normal distribution, as expressions of the sample size."""

from __future__ import annotations

import math

from assay.model import Expression, exp, number, where

_LOW, _HIGH = -3.5, 7.0
"""Range of the integral: it holds the largest of 2 to a million normal variates."""


def expected_largest(count: Expression) -> Expression:
    """Expected largest of `count` independent standard normal variates.

    E[max] = integral of 1 - Phi(x)^n over x above a, plus a, where Phi(a)^n is zero
    (David and Nagaraja 2003, Order Statistics, sec. 3.1). The nodes of the quadrature are constants,
    so Phi is evaluated here and n stays a variable. The result is within 0.1 % of the integral
    from 2 to a million variates; the asymptote sqrt(2 ln n) is 43 % high at 8.
    """
    below: Expression = number("0")
    for node, weight in _NODES:
        below = below + weight * (1 - exp(math.log(_normal_cdf(node)) * count))
    return where(count > 1, below + _LOW, number("0"))


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _gauss_legendre(points: int) -> list[tuple[float, float]]:
    """Nodes and weights on the range, by Newton's method on the Legendre polynomial."""
    rule = []
    middle, half = (_LOW + _HIGH) / 2, (_HIGH - _LOW) / 2
    for i in range(points):
        x = math.cos(math.pi * (i + 0.75) / (points + 0.5))
        for _ in range(100):
            value, slope = _legendre(points, x)
            x -= value / slope
            if abs(value / slope) < 1e-15:
                break
        slope = _legendre(points, x)[1]
        rule.append((middle - half * x, half * 2 / ((1 - x * x) * slope * slope)))
    return rule


def _legendre(degree: int, x: float) -> tuple[float, float]:
    """The Legendre polynomial and its derivative, by the three-term recurrence."""
    before, value = 1.0, x
    for k in range(2, degree + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, degree * (x * value - before) / (x * x - 1)


_NODES = _gauss_legendre(32)
