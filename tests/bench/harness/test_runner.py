"""The one loop that measures: turns, samples, checks."""

import itertools
import math
import os
from typing import Any

import pytest

from assay import xp
from assay.bench.harness import checks, inputs
from assay.bench.harness.case import Absent, Case, Check, Contestant, Trial
from assay.bench.harness.clocks import DeviceClock, HostClock, OneCore, OneCoreClock, ToldClock
from assay.bench.harness.runner import Effort, measure
from assay.runtime.hardware import Device

EFFORT = Effort(0.01, least_rounds=8, most_rounds=8, sample_seconds=1e-6, most_seconds=5.0)
RIGHT = Check("nothing", lambda _: 0.0, 0.0)


def told(name: str, values: list[float], log: list[str] | None = None, **more: Any) -> Contestant:
    """A contestant that says how long it took, one value after the other."""
    turns = itertools.cycle(values)

    def call(_: int) -> float:
        if log is not None:
            log.append(name)
        return next(turns)

    return Contestant(name, call, ToldClock(), **more)


def run(trial: Trial, unit: str = "GB/s", effort: Effort = EFFORT, cache: int = 1 << 20) -> Any:
    return measure(Case("case", unit, lambda: trial), effort, cache)


def test_what_was_done_less_well_is_told_with_the_figure() -> None:
    trial = Trial(told("own", [1.0]), RIGHT, note="cold", degradations=lambda: ["eager", "eager"])
    assert run(trial).note == "cold; eager"
    assert run(Trial(told("own", [1.0]), RIGHT, note="cold")).note == "cold"


def test_everyone_has_a_turn_in_each_round_and_another_begins_each_time() -> None:
    log: list[str] = []
    trial = Trial(
        told("own", [1.0], log),
        RIGHT,
        ceiling=told("top", [0.5], log),
        rivals=[told("other", [2.0], log), Absent("gone", "not installed")],
    )
    found = run(trial)
    rounds = [log[3 + 3 * number :][:3] for number in range(8)]
    assert all(sorted(turn) == ["other", "own", "top"] for turn in rounds)
    assert [turn[0] for turn in rounds[:4]] == ["own", "top", "other", "own"]
    assert found.absent == {"gone": "not installed"}
    assert found.share == pytest.approx(0.5)
    assert found.paired(found.rivals[0]) == pytest.approx([2.0] * 8)


def test_a_share_is_that_of_the_same_round() -> None:
    # The machine halves its speed from round to round: the share does not see it.
    trial = Trial(told("own", [2e-9, 4e-9]), RIGHT, ceiling=told("top", [1e-9, 2e-9]))
    found = run(trial)
    assert found.spread > 0.5
    assert set(found.paired(found.ceiling)) == {0.5}


def test_amounts_and_units() -> None:
    trial = Trial(told("own", [0.5], amount=3e9), RIGHT)
    assert run(trial, "GB/s").value == pytest.approx(6.0)
    assert run(trial, "%").value == pytest.approx(50.0)
    many = Trial(told("own", [0.5], amount=50), RIGHT)
    assert run(many, "ms").value == pytest.approx(10.0)


def test_a_slow_rival_leaves_rounds_to_the_others() -> None:
    import time

    slow = Contestant("slow", lambda _: time.sleep(0.02), HostClock())
    trial = Trial(Contestant("own", lambda _: None, HostClock()), RIGHT, rivals=[slow])
    found = run(trial, effort=Effort(0.01, 8, 8, 1e-6, 5.0))
    assert len(found.own.values) == 8
    assert len(found.rivals[0].values) == 3
    assert len(found.paired(found.rivals[0])) == 3


@pytest.mark.parametrize("errors", [(math.nan, 0.0), (0.0, math.nan), (0.0, 2.0), (2.0, 0.0)])
def test_wrong_before_or_after_is_wrong(errors: tuple[float, float]) -> None:
    turns = iter(errors)
    trial = Trial(told("own", [1.0]), Check("truth", lambda _: next(turns), 1.0))
    assert not run(trial).check.passed


def test_an_output_that_is_not_written_is_wrong() -> None:
    device = Device("cpu")
    out = xp.zeros((64,), dtype=xp.float32, device=device)
    wanted = inputs.fetch(out).copy()
    trial = Trial(
        Contestant("own", lambda _: None, DeviceClock(device)),
        checks.written("zeros", lambda _: None, out, lambda _: wanted, 1.0),
    )
    found = run(trial)
    assert math.isnan(found.check.error)
    assert not found.check.passed


def test_memory_that_the_pool_hands_out_next_is_spoilt() -> None:
    """A function that returns fresh memory without filling it must not pass."""
    device = Device("cpu")
    filled = [True]

    def call(_: int) -> Any:
        return (xp.ones if filled[0] else xp.empty)((4096,), dtype=xp.float32, device=device)

    check = checks.returned("ones", call, lambda _: inputs.np.ones(4096), 0.0)
    assert check.error(0) == 0.0
    filled[0] = False
    assert math.isnan(check.error(0))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system holds no threads")
def test_a_thread_is_held_on_one_core_and_let_go() -> None:
    allowed, core = os.sched_getaffinity(0), OneCore()
    seen = []
    clock = OneCoreClock(core)
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


def test_device_clocks_read_the_clock_of_the_device() -> None:
    """On the simulated device time is virtual, the same whatever the host does meanwhile."""
    device = Device("sim")
    host = inputs.counts(1 << 16, 0)
    source = inputs.place(device, host)
    out = xp.empty(source.shape, dtype=xp.float32, device=device)

    def call(_: int) -> None:
        out[...] = source

    clock = DeviceClock(device)
    clock.measure(call, 0, 50)
    first = clock.measure(call, 0, 50)
    assert first > 0.0
    assert clock.measure(call, 0, 50) == first


def test_cold_is_computed_from_what_is_rotated() -> None:
    for size, cold in ((None, None), (1 << 10, False), (1 << 30, True)):
        trial = Trial(told("own", [1.0]), RIGHT, working_set_bytes=size)
        assert run(trial).cold is cold


def test_a_call_that_should_tell_a_number_must() -> None:
    trial = Trial(Contestant("own", lambda _: None, ToldClock()), RIGHT)
    with pytest.raises(TypeError, match="not a number"):
        run(trial)
