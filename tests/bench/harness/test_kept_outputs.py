"""Programs that keep outputs are told from those that do the work again, whatever a clock varies by."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from assay.bench.harness import kept_outputs
from assay.bench.harness.kept_outputs import TIMES_OF_PROCESSES, KeptOutputs
from assay.workloads.contract import DataSet


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_outputs, "last_level_cache_bytes", lambda: 1 << 10)


def times(seconds_of: Callable[[DataSet, bool], float], times_at_most: float = 1.2) -> float:
    """What is said of a program that takes so long, given data and whether they were seen."""
    loaded: list[DataSet] = []
    seen: set[str] = set()
    seeds = iter(range(1_000))

    def run() -> float:
        data = loaded[-1]
        seconds = seconds_of(data, data.sha256 in seen)
        seen.add(data.sha256)
        return seconds

    return KeptOutputs(
        loaded.append,
        run,
        lambda: DataSet({"values": np.array([next(seeds)])}, 1),
        times_at_most=times_at_most,
    ).times_as_fast()


def test_outputs_that_are_kept_are_told_however_the_clock_varies() -> None:
    noise = np.random.default_rng(1)
    for gain in (1.6, 2.0, 100.0):
        said = times(
            lambda _, seen, g=gain: noise.lognormal(0, 0.05) * (0.01 / g if seen else 0.01)
        )
        assert said == pytest.approx(gain, rel=0.1)


def test_an_honest_program_is_none_that_keeps_outputs() -> None:
    noise = np.random.default_rng(2)
    assert [times(lambda _, __: 0.01 * noise.lognormal(0, 0.2)) for _ in range(50)] == [1.0] * 50


def test_data_of_very_different_work_are_held_against_themselves() -> None:
    work = lambda data, _: 0.01 * (1 + int(data.arrays["values"][0]) % 5)  # noqa: E731
    assert times(work) == 1.0


@pytest.mark.parametrize(
    ("first_ms", "again_ms", "expected"),
    [
        # An honest command on two cores that ten others wanted: one lucky run among eighteen.
        ("61 243 56 80 82 148 117 48 81", "31 120 117 93 68 96 97 49 118", 1.0),
        ("70 71 69", "70 69 71", 1.0),
        # Outputs that are kept, though two runs had to wait for a core.
        ("90 91 90 95 90 92 90 90 90", "95 40 130 41 40 40 42 40 41", 2.2),
    ],
)
def test_commands_that_run_again_are_told_from_noise(
    first_ms: str, again_ms: str, expected: float
) -> None:
    first, again = (
        itertools.cycle([float(ms) / 1e3 for ms in listed.split()])
        for listed in (first_ms, again_ms)
    )
    said = times(lambda _, seen: next(again if seen else first), TIMES_OF_PROCESSES)
    assert said == pytest.approx(expected, rel=0.03)


def test_a_tenth_that_a_command_saves_is_told_and_honest_ones_are_not_accused() -> None:
    """Noise of commands of 70 ms: 2 % on an idle machine; 35 % beside builds on each of two cores."""
    noise = np.random.default_rng(3)

    def said(saved: float, spread: float) -> float:
        return times(
            lambda _, seen: 0.01 * noise.lognormal(0, spread) * (1 - saved if seen else 1),
            TIMES_OF_PROCESSES,
        )

    assert min(said(0.1, 0.02 / 2**0.5) for _ in range(50)) > 1.05
    assert {said(0.0, spread) for spread in (0.02, 0.35) for _ in range(200)} == {1.0}
