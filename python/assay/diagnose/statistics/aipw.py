"""The effect of a treatment that is on or off: cross-fitted AIPW.

J. Robins, A. Rotnitzky, L. Zhao, JASA 89, 1994 (augmented inverse-propensity weights);
V. Chernozhukov et al., Econometrics Journal 21, 2018 (cross-fitting). The estimate is the mean of

    m1(x) - m0(x) + a (y - m1(x)) / e(x) - (1 - a) (y - m0(x)) / (1 - e(x))

over samples that the models m and e have not seen. It is right where m or e is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.diagnose.statistics.effect import MIN_GROUP, Effect, NotIdentifiedError, Overlap, checked
from assay.diagnose.statistics.folds import time_folds
from assay.diagnose.statistics.nuisance import Basis, logistic_ridge, ridge
from assay.long_run import CONFIDENCE, long_run_error, long_run_interval

BOUND: Final = 0.05
"""Samples with a propensity below it, or above one minus it, have next to no counterpart in the
other group; the effect is estimated for the others (R. Crump et al., Biometrika 96, 2009)."""

MIN_RETAINED: Final = 0.5
"""Share of the samples that must be left, for the answer still to be about the recording."""

_MIN_FOLD_GROUP: Final = 10


@dataclass(frozen=True, slots=True)
class _Nuisance:
    treated: Floats
    """m1: the outcome that a sample would have under treatment."""
    control: Floats
    """m0: under control."""
    propensity: Floats


def binary_effect(
    outcome: Floats,
    treatment: Floats,
    covariates: Floats | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Effect:
    """The average effect of `treatment` (0 or 1) on `outcome`, samples in time order.

    Covariates are the common causes of both; a common cause that is not among them is in the
    result. Raises `NotIdentifiedError` where a group is too small or has no counterpart.
    """
    outcome, treatment, covariates = checked(outcome, treatment, covariates)
    groups = _group_sizes(treatment)
    nuisance = _cross_fit(outcome, treatment, covariates)
    chance = nuisance.propensity
    kept = (chance >= BOUND) & (chance <= 1.0 - BOUND)
    overlap = _overlap(treatment, chance, kept)
    _check_overlap(treatment[kept], overlap)
    weight = np.clip(chance, BOUND, 1.0 - BOUND)
    terms = (
        nuisance.treated
        - nuisance.control
        + treatment * (outcome - nuisance.treated) / weight
        - (1.0 - treatment) * (outcome - nuisance.control) / (1.0 - weight)
    )[kept]
    interval = long_run_interval(terms, confidence)
    # Of the treated alone: E[a (y - m0) - (1 - a) e / (1 - e) (y - m0)], over all samples.
    beyond = outcome - nuisance.control
    added = (treatment - (1.0 - treatment) * weight / (1.0 - weight)) * beyond
    burden = long_run_interval(np.where(kept, added, 0.0), confidence)
    flags = []
    if overlap.retained < 1.0:
        flags.append(
            f"{int((~kept).sum()):,} samples have no counterpart in the other group "
            f"(propensity outside {BOUND:g} to {1.0 - BOUND:g}): the effect is of the others"
        )
    return Effect(
        *interval,
        long_run_error(terms),
        float(outcome[treatment == 1.0].mean() - outcome[treatment == 0.0].mean()),
        int(kept.sum()),
        groups[1],
        *burden,
        overlap,
        tuple(flags),
    )


def _group_sizes(treatment: Floats) -> tuple[int, int]:
    """Samples of control and treatment; enough of each."""
    values = np.unique(treatment)
    if not np.isin(values, (0.0, 1.0)).all():
        raise NotIdentifiedError(
            f"treatment: expected 0 and 1, got {values[:4].tolist()}",
            "estimate the effect of a dose",
        )
    treated = int(treatment.sum())
    control = len(treatment) - treated
    for name, size in (("treatment", treated), ("control", control)):
        if size < MIN_GROUP:
            raise NotIdentifiedError(
                f"{name}: expected at least {MIN_GROUP} samples, got {size}",
                "record for longer, or while it comes and goes",
            )
    return control, treated


def _cross_fit(outcome: Floats, treatment: Floats, covariates: Floats) -> _Nuisance:
    """Predictions for every sample by models that were fitted without its block."""
    count = len(outcome)
    nuisance = _Nuisance(np.empty(count), np.empty(count), np.empty(count))
    for train, test in time_folds(count):
        columns = covariates
        if covariates.shape[1]:
            basis = Basis.of(covariates[train])
            columns = basis(covariates)
        for arm, predicted in ((1.0, nuisance.treated), (0.0, nuisance.control)):
            rows = train & (treatment == arm)
            if rows.sum() < _MIN_FOLD_GROUP:
                raise NotIdentifiedError(
                    "treatment and control: expected both all over the recording, got "
                    f"{int(rows.sum())} samples of {'treatment' if arm else 'control'} outside one fold",
                    "record for longer, or while it comes and goes",
                )
            predicted[test] = ridge(columns[rows], outcome[rows])(columns[test])
        nuisance.propensity[test] = logistic_ridge(columns[train], treatment[train])(columns[test])
    return nuisance


def _overlap(treatment: Floats, chance: Floats, kept: Flags) -> Overlap:
    inside = kept & (treatment == 1.0), kept & (treatment == 0.0)
    return Overlap(
        float(chance.min()),
        float(chance.max()),
        float(kept.mean()),
        _effective(1.0 / chance[inside[0]]),
        _effective(1.0 / (1.0 - chance[inside[1]])),
    )


def _effective(weights: Floats) -> float:
    """Kish: the size of an unweighted sample with the same variance."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def _check_overlap(treatment: Floats, overlap: Overlap) -> None:
    treated = int(treatment.sum())
    smallest = min(treated, len(treatment) - treated)
    if overlap.retained < MIN_RETAINED or smallest < MIN_GROUP:
        raise NotIdentifiedError(
            f"overlap: expected at least {MIN_RETAINED:.0%} of the samples to have a counterpart in the "
            f"other group, and {MIN_GROUP} of each, got {overlap.retained:.0%} and {smallest}",
            "the covariates decide the treatment; an experiment can tell them apart, samples cannot",
        )
