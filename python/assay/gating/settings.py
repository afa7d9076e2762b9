"""What a comparison may spend and what it has to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.errors import InputError
from assay.improve.experiments.confidence_sequence import ALPHA
from assay.improve.experiments.settings import LEAST_STARTED_PAIRS, PRACTICAL_THRESHOLD

MARGIN: Final = 0.05
"""A slowdown that matters, where none is given."""


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Limits of one comparison."""

    budget_s: float = 1200.0
    """Most seconds, starts and A/A included."""
    margin: float = MARGIN
    """Slowdown, as a share, that a gate must exclude to pass."""
    threshold: float = PRACTICAL_THRESHOLD
    """A smaller change is neither improved nor regressed."""
    alpha: float = ALPHA
    """Chance of a wrong verdict over all looks of the comparison."""
    noise_pairs: int = 2
    """Pairs of the base against itself, before."""
    least_pairs: int = LEAST_STARTED_PAIRS
    most_pairs: int = 400
    block_s: float = 2.0
    """About how long a block takes; the number of requests follows from it."""
    visit_blocks: int = 3
    """Blocks of a visit; their mean is one value."""
    most_warmup_blocks: int = 5
    same_answers: bool = True
    """Whether answers of the head that are wrongly changed end the comparison."""
    slo_share: float = 0.99
    seed: int = 0
    """Of the order of sides."""

    def __post_init__(self) -> None:
        """Check the limits."""
        for name in ("budget_s", "block_s", "visit_blocks", "least_pairs", "most_pairs"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: expected a number above 0, got {getattr(self, name)}")
        if not 0.0 < self.margin < 1.0:
            raise InputError(
                f"--margin: expected a share between 0 and 1, got {self.margin:g}", "--margin 5%"
            )
        if self.noise_pairs < 0:
            raise InputError(f"--noise: expected pairs of 0 or more, got {self.noise_pairs}")
