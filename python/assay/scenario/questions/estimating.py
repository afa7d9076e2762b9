"""Cost, time and emissions from a model, an accelerator, tokens and a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from assay.answers import Answer
from assay.errors import InputError
from assay.scenario import built_in
from assay.scenario.estimate import BASES, MAX_DAYS, Estimate, estimate as estimate_workload
from assay.scenario.questions.reporting import target_problem

LOW_UTILIZATION: Final = 0.25
"""MFU below which the answer says where the time goes."""


@dataclass(frozen=True)
class EstimateAnswer(Answer):
    """The targets of the workload, and every default that was taken."""

    estimate: Estimate

    def to_json(self) -> dict[str, Any]:
        """The estimate as JSON data."""
        return self.estimate.to_data()


def estimate(
    model: str,
    accelerator: str,
    tokens: str,
    where: str,
    *,
    serving: bool = False,
    gpus: int | None = None,
    days: float = MAX_DAYS,
    fail_on_violated: bool = False,
) -> EstimateAnswer:
    """Estimate what training on, or serving, so many tokens costs; every default is listed."""
    if gpus is not None and not 1 <= gpus <= 10_000_000:
        raise InputError(f"gpus: expected 1 to 10,000,000, got {gpus}")
    if not 0 < days < 1e5:
        raise InputError(f"days: expected a number above 0, got {days:g}")
    workload = "serving" if serving else "training"
    estimated = estimate_workload(
        built_in.preset(BASES[workload]),
        workload,
        (model, accelerator, tokens, where),
        gpus=gpus,
        days=days,
    )
    problem = target_problem(
        estimated.report.targets, fail_on_violated=fail_on_violated, allow_conflicts=False
    )
    return EstimateAnswer(estimated, problem=problem, notes=_notes(estimated))


def _notes(estimated: Estimate) -> list[str]:
    notes = list(estimated.report.notes)
    if estimated.utilization is not None and estimated.utilization < LOW_UTILIZATION:
        losses = [
            f"{what} {share:.0%}" for what, share in estimated.losses.items() if share >= 0.01
        ]
        notes.insert(
            0,
            f"MFU is only {estimated.utilization:.0%} with the best layout of those tried; "
            f"of a step take {', '.join(losses)}",
        )
    return notes
