"""What differs from start to start of equal settings, from trials whose every change is a restart.

Pairs of the A/A experiment are of one start: they do not have it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from assay.improve.experiments.result import Block

UNKNOWN_START_SD: Final = 0.025
"""Of servers that start in one of two modes 5 % apart."""
ENOUGH_STARTS: Final = 6
"""Starts, less one of each settings, from which on their spread is taken as known."""


class StartNoise(NamedTuple):
    """The spread of starts, and how many tell it."""

    sd: float = 0.0
    """Standard deviation of the logarithm of a start's level: of the mean of its blocks."""
    freedom: int = 0
    """Starts, less one of each settings that were started."""

    @property
    def assumed_sd(self) -> float:
        """What to reckon with: while too few starts tell, no less than of servers with two modes."""
        return self.sd if self.freedom >= ENOUGH_STARTS else max(self.sd, UNKNOWN_START_SD)


def start_noise(experiments: Iterable[Sequence[Block]]) -> StartNoise:
    """The spread between starts of an arm, over experiments in which each change was a restart.

    An arm of one experiment has equal settings throughout; blocks of it that follow each other are of
    one start.
    """
    squares, freedom = 0.0, 0
    for blocks in experiments:
        levels: dict[str, list[float]] = {}
        for arm, visit in itertools.groupby(blocks, key=lambda block: block.arm):
            values = [
                math.log(block.value)
                for block in visit
                if block.pair >= 0 and not block.dropped and block.value > 0.0
            ]
            if values:
                levels.setdefault(arm, []).append(math.fsum(values) / len(values))
        for of_arm in levels.values():
            mean = math.fsum(of_arm) / len(of_arm)
            squares += math.fsum((level - mean) ** 2 for level in of_arm)
            freedom += len(of_arm) - 1
    return StartNoise(math.sqrt(squares / freedom), freedom) if freedom else StartNoise()
