"""Recordings of `scripts/record_improve_grid.py`: blocks of one configuration, or of a grid."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import files
from assay.errors import InputError
from assay.load.workloads.measurement import Setting

FOLDER: Final = Path(__file__).resolve().parents[4] / "bench" / "results"
"""Where the repository keeps measured figures; an installed package has none."""
GRID: Final = "improve-grid-cpu.json"
"""A quiet machine; the surrogate's constants were chosen with a look at it."""
FURTHER_GRIDS: Final = {
    "loaded": "improve-grid-loaded-cpu.json",
    "second host": "improve-grid-second-host-cpu.json",
    "quiet": "improve-grid-quiet-cpu.json",
    "short blocks": "improve-grid-short-blocks-cpu.json",
    "short prompts": "improve-grid-short-prompts-cpu.json",
}
"""Recorded after the search was written: beside other programs, on another machine, on quiet cores without
AMX, there with blocks of a second, whose visits differ by 10 % (each repetition of it in a run of its own), and of 48
points with short prompts on cores that have AVX2's kernels alone, whose visits differ by 7 %."""
NOISE: Final = ("improve-noise-cpu.json", "improve-noise-loaded-cpu.json")
"""Blocks of the engine's defaults: on a quiet machine, and beside other programs."""

Point = tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class RecordedNoise:
    """Blocks of one configuration, one after the other."""

    name: str
    rates: tuple[float, ...]
    """Output tokens a second of each block."""
    seconds: float
    """Length of a block."""

    @property
    def minutes(self) -> float:
        """Length of the recording."""
        return len(self.rates) * self.seconds / 60.0

    def describe(self) -> str:
        """Length and spread in words."""
        logs = [math.log(rate) for rate in self.rates]
        changes = [later - earlier for earlier, later in itertools.pairwise(logs)]
        spread = statistics.pstdev(changes)
        return (
            f"{len(self.rates)} recorded blocks, {self.minutes:.0f} min, "
            f"neighbors differ by {spread:.1%} (standard deviation)"
        )


@dataclass(frozen=True)
class RecordedGrid:
    """Every point of a grid of knobs, visited in several repetitions."""

    knobs: Mapping[str, tuple[Setting, ...]]
    visits: Mapping[tuple[int, Point], tuple[float, ...]]
    """Rates of the blocks of a visit, by repetition and point."""
    repetitions: int

    @functools.cached_property
    def points(self) -> tuple[Point, ...]:
        """The points in the order of the grid."""
        return tuple(dict.fromkeys(point for _, point in self.visits))

    def rate(self, repetition: int, point: Point) -> float:
        """Tokens a second of a visit: the mean over its blocks of equal length."""
        rates = self.visits[repetition, point]
        return math.fsum(rates) / len(rates)

    def truth(self, point: Point, without: int) -> float:
        """The rate of a point by the repetitions that a search did not see."""
        others = [repetition for repetition in range(self.repetitions) if repetition != without]
        return math.fsum(self.rate(other, point) for other in others) / len(others)


def noise(path: Path) -> RecordedNoise:
    """Read recorded blocks."""
    data = raw(path)
    try:
        blocks = [
            (float(tokens), float(seconds)) for tokens, seconds in data["visits"][0]["blocks"]
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _malformed(path, "visits with blocks of tokens and seconds") from error
    if not blocks or not all(tokens > 0 and seconds > 0 for tokens, seconds in blocks):
        raise _malformed(path, "blocks with tokens and seconds above 0")
    length = math.fsum(seconds for _, seconds in blocks) / len(blocks)
    return RecordedNoise(path.stem, tuple(tokens / seconds for tokens, seconds in blocks), length)


def grid(path: Path) -> RecordedGrid:
    """Read a recorded grid; every point must be there in every repetition."""
    data = raw(path)
    try:
        knobs = {str(name): tuple(values) for name, values in data["grid"].items()}
        visits = {
            (int(visit["repetition"]), tuple(visit["settings"][name] for name in knobs)): tuple(
                float(tokens) / float(seconds) for tokens, seconds in visit["blocks"]
            )
            for visit in data["visits"]
        }
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise _malformed(path, "a grid of knobs, and visits with settings and blocks") from error
    repetitions = 1 + max((number for number, _ in visits), default=-1)
    expected = repetitions * math.prod(len(values) for values in knobs.values())
    if len(visits) != expected or repetitions < 2:
        raise _malformed(path, f"{expected} visits in two repetitions or more, got {len(visits)}")
    return RecordedGrid(knobs, visits, repetitions)


def raw(path: Path) -> dict[str, Any]:
    """The file as it is."""
    if not path.is_file():
        raise InputError(
            f"recording: expected the file {path}, got none",
            "record one with scripts/record_improve_grid.py --out FILE",
        )
    data = files.read_json("recording", path)
    if not isinstance(data, dict):
        raise _malformed(path, "an object")
    return data


def _malformed(path: Path, expected: str) -> InputError:
    return InputError(f"recording {path}: expected {expected}")
