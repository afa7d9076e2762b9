"""The effect of one more unit of a dose: cross-fitted, doubly robust average derivative.

V. Chernozhukov, W. Newey, R. Singh, Econometrica 90, 2022 (automatic debiased machine learning).
The estimate is the mean of

    dm/dd (d, x) + r(d, x) (y - m(d, x))

over samples that m and r have not seen. r is the Riesz representer of the average derivative, minus
the score of the dose given the covariates; it is the function that minimizes E[r^2 - 2 dr/dd], which
needs no model of the dose's distribution.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.diagnose.statistics.effect import MIN_GROUP, Effect, NotIdentifiedError, checked
from assay.diagnose.statistics.folds import time_folds
from assay.diagnose.statistics.nuisance import Basis, ridge
from assay.long_run import CONFIDENCE, long_run_error, long_run_interval

MIN_RESIDUAL: Final = 0.05
"""Share of the dose's variance that covariates must leave unexplained (positivity of a dose)."""

_DEGREE: Final = 3
_RIESZ_PENALTY: Final = 1e-3


def dose_effect(
    outcome: Floats,
    dose: Floats,
    covariates: Floats | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Effect:
    """What one more unit of `dose` adds to `outcome`, on average over samples in time order."""
    outcome, dose, covariates = checked(outcome, dose, covariates)
    if len(np.unique(dose)) < 5 or len(dose) < 2 * MIN_GROUP:
        raise NotIdentifiedError(
            f"dose: expected at least 5 levels and {2 * MIN_GROUP} samples, got "
            f"{len(np.unique(dose))} and {len(dose)}",
            "estimate the effect of a treatment that is on or off",
        )
    scale = float(dose.std())
    count = len(outcome)
    terms = np.empty(count)
    unexplained = np.empty(count)
    for train, test in time_folds(count):
        columns = covariates
        if covariates.shape[1]:
            columns = Basis.of(covariates[train])(covariates)
            explained = ridge(columns[train], dose[train])(columns)
        else:
            explained = np.full(count, dose[train].mean())
        unexplained[test] = (dose - explained)[test]
        design = _Design((dose - explained) / scale, columns, train)
        terms[test] = design.terms(outcome, train, test) / scale
    share = float(np.mean(unexplained**2) / np.var(dose))
    if share < MIN_RESIDUAL:
        raise NotIdentifiedError(
            f"dose: expected covariates to leave at least {MIN_RESIDUAL:.0%} of its variance, got {share:.1%}",
            "the covariates decide the dose; an experiment can tell them apart, samples cannot",
        )
    interval = long_run_interval(terms, confidence)
    slope = float(np.cov(dose, outcome)[0, 1] / np.var(dose, ddof=1))
    return Effect(
        *interval, long_run_error(terms), slope, count,
        None, None, None, None, None,
    )  # fmt: skip


class _Design:
    """Columns in the dose and the covariates, and their derivatives by the dose.

    The dose enters as what the covariates do not explain of it: shifting it by a function of the
    covariates changes no derivative, and makes the columns of dose and covariates nearly orthogonal.
    """

    def __init__(self, dose: Floats, columns: Floats, train: Flags) -> None:
        powers = [dose**power for power in range(1, _DEGREE + 1)]
        slopes = [power * dose ** (power - 1) for power in range(1, _DEGREE + 1)]
        center = columns[train].mean(axis=0)
        # A product of a centered column has the mean slope zero: the powers carry the average.
        products = (columns - center) * dose[:, None]
        self.columns = np.concatenate([np.stack(powers, axis=1), products, columns], axis=1)
        self.slopes = np.concatenate(
            [np.stack(slopes, axis=1), columns - center, np.zeros_like(columns)], axis=1
        )

    def terms(self, outcome: Floats, train: Flags, test: Flags) -> Floats:
        """The estimate's terms for the test rows."""
        model = ridge(self.columns[train], outcome[train])
        derivative = (self.slopes[test] / model.scale) @ model.slopes
        representer = self._representer(train, test)
        result: Floats = derivative + representer * (outcome[test] - model(self.columns[test]))
        return result

    def _representer(self, train: Flags, test: Flags) -> Floats:
        scale = self.columns[train].std(axis=0)
        scale = np.where(scale == 0.0, 1.0, scale)
        fitted = np.concatenate(
            [np.ones((int(train.sum()), 1)), self.columns[train] / scale], axis=1
        )
        gram = fitted.T @ fitted / len(fitted)
        target = np.concatenate([[0.0], (self.slopes[train] / scale).mean(axis=0)])
        weights = np.linalg.solve(gram + _RIESZ_PENALTY * np.eye(len(gram)), target)
        result: Floats = weights[0] + (self.columns[test] / scale) @ weights[1:]
        return result
