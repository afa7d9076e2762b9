"""The verdict of a run from what its experiments found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.improve.experiments.result import ExperimentResult
from assay.improve.loop.outcome import RunVerdict

USEFUL_BOUND: Final = 2.0
"""A bound of a gain above this, as two noisy pairs leave it, says nothing of the lever."""


def run_verdict(
    *,
    diagnosed_only: bool,
    confirmation: ExperimentResult | None,
    kept: Sequence[ExperimentResult],
    others: Sequence[ExperimentResult],
    threshold: float,
    untried: int = 0,
) -> tuple[RunVerdict, str]:
    """The verdict and why.

    Improved: the whole stack was measured again against the start, and is better. Nothing to gain:
    nothing was kept, and no trial leaves room for more than the practical threshold. Undecided:
    the budget ended before the trials told.
    """
    if diagnosed_only:
        return "diagnosed only", "no experiment was made"
    if confirmation is not None and kept:
        if confirmation.verdict == "improved":
            return "improved", confirmation.reason
        return "undecided", f"the kept levers together are not proven: {confirmation.reason}"
    if kept:
        return "undecided", "the kept levers were not measured again together"
    open_ones = [other for other in others if _leaves_room(other, threshold)]
    if untried and not open_ones:
        return "undecided", f"the budget ended before {untried} candidates were tried"
    if not open_ones:
        count = len(others)
        tried = "no lever applies" if not count else f"none of {count} trials gains {threshold:.0%}"
        return "nothing to gain", tried
    most = max(open_ones, key=lambda result: result.ratio.hi if result.ratio is not None else 0.0)
    assert most.ratio is not None
    sentence = f"{len(open_ones)} of {len(others)} trials are undecided"
    if most.ratio.hi < USEFUL_BOUND:
        sentence += f"; {most.candidate.name} may still gain up to {most.ratio.hi - 1:.1%}"
    return "undecided", sentence


def _leaves_room(result: ExperimentResult, threshold: float) -> bool:
    """Whether a trial that was not kept may still gain more than the threshold."""
    if result.verdict != "undecided" or result.ratio is None or result.futile:
        return False
    return result.ratio.hi > 1.0 + threshold


def split(
    results: Sequence[ExperimentResult], kept: Sequence[ExperimentResult]
) -> tuple[tuple[ExperimentResult, ...], tuple[ExperimentResult, ...]]:
    """Undecided and rejected trials, without those that were kept."""
    kept_names = {result.experiment for result in kept}
    others = [result for result in results if result.experiment not in kept_names]
    undecided = tuple(other for other in others if other.verdict == "undecided")
    rejected = tuple(other for other in others if other.verdict != "undecided")
    return undecided, rejected
