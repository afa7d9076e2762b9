"""The effect of a treatment on an outcome, estimated from samples that nobody randomized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Floats
from assay.errors import AssayError, InputError

MIN_GROUP: Final = 30
"""Samples that treatment and control each need."""


class NotIdentifiedError(AssayError):
    """These samples cannot say what the effect is, however they are weighed."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Whether treated samples have controls that resemble them (positivity)."""

    lowest: float
    highest: float
    """The estimated propensities of the samples at hand."""
    retained: float
    """Share of the samples within the bounds of the propensity; the others are left out."""
    effective_treatment: float
    effective_control: float
    """Kish's effective sample sizes: how many samples the weights leave of each group."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a treatment adds to the outcome, in the outcome's unit."""

    value: float
    lo: float
    hi: float
    standard_error: float
    unadjusted: float
    """What a comparison without covariates would have said."""
    samples: int
    treatment: int | None
    """Treated samples; None for a dose."""
    attributable: float | None
    """What it adds to the mean over all samples, treated or not; None for a dose."""
    attributable_lo: float | None
    attributable_hi: float | None
    overlap: Overlap | None
    """None for a dose."""
    flags: tuple[str, ...] = ()
    """What a reader has to know, in words."""

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.lo > 0.0 or self.hi < 0.0


def checked(
    outcome: Floats, treatment: Floats, covariates: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """The three as finite arrays of one length; covariates have two dimensions."""
    outcome = np.asarray(outcome, dtype=np.float64)
    treatment = np.asarray(treatment, dtype=np.float64)
    count = len(outcome)
    if covariates is None:
        covariates = np.empty((count, 0))
    covariates = np.asarray(covariates, dtype=np.float64)
    if covariates.ndim == 1:
        covariates = covariates[:, None]
    for name, values in (("treatment", treatment), ("covariates", covariates)):
        if len(values) != count:
            raise InputError(
                f"{name}: expected {count} samples as the outcome has, got {len(values)}"
            )
    for name, values in (
        ("outcome", outcome),
        ("treatment", treatment),
        ("covariates", covariates),
    ):
        if not np.isfinite(values).all():
            raise InputError(
                f"{name}: expected finite numbers, got {int((~np.isfinite(values)).sum())} that are not",
                "leave out samples with gaps before the estimate, and say how many",
            )
    # A constant covariate explains nothing, and its scale is zero.
    return outcome, treatment, covariates[:, np.ptp(covariates, axis=0) > 0.0]
