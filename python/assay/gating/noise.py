"""The noise of a comparison: how much starts of one side differ, and blocks of one start."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.answers import data_of
from assay.gating.judging import share
from assay.gating.settings import GateSettings
from assay.improve.experiments.noise import NoiseFloor, floor_of
from assay.improve.experiments.result import Arm, Block
from assay.load.workloads.workload import Direction


@dataclass(frozen=True, slots=True)
class GateNoise:
    """What blocks of several starts of the same sides say about the machine."""

    starts: int
    block_sd: float
    """Standard deviation of the logarithm of blocks of one start."""
    start_sd: float
    """Of the means of starts of one side: what differs from start to start, blocks included."""
    autocorrelation: float
    """Of a block with the one before, within a start."""
    drift: float
    """Change from the first to the last block by a straight line through all, as a share."""
    pair_s: float
    """Seconds of a pair, with both starts."""
    floor: NoiseFloor
    """The same as a floor of pairs, which says how many pairs an effect needs."""

    @property
    def least_sd(self) -> float:
        """The spread of pairs that goes into every interval; half of it where few starts tell it."""
        return self.floor.least_sd()

    def pairs_needed(self, effect: float, settings: GateSettings) -> int:
        """Pairs that find a slowdown of this share in nine of ten comparisons."""
        return max(self.floor.pairs_needed(effect, settings.alpha), settings.least_pairs)

    def statement(self, settings: GateSettings) -> str:
        """The noise in words, with the time that the margin will take."""
        pairs = self.pairs_needed(settings.margin, settings)
        return (
            f"starts of the base differ by {self.start_sd:.2%} ({self.starts} starts), blocks of "
            f"one start by {self.block_sd:.2%}; a slowdown of {share(settings.margin)} is found "
            f"in nine of ten comparisons after {pairs} pairs, {_span(pairs * self.pair_s)}"
        )

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        return data_of(self, "starts block_sd start_sd autocorrelation drift pair_s")


def noise_of(
    blocks: Sequence[Block], better: Direction, pair_s: float, requests: int, *, is_aa: bool
) -> GateNoise | None:
    """The noise of blocks of a comparison; None where no side was started twice.

    Starts are pooled over the sides, each about the mean of its side: an effect is no noise. With
    `is_aa` both arms are one side.
    """
    starts = _starts(blocks)
    means = {start: statistics.fmean(values) for start, values in starts.items()}
    sides: dict[Arm, list[float]] = {"control": [], "treatment": []}
    for (_, arm), mean in means.items():
        sides["control" if is_aa else arm].append(mean)
    freedom = sum(len(side) - 1 for side in sides.values() if side)
    if freedom < 1:
        return None
    start_sd = math.sqrt(sum(_squares(side) for side in sides.values()) / freedom)
    inner = sum(len(values) - 1 for values in starts.values())
    block_sd = math.sqrt(sum(map(_squares, starts.values())) / inner) if inner else 0.0
    floor = floor_of(blocks, requests, better, repeats=False)
    return GateNoise(
        len(starts),
        block_sd,
        start_sd,
        _autocorrelation(list(starts.values())),
        _drift(blocks, sides),
        pair_s,
        # Four starts tell more than the two pairs that they make.
        replace(floor, sd=math.sqrt(2.0) * start_sd, pair_s=pair_s, sd_by_length={}),
    )


def _starts(blocks: Sequence[Block]) -> dict[tuple[int, Arm], list[float]]:
    """Logarithms of the blocks that count, by start: each visit to a side is a start."""
    starts: dict[tuple[int, Arm], list[float]] = {}
    for block in blocks:
        if block.pair >= 0 and not block.dropped and block.value > 0.0:
            starts.setdefault((block.pair, block.arm), []).append(math.log(block.value))
    return starts


def _squares(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _autocorrelation(starts: Sequence[Sequence[float]]) -> float:
    """Of neighbors within starts, each start about its mean; 0 where there is no spread.

    Independent values about the mean of n of them show -1/n, which is taken off.

    >>> _autocorrelation([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]])
    -0.5
    """
    shifted = total = expected = 0.0
    for values in starts:
        mean = statistics.fmean(values)
        centered = [value - mean for value in values]
        squares = math.fsum(value * value for value in centered)
        total += squares
        expected -= squares / len(values)
        shifted += math.fsum(a * b for a, b in itertools.pairwise(centered))
    return (shifted - expected) / total if total > 0.0 else 0.0


def _drift(blocks: Sequence[Block], sides: dict[Arm, list[float]]) -> float:
    """Least-squares slope of the logarithm by the time between first and last, sides about their means."""
    centers = {arm: statistics.fmean(values) for arm, values in sides.items() if values}
    points = [
        (block.started_at, math.log(block.value) - centers.get(block.arm, centers["control"]))
        for block in blocks
        if block.pair >= 0 and not block.dropped and block.value > 0.0
    ]
    middle = statistics.fmean(at for at, _ in points)
    spread = math.fsum((at - middle) ** 2 for at, _ in points)
    if spread == 0.0:
        return 0.0
    slope = math.fsum((at - middle) * value for at, value in points) / spread
    times = [at for at, _ in points]
    return slope * (max(times) - min(times))


def _span(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 120.0 else f"about {seconds / 60.0:.0f} min"
