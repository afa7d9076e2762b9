"""Programs that keep outputs are told from those that do the work again, whatever a clock varies by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.bench.harness import kept_outputs
from assay.bench.harness.kept_outputs import KeptOutputs
from assay.workloads.contract import DataSet


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_outputs, "last_level_cache_bytes", lambda: 1 << 10)


def times(seconds_of: Callable[[DataSet, bool], float]) -> float:
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
        loaded.append, run, lambda: DataSet({"values": np.array([next(seeds)])}, 1)
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
