"""The measurement loop: interleaved rounds of all subjects, with the answer checked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.bench.harness.case import Absent, Case, PreparedCase, Subject, unit_named
from assay.bench.harness.clocks import DeviceClock, SelfTimedClock
from assay.bench.harness.quiescence import wait_until_idle
from assay.bench.harness.result import Figure, Series, Verification
from assay.bench.harness.stalls import StallMeter
from assay.errors import InputError


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """How long and how often a case is sampled."""

    seconds: float
    min_rounds: int
    max_rounds: int
    min_sample_seconds: float
    """A sample repeats the call until it takes this long, so that clock overhead is negligible."""
    max_seconds: float
    """After this long `MIN_SAMPLES` rounds suffice, though they give no confidence interval."""
    waits_for_idle: bool = True
    """Whether a sample waits until no other thread of the process runs."""
    warm_up: int = 1
    """Untimed samples of every subject before the first round."""

    def lasting(self, seconds: float) -> SamplingPlan:
        """The same plan with so many seconds of rounds; of more seconds as many more rounds."""
        most = math.ceil(self.max_rounds * max(seconds / self.seconds, 1.0))
        return replace(
            self, seconds=seconds, max_rounds=most, max_seconds=max(self.max_seconds, seconds)
        )

    def shared_by(self, parts: int) -> SamplingPlan:
        """The plan of one of so many seeds, which have the time of one run together."""
        return replace(
            self,
            seconds=self.seconds / parts,
            min_rounds=math.ceil(self.min_rounds / parts),
            max_rounds=math.ceil(self.max_rounds / parts),
            max_seconds=self.max_seconds / parts,
        )


FULL: Final = SamplingPlan(
    2.5, min_rounds=21, max_rounds=401, min_sample_seconds=5e-4, max_seconds=60
)
FULL_GPU: Final = replace(FULL, seconds=1.0, min_sample_seconds=4e-3, waits_for_idle=False)
"""Longer samples, because of launch latency; host threads do not disturb a GPU."""
QUICK: Final = SamplingPlan(
    0.12, min_rounds=7, max_rounds=51, min_sample_seconds=1e-4, max_seconds=1.0
)

MIN_SAMPLES: Final = 3
"""Samples of a slow rival, which then skips further rounds."""


def measure(
    case: Case,
    plan: SamplingPlan,
    cache_bytes: int | None,
    parts: int = 1,
    required: Sequence[str] = (),
) -> Figure:
    """Prepare a case, check it, measure it, check it again: one of `parts` seeds.

    Without a rival that is `required` nothing is measured.
    """
    if case.rounds is not None:
        plan = replace(plan, min_rounds=case.rounds, max_rounds=case.rounds)
    if case.max_seconds is not None:
        plan = replace(plan, max_seconds=case.max_seconds)
    plan = plan.shared_by(parts)
    prepared = case.prepare()
    _require(required, case, prepared)
    present = [rival for rival in prepared.rivals if isinstance(rival, Subject)]
    subjects = [prepared.own, *([prepared.ceiling] if prepared.ceiling else []), *present]
    error = prepared.check.error(0)
    samplers = [Sampler(subject, plan) for subject in subjects]
    samplers[0].meter = StallMeter(on_gpu=samplers[0].is_on_gpu)
    _rounds(samplers, plan)
    # The last call is checked too: the first check would miss a buffer that later calls corrupt.
    error = _worse(error, prepared.check.error(samplers[0].made - 1))
    unit = unit_named(case.unit)
    series = [
        Series(
            sampler.subject.name,
            tuple(
                None if value is None else unit.value(sampler.subject.amount, value)
                for value in sampler.values
            ),
            sampler.calls,
        )
        for sampler in samplers
    ]
    degradations = [*prepared.degradations(), *_disturbances(samplers)]
    has_ceiling = prepared.ceiling is not None
    return Figure(
        name=case.name,
        unit=case.unit,
        parameters=case.parameters,
        own=series[0],
        ceiling=series[1] if has_ceiling else None,
        rivals=tuple(series[1 + has_ceiling :]),
        absent={rival.name: rival.reason for rival in prepared.rivals if isinstance(rival, Absent)},
        check=Verification(prepared.check.against, float(error), float(prepared.check.tolerance)),
        bytes=prepared.bytes,
        flops=prepared.flops,
        working_set_bytes=prepared.working_set_bytes,
        cold=_is_cold(prepared, cache_bytes),
        note="; ".join(filter(None, [*dict.fromkeys(degradations), prepared.note])),
        stalls=samplers[0].meter.total,
        # Those of the rounds: what was first called to warm up may have compiled, too.
        stages=prepared.stages(
            {sampler.subject.name: sampler.count * sampler.calls for sampler in samplers}
        ),
    )


def _require(names: Sequence[str], case: Case, prepared: PreparedCase) -> None:
    rivals = {
        rival.name: rival.reason if isinstance(rival, Absent) else None for rival in prepared.rivals
    }
    for name in names:
        present = [rival for rival, reason in rivals.items() if reason is None]
        if name not in present:
            why = rivals.get(name) or f"there are {', '.join(present) or 'none'}"
            raise InputError(
                f"{case.name}: expected the rival {name}, got none: {why}",
                "install it, or take it out of rivals.required of the claim",
            )


class Sampler:
    """Samples one subject; chooses how many calls make a sample."""

    def __init__(self, subject: Subject, plan: SamplingPlan) -> None:
        self.subject = subject
        self.waits_for_idle = plan.waits_for_idle
        self.made = 0
        self.used = 0.0
        self.values: list[float | None] = []
        self.calls = 1
        self.meter: StallMeter | None = None
        """Of our own code, in the rounds."""
        self.disturbed = 0
        """Samples during which another thread of this process kept running."""
        for _ in range(max(plan.warm_up, 1)):
            self.sample()
        if (
            not isinstance(subject.clock, SelfTimedClock)
            and self.used < plan.min_sample_seconds * 10
        ):
            # The first sample warmed up; the second calibrates the calls per sample.
            start = time.perf_counter()
            once = max(self.sample(), time.perf_counter() - start, 1e-9)
            self.calls = max(1, math.ceil(plan.min_sample_seconds / once))
        self.used = 0.0

    def warm_sample(self) -> float:
        """One sample after a warm-up call, once the threads of the previous subject are idle."""
        if self.waits_for_idle and not wait_until_idle():
            self.disturbed += 1
        if not isinstance(self.subject.clock, SelfTimedClock):
            self.subject.call(self.made)
            self.made += 1
        return self.sample()

    def sample(self) -> float:
        """One sample, without a warm-up call: the mean of what its calls took."""
        start = time.perf_counter()
        if self.meter is not None:
            self.meter.begin()
        value = self.subject.clock.measure(self.subject.call, self.made, self.calls)
        if self.meter is not None:
            self.meter.end(value * self.calls if self.is_on_gpu else None)
        self.made += self.calls
        self.used += time.perf_counter() - start
        return value

    @property
    def is_on_gpu(self) -> bool:
        """Whether its clock is that of a GPU."""
        clock = self.subject.clock
        return isinstance(clock, DeviceClock) and clock.device.capabilities.is_gpu

    @property
    def count(self) -> int:
        """Samples taken in the rounds that were not skipped."""
        return sum(value is not None for value in self.values)


def _rounds(samplers: list[Sampler], plan: SamplingPlan) -> None:
    """Sample all subjects in every round, starting with a different one each time."""
    start = time.perf_counter()
    share = plan.seconds / len(samplers)
    number = 0
    while number < plan.max_rounds:
        spent = time.perf_counter() - start
        is_enough = spent > plan.seconds and number >= plan.min_rounds
        if is_enough or (spent > plan.max_seconds and number >= MIN_SAMPLES):
            break
        for sampler in samplers[number % len(samplers) :] + samplers[: number % len(samplers)]:
            is_slow = sampler.used > share and sampler.count >= MIN_SAMPLES
            skips = is_slow and sampler is not samplers[0] and sampler.used > 4 * samplers[0].used
            sampler.values.append(None if skips else sampler.warm_sample())
        number += 1


def _disturbances(samplers: Sequence[Sampler]) -> Iterator[str]:
    """What other threads of this process, such as those that measured code left behind, took from samples."""
    disturbed = sum(sampler.disturbed for sampler in samplers)
    if disturbed:
        whole = sum(sampler.count for sampler in samplers)
        yield f"another thread of this process kept running in {disturbed} of {whole} samples"


def _worse(first: float, second: float) -> float:
    return math.nan if math.isnan(first) or math.isnan(second) else max(first, second)


def _is_cold(prepared: PreparedCase, cache_bytes: int | None) -> bool | None:
    if prepared.working_set_bytes is None or cache_bytes is None:
        return None
    return prepared.working_set_bytes > cache_bytes
