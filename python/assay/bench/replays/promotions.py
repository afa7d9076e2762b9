"""Experiments over recorded noise: how often equal settings are promoted, planted gains found.

An experiment takes recorded blocks in order from a random place, gives them to the arms by the
schedule of a real one, and looks after each pair. A planted effect multiplies the treatment's
rates. It goes on after a verdict, so that every look counts.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import NamedTuple

from assay.bench.replays.recordings import RecordedNoise
from assay.improve.experiments import schedule
from assay.improve.experiments.confidence_sequence import ALPHA, ConfidenceSequence
from assay.improve.experiments.pairs import as_ratios
from assay.improve.experiments.settings import PRACTICAL_THRESHOLD, ExperimentSettings
from assay.improve.experiments.verdict import decide


class Replayed(NamedTuple):
    """One experiment over recorded blocks."""

    promoted_after: int | None
    """Pairs at the first look that says improved; None where none does."""
    pairs: int
    missed: bool
    """Whether the interval did not include the true ratio at some look."""


class Promotions(NamedTuple):
    """Many experiments over one recording."""

    runs: int
    promoted: float
    """Share of runs with a look that says improved."""
    missed: float
    median_pairs: float
    """Pairs to the promotion; infinite where fewer than half of the runs had one."""


def replay(
    noise: RecordedNoise,
    effect: float,
    seed: int,
    seconds: float,
    threshold: float = PRACTICAL_THRESHOLD,
) -> Replayed:
    """One experiment of so many seconds; `effect` is the treatment's true gain as a share."""
    count = min(int(seconds / noise.seconds), len(noise.rates)) // 2
    place = random.Random(seed).randrange(len(noise.rates) - 2 * count + 1)
    blocks = iter(noise.rates[place : place + 2 * count])
    sequence, least = ConfidenceSequence(ALPHA), ExperimentSettings().least_pairs
    gain, promoted, missed = math.log1p(effect), None, False
    pairs = itertools.islice(schedule.alternating(seed), count)
    for number, arms in enumerate(pairs, 1):
        values = {arm: math.log(next(blocks)) for arm in arms}
        difference = sequence.add(values["treatment"] - values["control"] + gain)
        missed = missed or not difference.lo <= gain <= difference.hi
        if promoted is None and number >= least and math.isfinite(difference.hi):
            decision = decide(as_ratios(difference), threshold)
            promoted = number if decision.verdict == "improved" else None
    return Replayed(promoted, count, missed)


def promotions(noise: RecordedNoise, effect: float, runs: int, seconds: float) -> Promotions:
    """Many experiments, each with its own place and order."""
    replays = [replay(noise, effect, seed, seconds) for seed in range(runs)]
    after = sorted(
        math.inf if replayed.promoted_after is None else replayed.promoted_after
        for replayed in replays
    )
    return Promotions(
        runs=runs,
        promoted=sum(math.isfinite(pairs) for pairs in after) / runs,
        missed=sum(replayed.missed for replayed in replays) / runs,
        median_pairs=after[(runs - 1) // 2],
    )
