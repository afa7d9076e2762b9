"""Samples whose effects are known because they were put there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.signal import lfilter

Array = NDArray[np.float64]
Case = tuple[Array, Array, Array, float]
"""Outcome, treatment, covariates and the true effect."""

COUNT = 1500


def slow(random: np.random.Generator, count: int, memory: float, width: int = 1) -> Array:
    """Autoregressive series with variance one."""
    white = random.standard_normal((count + 200, width)) * np.sqrt(1.0 - memory**2)
    return lfilter([1.0], [1.0, -memory], white, axis=0)[200:]


def chance(linear: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-linear))


def treated(random: np.random.Generator, propensity: Array) -> Array:
    return (random.random(len(propensity)) < propensity).astype(float)


def linear(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    a = treated(random, chance(0.6 * x[:, 0] - 0.5 * x[:, 1] - 0.3))
    y = 3 + a + x @ np.array([1, 0.8, -0.5, 0]) + random.standard_normal(count)
    return y, a, x, 1.0


def nonlinear(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    a = treated(random, chance(0.8 * np.sin(1.5 * x[:, 0]) + 0.5 * (x[:, 1] ** 2 - 1) - 0.2))
    # tanh is odd: the effect is 1 on average over a symmetric covariate.
    y = 2 + (1 + 0.5 * np.tanh(x[:, 0])) * a + 1.5 * np.sin(1.5 * x[:, 0]) + x[:, 1] ** 2
    y += 0.5 * x[:, 0] * x[:, 2] + random.standard_normal(count)
    return y, a, x, 1.0


def heteroscedastic(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    a = treated(random, chance(0.7 * x[:, 0] + 0.4 * x[:, 1]))
    noise = random.standard_normal(count) * np.exp(0.4 * x[:, 0] + 0.3 * a)
    return a + x[:, 0] + 0.7 * x[:, 1] + noise, a, x, 1.0


def weak_overlap(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    a = treated(random, chance(1.6 * x[:, 0] - 1.0 * x[:, 1]))
    # Both propensity and effect are symmetric: it is 1 among the samples with a counterpart too.
    y = (1 + 0.4 * x[:, 1]) * a + x[:, 0] - 0.6 * x[:, 1] + 0.3 * x[:, 2] ** 2
    return y + random.standard_normal(count), a, x, 1.0


def autocorrelated(random: np.random.Generator, count: int = COUNT) -> Case:
    x = slow(random, count, 0.9, 3)
    push = 1.2 * slow(random, count, 0.8)[:, 0] + 0.5 * random.standard_normal(count)
    a = ((0.8 * x[:, 0] - 0.5 * x[:, 1] + push) > 0.2).astype(float)
    return a + x[:, 0] - 0.8 * x[:, 1] + slow(random, count, 0.7)[:, 0], a, x, 1.0


def linear_dose(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    d = 2 + 0.8 * x[:, 0] - 0.5 * x[:, 1] + random.standard_normal(count)
    return 0.5 * d + x[:, 0] + 0.5 * x[:, 1] + random.standard_normal(count), d, x, 0.5


def nonlinear_dose(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 4))
    d = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + random.standard_normal(count)
    y = 0.5 * d + 0.2 * x[:, 1] * d + 0.1 * d**2 + np.sin(1.5 * x[:, 0]) + x[:, 1] ** 2
    # The derivative is 0.5 + 0.2 x1 + 0.2 d, and E[d] = 0.5.
    return y + random.standard_normal(count), d, x, 0.6


def heteroscedastic_dose(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 3))
    d = x[:, 0] + random.standard_normal(count) * np.exp(0.25 * x[:, 1])
    noise = random.standard_normal(count) * np.exp(0.3 * x[:, 0])
    return 0.5 * d + x[:, 0] + noise, d, x, 0.5


def weak_overlap_dose(random: np.random.Generator, count: int = COUNT) -> Case:
    x = random.standard_normal((count, 3))
    d = 3 * x[:, 0] + random.standard_normal(count)
    return 0.5 * d - x[:, 0] + 0.3 * x[:, 1] + random.standard_normal(count), d, x, 0.5


def autocorrelated_dose(random: np.random.Generator, count: int = COUNT) -> Case:
    x = slow(random, count, 0.9, 3)
    d = 0.8 * x[:, 0] + slow(random, count, 0.8)[:, 0]
    return 0.5 * d + x[:, 0] - 0.8 * x[:, 1] + slow(random, count, 0.7)[:, 0], d, x, 0.5


BINARY: dict[str, Callable[..., Case]] = {
    "linear": linear,
    "nonlinear": nonlinear,
    "heteroscedastic": heteroscedastic,
    "weak overlap": weak_overlap,
    "autocorrelated": autocorrelated,
}
DOSE: dict[str, Callable[..., Case]] = {
    "linear": linear_dose,
    "nonlinear": nonlinear_dose,
    "heteroscedastic": heteroscedastic_dose,
    "weak overlap": weak_overlap_dose,
    "autocorrelated": autocorrelated_dose,
}


def hidden_cause(random: np.random.Generator, count: int) -> Case:
    """A slow common cause that is not among the covariates; no effect."""
    hidden = slow(random, count, 0.95)[:, 0]
    x = slow(random, count, 0.9, 2)
    a = ((hidden + 0.5 * x[:, 0] + random.standard_normal(count)) > 0).astype(float)
    return hidden + x[:, 0] + random.standard_normal(count), a, x, 0.0


def reverse_cause(random: np.random.Generator, count: int) -> Case:
    """The outcome brings about the treatment of the next sample; no effect."""
    x = slow(random, count, 0.9, 2)
    y = slow(random, count, 0.8)[:, 0] + 0.5 * x[:, 0]
    a = np.zeros(count)
    a[1:] = (y[:-1] + 0.5 * random.standard_normal(count - 1)) > 0.3
    return y, a, x, 0.0


def drifting_effect(random: np.random.Generator, count: int) -> Case:
    """An effect that turns its sign in the middle."""
    x = slow(random, count, 0.5, 2)
    a = treated(random, chance(x[:, 0]))
    tau = np.where(np.arange(count) < count // 2, 2.0, -0.5)
    return tau * a + x[:, 0] + random.standard_normal(count), a, x, 0.75


def no_effect(random: np.random.Generator, count: int) -> Case:
    y, a, x, effect = autocorrelated(random, count)
    return y - effect * a, a, x, 0.0


Planted = dict[tuple[str, int], int]
"""Series and lag, and the sign of what was planted."""

EFFECT = 0.3
"""Standard deviations of the target's noise per standard deviation of a series' innovation."""


def lagged_series(
    random: np.random.Generator, kind: str, *, planted: int, count: int = 500, width: int = 10
) -> tuple[pl.DataFrame, Planted]:
    """A target and autocorrelated candidates, some of which drive it at a lag from 1 to 4."""
    lead = 10
    total = count + lead
    memory = random.uniform(0.5, 0.95, width)
    x = np.concatenate([slow(random, total, one) for one in memory], axis=1)
    x /= np.sqrt(1.0 - memory**2)
    if kind == "random walks":
        half = width // 2
        x[:, half:] = np.cumsum(random.standard_normal((total, width - half)), axis=0)
    links: Planted = {
        (f"x{series}", int(random.integers(1, 5))): int(random.choice([-1, 1]))
        for series in random.choice(width, planted, replace=False)
    }
    spread = np.ones(total)
    if kind == "heteroscedastic":
        spread = np.where(np.sin(np.arange(total) / 20) > 0, 1.4, 0.6)
    drive = spread * random.standard_normal(total)
    for (name, lag), sign in links.items():
        drive[lag:] += sign * EFFECT * x[:-lag, int(name[1:])]
    y = lfilter([1.0], [1.0, -random.uniform(0.3, 0.9)], drive)
    if kind == "trends":
        y = y + np.linspace(0, 20, total)
        x[:, 0] += np.linspace(0, 20, total)
        x[:, 1] -= np.linspace(0, 10, total)
    columns = {f"x{series}": x[lead:, series] for series in range(width)}
    return pl.DataFrame(columns | {"y": y[lead:]}), links


LAGGED = ("autoregressive", "random walks", "trends", "heteroscedastic")
