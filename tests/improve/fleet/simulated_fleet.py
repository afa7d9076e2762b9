"""A fleet of numbers: replicas that differ, correlate by rack and by time, and start differently."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from assay.improve.fleet.protocol import Sample


@dataclass(frozen=True)
class Noise:
    """Standard deviations of log-figures."""

    replica: float = 0.05
    """How replicas differ for good."""
    start: float = 0.01
    """From start to start of a replica."""
    window: float = 0.01
    rack: float = 0.02
    """Shared by the replicas of a rack, slowly changing."""
    fleet: float = 0.03
    """Shared by all replicas."""
    memory: float = 0.8
    """Of what is shared, from window to window."""
    heavy: float = 0.02
    """Chance that a window of a replica is hit by a neighbor, and loses a tenth."""


class SimulatedFleet:
    """Implements the protocol of fleets; `gain` is what the change adds to the log-figure."""

    def __init__(
        self, seed: object, replicas: int = 8, gain: float = 0.0, noise: Noise | None = None
    ) -> None:
        self.noise = noise or Noise()
        self._chance = random.Random(f"{seed}")
        self._names = [f"replica-{number}" for number in range(replicas)]
        self._own = {name: self._normal(self.noise.replica) for name in self._names}
        self._started = {name: self._normal(self.noise.start) for name in self._names}
        self._shared = [self._normal(self.noise.rack) for _ in range(0, replicas, 2)]
        self._common = 0.0
        self.gain = gain
        self.changed = dict.fromkeys(self._names, False)
        self.kept = False
        self.restarts = 0

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def start(self, changed: Mapping[str, bool]) -> None:
        for name, is_on in changed.items():
            self.changed[name] = is_on
            self._started[name] = self._normal(self.noise.start)
            self.restarts += 1

    def measure(self, names: Collection[str], load: float = 1.0) -> dict[str, Sample]:
        noise = self.noise
        fresh = math.sqrt(1.0 - noise.memory**2)
        self._common = noise.memory * self._common + fresh * self._normal(noise.fleet)
        self._shared = [
            noise.memory * value + fresh * self._normal(noise.rack) for value in self._shared
        ]
        return {name: self._sample(self._names.index(name)) for name in names}

    def _sample(self, number: int) -> Sample:
        name = self._names[number]
        log = self._own[name] + self._started[name] + self._common + self._shared[number // 2]
        log += self._normal(self.noise.window)
        log -= 0.1 if self._chance.random() < self.noise.heavy else 0.0
        log += self.gain if self.changed[name] else 0.0
        figures = {"mean_ttft_ms": 50.0 * math.exp(-log + self._normal(0.01))}
        return Sample(1000.0 * math.exp(log), 100, 0, 100, figures)

    def revert(self, why: str) -> list[str]:
        self.changed = dict.fromkeys(self._names, False)
        return []

    def keep(self, why: str) -> None:
        self.kept = True

    def _normal(self, spread: float) -> float:
        return self._chance.gauss(0.0, spread)
