"""Attempts to refute an effect: each changes the data so that the answer is known beforehand.

The first three are DoWhy's (A. Sharma, E. Kiciman, 2020), in blocks of time; the fourth is a negative
control for time series: what has not happened yet cannot have caused anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.diagnose.statistics.effect import Effect, NotIdentifiedError
from assay.diagnose.statistics.folds import block_length, blocks
from assay.lazy_import import LazyModule
from assay.long_run import long_run_degrees

stats: Any = LazyModule("scipy.stats", globals(), "stats")
signal: Any = LazyModule("scipy.signal", globals(), "signal")


PLACEBOS: Final = 16
RANDOM_CAUSES: Final = 3
SUBSETS: Final = 6
_SUBSET_SHARE: Final = 0.8
_Z: Final = 1.645
"""The effect must be farther from zero than 90 % of placebos."""
_STRICT: Final = 0.01
"""Two-sided: a refuter is one of several, and must not reject every tenth true claim by chance."""


Estimator = Callable[[Floats, Floats, Floats], Effect]
"""`binary_effect` or `dose_effect`: outcome, treatment and covariates to an effect."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """What one attempt found."""

    name: str
    passed: bool | None
    """False where the effect is refuted, None where these samples do not allow the attempt."""
    statement: str


@dataclass(frozen=True, slots=True)
class _Case:
    outcome: Floats
    treatment: Floats
    covariates: Floats
    effect: Effect
    estimate: Estimator
    random: np.random.Generator


def refute(
    outcome: Floats,
    treatment: Floats,
    covariates: Floats | None,
    effect: Effect,
    estimate: Estimator,
    *,
    seed: int = 0,
) -> tuple[Refutation, ...]:
    """Every attempt on an effect that `estimate` found in these samples."""
    outcome = np.asarray(outcome, dtype=np.float64)
    treatment = np.asarray(treatment, dtype=np.float64)
    given = np.empty((len(outcome), 0)) if covariates is None else np.asarray(covariates, float)
    given = given[:, None] if given.ndim == 1 else given
    attempts: dict[str, Callable[[_Case], Refutation]] = {
        "placebo treatment": _placebo,
        "random common cause": _random_cause,
        "subset": _subset,
        "future treatment": _future,
    }
    refutations = []
    for number, (name, attempt) in enumerate(attempts.items()):
        random = np.random.default_rng([seed, number])
        case = _Case(outcome, treatment, given, effect, estimate, random)
        try:
            refutations.append(attempt(case))
        except NotIdentifiedError as error:
            refutations.append(Refutation(name, None, f"not examined: {error.message}"))
    return tuple(refutations)


def permuted(treatment: Floats, random: np.random.Generator) -> Floats:
    """The treatment in another order of its blocks, each turned by a random amount.

    Within a block it keeps its autocorrelation: shuffled one by one it would be so unlike the real
    one that any effect stands out. Turned, because the blocks of a periodic treatment are alike: in
    any order they would be the treatment itself again, or its opposite.
    """
    count = len(treatment)
    number = blocks(count, block_length(count))
    pieces = [treatment[number == block] for block in random.permutation(int(number[-1]) + 1)]
    return np.concatenate([np.roll(piece, int(random.integers(len(piece)))) for piece in pieces])


def _placebo(case: _Case) -> Refutation:
    estimates = []
    for _ in range(PLACEBOS):
        placebo = permuted(case.treatment, case.random)
        estimates.append(case.estimate(case.outcome, placebo, case.covariates).value)
    values = np.array(estimates)
    reach = _Z * math.sqrt(float(np.mean(values**2)))
    passed = abs(case.effect.value) > reach
    return Refutation(
        "placebo treatment",
        passed,
        f"{PLACEBOS} placebos, the treatment at other times, give up to {reach:.3g} in nine of ten; "
        f"the treatment gives {abs(case.effect.value):.3g}",
    )


def _random_cause(case: _Case) -> Refutation:
    """A covariate made of noise as slow as the outcome must change nothing."""
    memory = min(max(_autocorrelation(case.outcome, 1), 0.0), 0.95)
    shifts = []
    for _ in range(RANDOM_CAUSES):
        noise = _slow_noise(len(case.outcome), memory, case.random)
        covariates = np.concatenate([case.covariates, noise[:, None]], axis=1)
        shifts.append(case.estimate(case.outcome, case.treatment, covariates).value)
    shift = abs(float(np.mean(shifts)) - case.effect.value)
    return Refutation(
        "random common cause",
        shift <= max(case.effect.standard_error, 0.1 * abs(case.effect.value)),
        f"{RANDOM_CAUSES} covariates of noise move the effect by {shift:.3g} on average; "
        f"its standard error is {case.effect.standard_error:.3g}",
    )


def _subset(case: _Case) -> Refutation:
    """Four fifths of the blocks must say what all of them say, and both halves the same."""
    count = len(case.outcome)
    number = blocks(count, block_length(count))
    total = int(number[-1]) + 1
    values = []
    for _ in range(SUBSETS):
        chosen = case.random.permutation(total)[: max(math.ceil(_SUBSET_SHARE * total), 1)]
        values.append(_estimate_rows(case, np.isin(number, chosen)).value)
    first = np.arange(count) < count // 2
    early, late = _estimate_rows(case, first), _estimate_rows(case, ~first)
    apart = abs(early.value - late.value) / math.hypot(early.standard_error, late.standard_error)
    turned = any(value * case.effect.value <= 0.0 for value in values)
    matters = abs(early.value - late.value) > 0.5 * abs(case.effect.value)
    passed = not (turned or (matters and apart > _strict_quantile(count // 2)))
    return Refutation(
        "subset",
        passed,
        f"{SUBSETS} subsets of {_SUBSET_SHARE:.0%} give {min(values):.3g} to {max(values):.3g}; the "
        f"two halves of the recording {early.value:.3g} and {late.value:.3g}, {apart:.1f} standard errors apart",
    )


def _estimate_rows(case: _Case, rows: Flags) -> Effect:
    return case.estimate(case.outcome[rows], case.treatment[rows], case.covariates[rows])


def _future(case: _Case) -> Refutation:
    """The treatment of later samples must have no effect now, given the treatment now.

    A common cause that is not among the covariates and changes slowly, or an outcome that brings the
    treatment about, gives it one.
    """
    ahead = _decorrelation(case.treatment)
    if ahead is None:
        return Refutation(
            "future treatment",
            None,
            "not examined: the treatment hardly changes over the recording",
        )
    now = case.treatment[:-ahead]
    covariates = np.concatenate([case.covariates[:-ahead], now[:, None]], axis=1)
    estimate = case.estimate(case.outcome[:-ahead], case.treatment[ahead:], covariates)
    strong = abs(estimate.value) > _strict_quantile(estimate.samples) * estimate.standard_error
    passed = not (strong and abs(estimate.value) > 0.25 * abs(case.effect.value))
    return Refutation(
        "future treatment",
        passed,
        f"the treatment {ahead} samples later has an effect of {estimate.value:.3g} "
        f"(standard error {estimate.standard_error:.3g}) on the outcome before it",
    )


def _strict_quantile(samples: int) -> float:
    return float(stats.t.isf(_STRICT / 2.0, long_run_degrees(samples)))


def _decorrelation(values: Floats) -> int | None:
    """The first lag with an autocorrelation below one half; None if that is a tenth of all."""
    for lag in range(1, len(values) // 10 + 1):
        if _autocorrelation(values, lag) < 0.5:
            return lag
    return None


def _autocorrelation(values: Floats, lag: int) -> float:
    centered = values - values.mean()
    square = float(centered @ centered)
    return float(centered[lag:] @ centered[:-lag]) / square if square > 0.0 else 0.0


def _slow_noise(count: int, memory: float, random: np.random.Generator) -> Floats:
    white = random.standard_normal(count + 100)
    result: Floats = np.asarray(signal.lfilter([1.0], [1.0, -memory], white))[100:]
    return result
