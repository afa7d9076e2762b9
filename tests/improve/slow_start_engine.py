"""A planted engine that starts slowly and may have several servers at once, on a clock of its own."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planted_engine import START, PlantedEngine

from assay.improve.engines.protocol import (
    Engine,
    EngineKnob,
    Residents,
    Room,
    TrialFailedError,
    Undo,
)
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Window, Workload

KNOBS = ("a", "b", "c", "d", "e", "f", "memory")
AT_START: Mapping[str, Setting] = {**START, **dict.fromkeys(KNOBS, 0)}

Key = frozenset[tuple[str, Setting]]


@dataclass
class SlowStartEngine(PlantedEngine):
    """Every start takes `restart_s`, and differs from others of the same settings by `start_noise`."""

    servers: int = 4
    start_noise: float = 0.002
    sleeps: bool = True
    can_be_resident: bool = True
    alone: frozenset[str] = frozenset({"memory"})
    members: dict[Key, list[float]] = field(default_factory=dict)
    """Factors of the speed of the servers of each settings."""
    starts: int = 0
    tried: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settings = dict(AT_START)
        self._luck = random.Random(f"starts {self.seed}")
        self._factor = self._new()
        self.shared = False
        self.measured_alone: list[Mapping[str, Setting]] = []

    def knobs(self) -> Mapping[str, EngineKnob]:
        own = {name: EngineKnob(name, name, 0, False, 0, 9) for name in KNOBS}
        return {**{name: replace(knob, hot=False) for name, knob in super().knobs().items()}, **own}

    def residents(self) -> Residents | None:
        return self if self.can_be_resident else None

    def start_seconds(self) -> float:
        return self.restart_s

    def room(self, context_tokens: float) -> Room:
        return Room(self.servers, "shared", f"{self.servers} servers share the memory")

    def start(
        self, wanted: Sequence[Mapping[str, Setting]], room: Room, *, anew: bool = False
    ) -> None:
        self.shared = True
        if anew:
            self.members = {}
        self._have([self._key(changes) for changes in wanted])

    def take_turns(self, wanted: Sequence[Mapping[str, Setting]]) -> bool:
        if not self.sleeps:
            return False
        self.members = {}
        self.shared = False
        for changes in wanted:
            self._have([*self.members, self._key(changes)])
        return True

    def leave(self) -> None:
        self.members, self.shared = {}, False
        self.now += self.restart_s

    def twin(self, settings: Mapping[str, Setting]) -> Engine | None:
        factors = self.members.get(self._key(settings), [])
        return _Twin(self, factors[1]) if len(factors) > 1 else None

    def is_live(self, changes: Mapping[str, Setting]) -> bool:
        return self._key({**self._settings, **changes}) in self.members

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        if not self.members:
            self._factor = self._new()
            return super().configure(changes)
        before = dict(self._settings)
        failure = self.fails({**before, **changes})
        if failure is not None:
            raise TrialFailedError(f"did not start: {failure}", failure=failure)
        self._go({**before, **changes})
        return lambda: self._go(before)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        if not self.shared:
            self.measured_alone.append(dict(self._settings))
        return super().measure(workload, window)

    def _key(self, changes: Mapping[str, Setting]) -> Key:
        return frozenset(
            (name, value) for name, value in changes.items() if AT_START[name] != value
        )

    def _have(self, keys: Sequence[Key]) -> None:
        missing = [key for key in keys if key not in self.members]
        self.tried += [key for key in missing if key]
        assert len(keys) <= self.servers
        old, self.members = self.members, {}
        for key in keys:
            known = old.get(key, [])
            have = self.members.setdefault(key, [])
            have.append(known[len(have)] if len(have) < len(known) else self._new())
        self.now += self.restart_s

    def _go(self, settings: Mapping[str, Setting]) -> None:
        key = self._key(settings)
        if key not in self.members:
            self._have([frozenset(), key])
        self._apply(settings)
        self._factor = self.members[key][0]

    def _new(self) -> float:
        self.starts += 1
        return math.exp(self._luck.gauss(0.0, self.start_noise))

    def _speed(self) -> float:
        return super()._speed() * self._factor


class _Twin(Engine):
    """The second of two servers of equal settings."""

    def __init__(self, engine: SlowStartEngine, factor: float) -> None:
        self._engine, self._own = engine, factor

    def measure(self, workload: Workload, window: Window) -> Measurement:
        engine = self._engine
        before, engine._factor = engine._factor, self._own
        try:
            return engine.measure(workload, window)
        finally:
            engine._factor = before
