"""What a staged promotion may spend and what it has to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.errors import InputError
from assay.improve.experiments.confidence_sequence import ALPHA
from assay.improve.experiments.settings import PRACTICAL_THRESHOLD
from assay.load.workloads.workload import Direction

OUT_SHARE: Final = 4
"""One in so many replicas may be out at once, where nothing else is said; one at least."""


@dataclass(frozen=True, slots=True)
class PromotionSettings:
    """Limits of a promotion."""

    better: Direction = "higher"
    """Which way the objective is better."""
    has_slo: bool = False
    slo_share: float = 0.99
    """Requests that have to hold the service levels."""
    alpha: float = ALPHA
    """Chance of promoting a change that does nothing, over all stages, rounds and replicas."""
    threshold: float = PRACTICAL_THRESHOLD
    judges_answers: bool = True
    """Whether answers that changed bar the promotion; False where a run has judged them before."""
    baseline_rounds: int = 3
    most_rounds: int = 12
    """Rounds of the last stage, which half of the fleet takes part in on either side."""
    seed: int = 0
    """Of who is drawn."""


def stages(replicas: int) -> list[int]:
    """Replicas of each group by stage: one, two, four, up to half of the fleet.

    >>> stages(8), stages(6), stages(3), stages(20)
    ([1, 2, 4], [1, 2, 3], [1], [1, 2, 4, 8, 10])
    """
    if replicas < 2:
        raise InputError(
            f"--replicas: expected two or more, got {replicas}",
            "one engine is improved with --engine URL",
        )
    half = replicas // 2
    sizes = [1]
    while 2 * sizes[-1] < half:
        sizes.append(2 * sizes[-1])
    return sizes if half == 1 else [*sizes, half]


def most_out(replicas: int) -> int:
    """Replicas that may be out at once where nothing is said.

    >>> most_out(3), most_out(8), most_out(40)
    (1, 2, 10)
    """
    return max(1, replicas // OUT_SHARE)
