"""A claim: an effect with the attempts to refute it, in words and as evidence for a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.array_types import Floats
from assay.diagnose.hypothesis import Evidence
from assay.diagnose.statistics.aipw import binary_effect
from assay.diagnose.statistics.dose import dose_effect
from assay.diagnose.statistics.effect import Effect
from assay.diagnose.statistics.refuters import Refutation, refute


@dataclass(frozen=True, slots=True)
class CausalClaim:
    """What a treatment adds to an outcome, by samples that were only observed.

    It can support a cause and never establish one: that takes an experiment, in which somebody
    switches the treatment by chance.
    """

    treatment: str
    outcome: str
    unit: str
    per: str
    """Empty for a treatment that is on or off, else the unit of the dose."""
    effect: Effect
    refutations: tuple[Refutation, ...]
    covariates: tuple[str, ...]

    @property
    def status(self) -> str:
        """supported, refuted, or not shown (the interval holds zero)."""
        if not self.effect.excludes_zero:
            return "not shown"
        failed = any(refutation.passed is False for refutation in self.refutations)
        return "refuted" if failed else "supported"

    def __str__(self) -> str:
        effect = self.effect
        unit = f" {self.unit}" + (f" per {self.per}" if self.per else "")
        groups = f"{effect.samples:,} samples"
        if effect.treatment is not None:
            groups += f", {effect.treatment:,} of them treated"
        adjusted = f"adjusted for {', '.join(self.covariates)}" if self.covariates else "unadjusted"
        text = (
            f"{self.treatment}: {effect.value:+.4g}{unit} of {self.outcome} "
            f"[{effect.lo:+.4g}, {effect.hi:+.4g}], observed, {adjusted} ({groups})"
        )
        if self.status == "refuted":
            failed = [refutation for refutation in self.refutations if refutation.passed is False]
            text += "; refuted by " + "; ".join(
                f"{refutation.name}: {refutation.statement}" for refutation in failed
            )
        elif self.status == "not shown":
            text += "; not shown: the interval holds zero"
        else:
            passed = [refutation.name for refutation in self.refutations if refutation.passed]
            text += f"; stood up to: {', '.join(passed) or 'nothing that could be tried'}"
        return "; ".join([text, *effect.flags])

    def evidence(self) -> Evidence:
        """The claim as evidence for a cause."""
        return Evidence(str(self), source="telemetry")


def make_claim(
    treatment: str,
    outcome: str,
    unit: str,
    samples: tuple[Floats, Floats],
    covariates: Mapping[str, Floats],
    *,
    per: str = "",
    seed: int = 0,
) -> CausalClaim:
    """Estimate and try to refute the effect of `samples`: the outcome's and the treatment's.

    `per` makes it a dose in that unit. Raises `NotIdentifiedError` where the samples cannot say.
    An effect whose interval holds zero is not claimed, and no refuter is run on it.
    """
    observed, given = samples
    table = (
        np.stack(list(covariates.values()), axis=1) if covariates else np.empty((len(observed), 0))
    )
    estimate = dose_effect if per else binary_effect
    effect = estimate(observed, given, table)
    tried: tuple[Refutation, ...] = ()
    if effect.excludes_zero:
        tried = refute(observed, given, table, effect, estimate, seed=seed)
    return CausalClaim(treatment, outcome, unit, per, effect, tried, tuple(covariates))
