"""The measurement loop: rounds, samples, checks."""

import itertools
import math
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from assay import xp
from assay.bench.harness import checks, clocks, inputs, runner
from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Subject
from assay.bench.harness.clocks import (
    DeviceClock,
    HostClock,
    PinnedCore,
    PinnedCoreClock,
    SelfTimedClock,
)
from assay.bench.harness.runner import SamplingPlan, measure
from assay.errors import InputError
from assay.runtime.hardware import Device

EFFORT = SamplingPlan(0.01, min_rounds=8, max_rounds=8, min_sample_seconds=1e-6, max_seconds=5.0)
RIGHT = Check("nothing", lambda _: 0.0, 0.0)


def self_timed(
    name: str, values: list[float], log: list[str] | None = None, **more: Any
) -> Subject:
    """A subject that reports these values, one after the other."""
    samples = itertools.cycle(values)

    def call(_: int) -> float:
        if log is not None:
            log.append(name)
        return next(samples)

    return Subject(name, call, SelfTimedClock(), **more)


def run(
    prepared: PreparedCase, unit: str = "GB/s", effort: SamplingPlan = EFFORT, cache: int = 1 << 20
) -> Any:
    return measure(Case("case", unit, lambda: prepared), effort, cache)


def test_a_plan_of_more_seconds_has_as_many_more_rounds() -> None:
    longer = runner.FULL.lasting(4 * runner.FULL.seconds)
    assert (longer.seconds, longer.max_rounds) == (10.0, 4 * runner.FULL.max_rounds)
    assert longer.shared_by(9).seconds == pytest.approx(10 / 9)
    shorter = runner.FULL.lasting(0.5)
    assert (shorter.seconds, shorter.max_rounds) == (0.5, runner.FULL.max_rounds)


def test_nothing_is_measured_without_a_required_rival() -> None:
    log: list[str] = []
    rivals: list[Subject | Absent] = [
        self_timed("other", [1.0], log),
        Absent("gone", "not installed"),
    ]
    prepared = PreparedCase(self_timed("own", [1.0], log), RIGHT, rivals=rivals)
    case = Case("case", "GB/s", lambda: prepared)
    for name, why in (("gone", "not installed"), ("nobody", "there are other")):
        with pytest.raises(InputError, match=f"case: expected the rival {name}, got none: {why}"):
            measure(case, EFFORT, 1 << 20, 1, [name])
    assert log == []
    assert measure(case, EFFORT, 1 << 20, 1, ["other"]).rivals[0].name == "other"


def test_degradations_are_in_the_note_of_a_figure() -> None:
    prepared = PreparedCase(
        self_timed("own", [1.0]), RIGHT, note="cold", degradations=lambda: ["eager", "eager"]
    )
    assert run(prepared).note == "eager; cold"
    assert run(PreparedCase(self_timed("own", [1.0]), RIGHT, note="cold")).note == "cold"


def test_threads_that_keep_running_are_in_the_note_of_a_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle = itertools.cycle([True, False])
    monkeypatch.setattr(runner, "wait_until_idle", lambda: next(idle))
    noted = run(PreparedCase(self_timed("own", [1.0]), RIGHT, note="cold")).note
    assert noted == "another thread of this process kept running in 4 of 8 samples; cold"


def test_every_round_samples_all_subjects_in_rotating_order() -> None:
    log: list[str] = []
    prepared = PreparedCase(
        self_timed("own", [1.0], log),
        RIGHT,
        ceiling=self_timed("top", [0.5], log),
        rivals=[self_timed("other", [2.0], log), Absent("gone", "not installed")],
    )
    found = run(prepared)
    rounds = [log[3 + 3 * number :][:3] for number in range(8)]
    assert all(sorted(names) == ["other", "own", "top"] for names in rounds)
    assert [names[0] for names in rounds[:4]] == ["own", "top", "other", "own"]
    assert found.absent == {"gone": "not installed"}
    assert found.share == pytest.approx(0.5)
    assert found.paired(found.rivals[0]) == pytest.approx([2.0] * 8)


def test_ratios_pair_samples_of_the_same_round() -> None:
    # The machine halves its speed every other round: the ratio is unaffected.
    prepared = PreparedCase(
        self_timed("own", [2e-9, 4e-9]), RIGHT, ceiling=self_timed("top", [1e-9, 2e-9])
    )
    found = run(prepared)
    assert found.spread > 0.5
    assert set(found.paired(found.ceiling)) == {0.5}


