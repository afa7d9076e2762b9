"""Grids of settings with a planted optimum and noise, none of them drawn from the search's own model.

Variants of the search were compared on grids 0 to 53 (docs/design/search.md); tests take later ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.improve.policy.search import Search
from assay.intervals import Interval

SERVING: Mapping[str, tuple[int, ...]] = {
    "threads": (1, 2),
    "max_batch": (1, 2, 4, 8),
    "depth": (0, 4, 8),
    "graphs": (0, 4),
    "budget": (16, 64, 512),
}
NOISES = (0.02, 0.05, 0.15)
"""Standard deviation of the logarithm of a measured rate."""

Point = Mapping[str, Any]


@dataclass
class PlantedGrid:
    """Settings with known rates; measurements are off by more than their intervals tell."""

    knobs: Mapping[str, tuple[Any, ...]]
    log_rate: Callable[[Point], float]
    noise: float
    told: float
    """The standard error that intervals claim."""
    random: np.random.Generator

    def __post_init__(self) -> None:
        """Find the best."""
        self.start = {name: values[0] for name, values in self.knobs.items()}
        points = itertools.product(*self.knobs.values())
        self.best = max(self.log_rate(dict(zip(self.knobs, one, strict=True))) for one in points)
        self._measured_start = self.measured({})

    def measured(self, changes: Point) -> float:
        """The logarithm of a rate, with noise that is new each time."""
        return self.log_rate({**self.start, **changes}) + self.random.normal(0.0, self.noise)

    def ratio(self, changes: Point) -> Interval:
        """The measured ratio to the start."""
        ratio = math.exp(self.measured(changes) - self._measured_start)
        half = math.exp(1.96 * self.told)
        return Interval(ratio, ratio / half, ratio * half)

    def regret(self, changes: Point) -> float:
        """How far settings are below the best, as a share."""
        return 1.0 - math.exp(self.log_rate({**self.start, **changes}) - self.best)


def grid(number: int) -> PlantedGrid:
    """A grid by its number: every third a serving engine, the others of any shape."""
    random = np.random.default_rng(1000 + number)
    serving = number % 3 == 0
    knobs = SERVING if serving else _knobs(random)
    log_rate = _serving(random) if serving else _effects(knobs, random)
    noise = NOISES[number // 3 % len(NOISES)]
    return PlantedGrid(knobs, log_rate, noise, noise * random.uniform(0.3, 1.0), random)


def regrets(number: int, most: int) -> list[float]:
    """The regret of the search's choice after each trial; one that ends keeps its choice."""
    planted = grid(number)
    search = Search(planted.knobs, planted.start, seed=number)
    held = [planted.regret({})]
    while len(held) < most and (changes := search.ask()) is not None:
        search.tell(changes, planted.ratio(changes))
        held.append(planted.regret(search.best()[0]))
    return held + [held[-1]] * (most - len(held))


def _knobs(random: np.random.Generator) -> dict[str, tuple[Any, ...]]:
    while True:
        sizes = [int(random.integers(2, 5)) for _ in range(random.integers(4, 7))]
        if 100 <= math.prod(sizes) <= 300:
            break
    return {
        f"knob{place}": tuple(range(size)) if random.random() < 0.7 else tuple("abcd"[:size])
        for place, size in enumerate(sizes)
    }


def _serving(random: np.random.Generator) -> Callable[[Point], float]:
    """A closed loop of clients over roofline steps: weights or rows, host work, prefills, drafts."""
    weights, rows, host, launch = np.exp(random.normal([0, -1.5, -1.5, -2], 0.6))
    cores, accepted = random.uniform(0.5, 0.95), random.uniform(0.2, 0.9)
    prefill = math.exp(random.normal(-1, 0.7))
    chunk, captured = random.uniform(0.0, 0.3), random.uniform(0, 0.9)

    def log_rate(point: Point) -> float:
        batch, depth = point["max_batch"], point["depth"]
        threads = 1 + (point["threads"] - 1) * cores
        computed = rows * batch * (1 + depth)
        launches = launch * (1.0 if point["graphs"] == 0 else 1 - captured)
        step = (max(weights, computed) + 0.3 * computed) / threads + host + launches
        tokens = (1 - accepted ** (depth + 1)) / (1 - accepted)
        cut = {16: chunk, 64: chunk / 2, 512: 0.0}[point["budget"]]
        cycle = 24 / tokens * step + batch * prefill * (1 + cut) / threads
        return math.log(24 * batch / cycle)

    return log_rate


def _effects(
    knobs: Mapping[str, tuple[Any, ...]], random: np.random.Generator
) -> Callable[[Point], float]:
    """Knobs that saturate, peak or jump; pairs that differ from the sum; sometimes a cliff."""
    main = {}
    for name, values in knobs.items():
        size, places = math.exp(random.normal(-1.6, 1.1)), np.linspace(0, 1, len(values))
        shapes = (
            np.sqrt(places),
            1 - 4 * (places - random.uniform(0.2, 0.9)) ** 2,
            random.normal(size=len(values)),
        )
        main[name] = size * shapes[random.integers(3)]
    pairs = {
        (one, other): math.exp(random.normal(-2.6, 0.8))
        * random.normal(size=(len(knobs[one]), len(knobs[other])))
        for one, other in itertools.combinations(knobs, 2)
        if random.random() < 0.35
    }
    steep = random.choice(len(knobs), 2, replace=False) if random.random() < 0.4 else ()
    depth = random.uniform(0.2, 0.7)

    def log_rate(point: Point) -> float:
        at = {name: values.index(point[name]) for name, values in knobs.items()}
        found = sum(main[name][at[name]] for name in knobs)
        found += sum(values[at[one], at[other]] for (one, other), values in pairs.items())
        last = [at[name] == len(values) - 1 for name, values in knobs.items()]
        if len(steep) and all(last[place] for place in steep):
            found -= depth
        return float(found)

    return log_rate
