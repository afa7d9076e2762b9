"""Searches over a recorded grid: how far the settings they hold for the best are from the best.

A search sees one repetition of the recording; how good its choice really is, and what is best, is
told by the other repetitions. So a lucky visit helps no search.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from assay.bench.replays.recordings import Point, RecordedGrid
from assay.load.workloads.measurement import Setting

WITHIN: Final = 0.05
"""A search has arrived when its choice is within this share of the best."""


@dataclass(slots=True)
class Trials:
    """What a search is told: a visit of one repetition, its blocks resampled for each seed."""

    grid: RecordedGrid
    seed: int
    start: Mapping[str, Setting]
    _rates: dict[Point, float] = field(default_factory=dict)

    @property
    def repetition(self) -> int:
        """The repetition that the search sees."""
        return self.seed % self.grid.repetitions

    def point(self, changes: Mapping[str, Setting]) -> Point:
        """The point of the grid that changes to the start lead to."""
        settings = {**self.start, **changes}
        return tuple(settings[name] for name in self.grid.knobs)

    def rate(self, point: Point) -> float:
        """The measured rate; asking again gives the same."""
        if point not in self._rates:
            blocks = self.grid.visits[self.repetition, point]
            coin = random.Random(f"{self.seed} {point}")
            drawn = [coin.choice(blocks) for _ in blocks]
            self._rates[point] = math.fsum(drawn) / len(drawn)
        return self._rates[point]

    def regret(self, point: Point) -> float:
        """How far the true rate of a point is below that of the best, as a share."""
        best = max(self.grid.truth(point, self.repetition) for point in self.grid.points)
        return 1.0 - self.grid.truth(point, self.repetition) / best


class Searcher(Protocol):
    """A search under test: yields its incumbent after each trial."""

    def __call__(self, trials: Trials, most: int) -> Sequence[Point]:
        """Points held for the best after trial 1, 2, ...; the first trial is the start."""
        ...


@dataclass(frozen=True, slots=True)
class Curve:
    """The regret of one seed after each trial."""

    regrets: tuple[float, ...]

    @property
    def arrived(self) -> int:
        """The first trial from which on the regret stays within 5 %; one more than all if never."""
        last = max((at for at, regret in enumerate(self.regrets, 1) if regret > WITHIN), default=0)
        return last + 1


def curve(search: Searcher, grid: RecordedGrid, seed: int, most: int) -> Curve:
    """Run a search for so many trials; one that ends early keeps its choice."""
    trials = Trials(grid, seed, plain(grid))
    held = list(search(trials, most))
    held += [held[-1]] * (most - len(held))
    return Curve(tuple(trials.regret(point) for point in held[:most]))


def exhaustive(grid: RecordedGrid, seed: int) -> float:
    """The regret of a search that measured every point, and holds the highest rate for the best.

    Above 0 where repetitions differ by more than points do: nobody who sees one of them can do better.
    """
    trials = Trials(grid, seed, plain(grid))
    return trials.regret(max(grid.points, key=trials.rate))


def plain(grid: RecordedGrid) -> dict[str, Setting]:
    """The plain configuration: the first value of each knob, the token budget the largest."""
    return {
        name: values[-1] if name == "token_budget" else values[0]
        for name, values in grid.knobs.items()
    }


def median_curve(curves: Sequence[Curve]) -> list[float]:
    """The median regret after each trial."""
    return [
        _median([raced.regrets[at] for raced in curves]) for at in range(len(curves[0].regrets))
    ]


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
