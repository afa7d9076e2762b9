"""Planted series of server starts: logarithms of speeds, with the noise that machines have.

Imports nothing of the gate: what is planted cannot share its mistakes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Family = Callable[[np.random.Generator, int, int], Floats]
"""A generator, runs and starts to the logarithms of speeds, in order of time."""

RECORDING: Final = Path(__file__).resolve().parents[1] / "bench/results/improve-noise-cpu.json"
BLOCKS_OF_A_VISIT: Final = 12
"""Recorded blocks of half a second that make a visit of three blocks of two seconds."""


def normal(sd: float) -> Family:
    """Starts that differ by normal noise."""
    return lambda random, runs, starts: random.normal(0.0, sd, (runs, starts))


def two_modes(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """Half of the starts 5 % slower; within a mode 0.05 %."""
    slow = random.random((runs, starts)) < 0.5
    return np.where(slow, -0.05, 0.0) + random.normal(0.0, 0.0005, (runs, starts))


def rare_mode(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """One start in ten 10 % slower."""
    slow = random.random((runs, starts)) < 0.1
    return np.where(slow, -0.1, 0.0) + random.normal(0.0, 0.005, (runs, starts))


def heavy_tails(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """Student's t with 3 degrees of freedom, 1 % of scale."""
    return 0.01 * random.standard_t(3, (runs, starts))


def autocorrelated(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """A machine whose state is AR(1): 0.9 from a start to the next, 3 % altogether."""
    drawn = random.normal(0.0, 1.0, (runs, starts))
    series = np.empty((runs, starts))
    series[:, 0] = drawn[:, 0]
    for at in range(1, starts):
        series[:, at] = 0.9 * series[:, at - 1] + math.sqrt(1.0 - 0.81) * drawn[:, at]
    return 0.03 * series + random.normal(0.0, 0.005, (runs, starts))


def drifting(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """0.5 % slower with each start, as a machine that warms up and does not stop."""
    return random.normal(0.0, 0.01, (runs, starts)) - 0.005 * np.arange(starts)


def recorded(random: np.random.Generator, runs: int, starts: int) -> Floats:
    """Stretches of blocks that a shared two-core host recorded, with 1 % from start to start."""
    blocks = _recording()
    visits = blocks[: len(blocks) // BLOCKS_OF_A_VISIT * BLOCKS_OF_A_VISIT]
    means = visits.reshape(-1, BLOCKS_OF_A_VISIT).mean(axis=1)
    place = random.integers(0, len(means), (runs, 1))
    # In order of time from a random place on, around the end.
    series: Floats = means[(place + np.arange(starts)) % len(means)]
    series = series + random.normal(0.0, 0.01, (runs, starts))
    return series


def _recording() -> Floats:
    data = json.loads(RECORDING.read_text("utf-8"))
    blocks = data["visits"][0]["blocks"]
    rates: Floats = np.array([tokens / seconds for tokens, seconds in blocks])
    return np.log(rates)


FAMILIES: Final[Mapping[str, Family]] = {
    "normal, 2 %": normal(0.02),
    "two modes, 5 % apart": two_modes,
    "a slow start in ten": rare_mode,
    "heavy tails (t, 3)": heavy_tails,
    "autocorrelated, 0.9": autocorrelated,
    "drift, 0.5 % a start": drifting,
    "recorded host, starts 1 %": recorded,
}


def log_ratios(
    family: Family, effect: float, runs: int, pairs: int, seed: int, before: int = 4
) -> tuple[Floats, Floats]:
    """Log-ratios of pairs, head over base, and the starts of the base before them (A/A).

    Pairs are A B, B A or B A, A B by a coin, each side of a pair a start. `effect` is the head's
    true change as a share.
    """
    random = np.random.default_rng(seed)
    series = family(random, runs, before + 2 * pairs)
    first, second = series[:, before::2], series[:, before + 1 :: 2]
    coin = random.integers(0, 2, (runs, (pairs + 1) // 2))
    is_base_first = np.stack([coin, 1 - coin], axis=2).reshape(runs, -1)[:, :pairs]
    ratios = np.where(is_base_first == 1, second - first, first - second)
    return ratios + math.log1p(effect), series[:, :before]
