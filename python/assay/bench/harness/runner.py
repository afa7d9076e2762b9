"""The one loop that measures: contestants in turn, round after round, with the answer checked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from assay.bench.harness.case import UNITS, Absent, Case, Contestant, Trial
from assay.bench.harness.clocks import ToldClock
from assay.bench.harness.quiescence import settle
from assay.bench.harness.result import Figure, Series, Verification

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a case is measured."""

    seconds: float
    least_rounds: int
    most_rounds: int
    sample_seconds: float
    """One value takes at least this long, so that reading the clock costs nothing beside it."""
    most_seconds: float
    """After this long three rounds must do, though they bound no median."""
    settles: bool = True
    """Whether a turn waits until no other thread of the process runs."""


CLAIM: Final = Effort(2.5, least_rounds=21, most_rounds=401, sample_seconds=5e-4, most_seconds=60)
GPU_CLAIM: Final = replace(CLAIM, seconds=1.0, sample_seconds=4e-3, settles=False)
"""Longer samples, since the first kernel comes late; the host's threads do not matter to a GPU."""
LOOK: Final = Effort(0.12, least_rounds=7, most_rounds=51, sample_seconds=1e-4, most_seconds=1.0)

LEAST_VALUES: Final = 3
"""What a slow contestant gives at least; a rival then leaves the rounds to the others."""


def measure(case: Case, effort: Effort, cache_bytes: int | None) -> Figure:
    """Prepare a case, check it, measure it, check it again."""
    if case.rounds is not None:
        effort = replace(effort, least_rounds=case.rounds, most_rounds=case.rounds)
    trial = case.prepare()
    present = [rival for rival in trial.rivals if isinstance(rival, Contestant)]
    contestants = [trial.own, *([trial.ceiling] if trial.ceiling else []), *present]
    error = trial.check.error(0)
    lanes = [_Lane(one, effort) for one in contestants]
    _rounds(lanes, effort)
    # What ran last is checked too: a buffer that a later call spoils would not show in the first.
    error = _worse(error, trial.check.error(lanes[0].made - 1))
    unit = UNITS[case.unit]
    series = [
        Series(
            lane.contestant.name,
            tuple(
                None if one is None else unit.value(lane.contestant.amount, one)
                for one in lane.values
            ),
            lane.calls,
        )
        for lane in lanes
    ]
    has_ceiling = trial.ceiling is not None
    return Figure(
        name=case.name,
        unit=case.unit,
        parameters=case.parameters,
        own=series[0],
        ceiling=series[1] if has_ceiling else None,
        rivals=tuple(series[1 + has_ceiling :]),
        absent={one.name: one.reason for one in trial.rivals if isinstance(one, Absent)},
        check=Verification(trial.check.against, float(error), float(trial.check.tolerance)),
        bytes=trial.bytes,
        flops=trial.flops,
        working_set_bytes=trial.working_set_bytes,
        cold=_is_cold(trial, cache_bytes),
        note="; ".join(filter(None, [trial.note, *dict.fromkeys(trial.degradations())])),
    )


class _Lane:
    """A contestant with what it has done so far."""

    def __init__(self, contestant: Contestant, effort: Effort) -> None:
        self.contestant = contestant
        self.settles = effort.settles
        self.made = 0
        self.used = 0.0
        self.values: list[float | None] = []
        self.calls = 1
        self.sample()
        if not isinstance(contestant.clock, ToldClock) and self.used < effort.sample_seconds * 10:
            # The first call warmed up; the second tells how many make a sample.
            start = time.perf_counter()
            once = max(self.sample(), time.perf_counter() - start, 1e-9)
            self.calls = max(1, math.ceil(effort.sample_seconds / once))
        self.used = 0.0

    def turn(self) -> float:
        """A sample that begins when the one before is over, threads and all, and warmed up again."""
        if self.settles:
            settle()
        if not isinstance(self.contestant.clock, ToldClock):
            self.contestant.call(self.made)
            self.made += 1
        return self.sample()

    def sample(self) -> float:
        start = time.perf_counter()
        value = self.contestant.clock.measure(self.contestant.call, self.made, self.calls)
        self.made += self.calls
        self.used += time.perf_counter() - start
        return value

    @property
    def count(self) -> int:
        return sum(value is not None for value in self.values)


def _rounds(lanes: list[_Lane], effort: Effort) -> None:
    """Give every lane its turns, beginning with another one in each round."""
    start = time.perf_counter()
    share = effort.seconds / len(lanes)
    number = 0
    while number < effort.most_rounds:
        spent = time.perf_counter() - start
        is_enough = spent > effort.seconds and number >= effort.least_rounds
        if is_enough or (spent > effort.most_seconds and number >= LEAST_VALUES):
            break
        for lane in lanes[number % len(lanes) :] + lanes[: number % len(lanes)]:
            is_slow = lane.used > share and lane.count >= LEAST_VALUES
            sits_out = is_slow and lane is not lanes[0] and lane.used > 4 * lanes[0].used
            lane.values.append(None if sits_out else lane.turn())
        number += 1


def _worse(one: float, other: float) -> float:
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def _is_cold(trial: Trial, cache_bytes: int | None) -> bool | None:
    if trial.working_set_bytes is None or cache_bytes is None:
        return None
    return trial.working_set_bytes > cache_bytes
