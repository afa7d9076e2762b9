"""How much time a trial gets: what its effect needs on this machine, not an equal share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from assay.improve.experiments.confidence_sequence import Design
from assay.improve.experiments.noise import NoiseFloor
from assay.improve.experiments.settings import LEAST_STARTED_PAIRS, ExperimentSettings
from assay.improve.levers.lever import Candidate
from assay.improve.policy.ranking import UNKNOWN_EFFECT

SMALLEST_EFFECT: Final = 0.02
LARGEST_EFFECT: Final = 0.5
"""Above this a few pairs decide, whatever the gain is."""
SETTLING_BLOCKS: Final = 3
"""Blocks of a trial before its pairs: two that agree, and one that sizes them."""
MOST_SERIAL_PAIRS: Final = 8
"""Pairs of a trial whose every pair costs a restart."""
SERIAL_BLOCK_SHARE: Final = 0.05
"""Length of a block between restarts over that of a restart."""
FOLLOWING: Final = 1.15
"""Time of a trial by restarts over that of its blocks: after each pair the control is led along answers."""
MOST_SHARE: Final = 0.5
"""Part of the time left that one trial may take where others wait, unless it needs more to be decided."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Times of trials from the A/A noise floor."""

    floor: NoiseFloor
    settings: ExperimentSettings
    restart_s: float = 0.0
    """Seconds until the engine serves again after a change that is not live."""

    def least_s(self, candidate: Candidate) -> float:
        """A trial that has less time cannot come to a verdict."""
        least = self.settings.least_pairs if candidate.hot else LEAST_STARTED_PAIRS
        return self._seconds(candidate, least)

    def wanted_s(self, candidate: Candidate) -> float:
        """What finds the predicted gain in nine of ten trials."""
        effect = UNKNOWN_EFFECT
        if candidate.prediction is not None:
            # Half of it: a prediction may be too good, and a smaller gain is still one.
            effect = abs(candidate.prediction.value - 1.0) / 2
        return self.finding_s(candidate, effect)

    def finding_s(self, candidate: Candidate, effect: float) -> float:
        """What finds a gain of this share in nine of ten trials."""
        effect = min(max(effect, SMALLEST_EFFECT), LARGEST_EFFECT)
        floor, design = self.floor, Design(shares_starts=not candidate.hot)
        if not candidate.hot:
            # The mean of a visit's blocks is one value.
            floor = replace(floor, sd=floor.sd / math.sqrt(self.settings.visit_blocks))
        pairs = floor.pairs_needed(effect, self.settings.alpha, design)
        return self._seconds(candidate, pairs)

    def budget_s(self, candidate: Candidate, left_s: float, *, others_wait: bool) -> float:
        """The limit of a trial; early stops give back what it does not need."""
        least = self.least_s(candidate)
        most = MOST_SHARE * left_s if others_wait else left_s
        return max(min(self.wanted_s(candidate), most), least)

    def _seconds(self, candidate: Candidate, pairs: int) -> float:
        if candidate.hot:
            pairs = max(pairs, self.settings.least_pairs)
            return (SETTLING_BLOCKS + 2 * pairs) * self.settings.block_s
        # A pair is one restart: A..A B..B, B..B A..A.
        pairs = max(min(pairs, MOST_SERIAL_PAIRS), LEAST_STARTED_PAIRS)
        block_s = max(self.settings.block_s, SERIAL_BLOCK_SHARE * self.restart_s)
        blocks = 2 * pairs * (self.settings.visit_blocks + 1) + SETTLING_BLOCKS
        return pairs * self.restart_s + FOLLOWING * blocks * block_s