def test_amounts_and_units() -> None:
    prepared = PreparedCase(self_timed("own", [0.5], amount=3e9), RIGHT)
    assert run(prepared, "GB/s").value == pytest.approx(6.0)
    assert run(prepared, "%").value == pytest.approx(50.0)
    many = PreparedCase(self_timed("own", [0.5], amount=50), RIGHT)
    assert run(many, "ms").value == pytest.approx(10.0)


def test_slow_rival_skips_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]

    def taking(seconds: float) -> Callable[[int], None]:
        def call(_: int) -> None:
            now_s[0] += seconds

        return call

    clock = SimpleNamespace(
        perf_counter=lambda: now_s[0], perf_counter_ns=lambda: round(now_s[0] * 1e9)
    )
    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(clocks, "time", clock)
    slow = Subject("slow", taking(0.02), HostClock())
    prepared = PreparedCase(Subject("own", taking(1e-6), HostClock()), RIGHT, rivals=[slow])
    found = run(prepared, effort=SamplingPlan(0.01, 8, 8, 1e-6, 5.0))
    assert len(found.own.values) == 8
    assert len(found.rivals[0].values) == 3
    assert len(found.paired(found.rivals[0])) == 3


@pytest.mark.parametrize("errors", [(math.nan, 0.0), (0.0, math.nan), (0.0, 2.0), (2.0, 0.0)])
def test_check_fails_if_wrong_before_or_after(errors: tuple[float, float]) -> None:
    samples = iter(errors)
    prepared = PreparedCase(self_timed("own", [1.0]), Check("truth", lambda _: next(samples), 1.0))
    assert not run(prepared).check.passed


def test_unwritten_output_fails_the_check() -> None:
    device = Device("cpu")
    out = xp.zeros((64,), dtype=xp.float32, device=device)
    expected = inputs.download(out).copy()
    prepared = PreparedCase(
        Subject("own", lambda _: None, DeviceClock(device)),
        checks.output("zeros", lambda _: None, out, lambda _: expected, 1.0),
    )
    found = run(prepared)
    assert math.isnan(found.check.error)
    assert not found.check.passed


def test_reused_memory_is_nan_before_a_returned_array_is_checked() -> None:
    """A function that returns memory without writing it must not pass."""
    device = Device("cpu")
    filled = [True]

    def call(_: int) -> Any:
        return (xp.ones if filled[0] else xp.empty)((4096,), dtype=xp.float32, device=device)

    check = checks.returned_array("ones", call, lambda _: inputs.np.ones(4096), 0.0)
    assert check.error(0) == 0.0
    filled[0] = False
    assert math.isnan(check.error(0))


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="no thread affinity on this system"
)
def test_pinned_core_restores_affinity() -> None:
    allowed, core = os.sched_getaffinity(0), PinnedCore()
    seen = []
    clock = PinnedCoreClock(core)
    assert clock.measure(lambda _: seen.append(os.sched_getaffinity(0)), 0, 3) > 0
    assert os.sched_getaffinity(0) == allowed

    def fail(_: int) -> None:
        seen.append(os.sched_getaffinity(0))
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        clock.measure(fail, 0, 1)
    assert os.sched_getaffinity(0) == allowed
    # The call before the timed ones warms up.
    assert len(seen) == 5
    assert len(set.union(*seen)) == 1
    assert seen[0] <= allowed


def test_device_clock_reads_device_time() -> None:
    """On the simulated device time is virtual, independent of the host."""
    device = Device("sim")
    host = inputs.small_integers(1 << 16, 0)
    source = inputs.upload(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    def call(_: int) -> None:
        out[...] = source

    clock = DeviceClock(device)
    clock.measure(call, 0, 50)
    first = clock.measure(call, 0, 50)
    assert first > 0.0
    assert clock.measure(call, 0, 50) == first


def test_cold_follows_from_the_working_set() -> None:
    for size, cold in ((None, None), (1 << 10, False), (1 << 30, True)):
        prepared = PreparedCase(self_timed("own", [1.0]), RIGHT, working_set_bytes=size)
        assert run(prepared).cold is cold


def test_self_timed_call_without_a_number_raises() -> None:
    prepared = PreparedCase(Subject("own", lambda _: None, SelfTimedClock()), RIGHT)
    with pytest.raises(TypeError, match="expected a number"):
        run(prepared)
