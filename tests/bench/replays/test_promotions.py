"""Experiments over recorded noise: false promotions at any look, planted gains found."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pytest
from planted_engine import PlantedEngine, planted_workload

from assay.bench.replays import recordings
from assay.bench.replays.promotions import promotions, replay
from assay.bench.replays.recordings import RecordedNoise
from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate

NOISE = [
    recordings.FOLDER / name for name in recordings.NOISE if (recordings.FOLDER / name).is_file()
]


def made_up(sd: float, count: int = 1200) -> RecordedNoise:
    numbers = random.Random(3)
    return RecordedNoise(
        "made up", tuple(100.0 * math.exp(numbers.gauss(0.0, sd)) for _ in range(count)), 0.5
    )


def test_made_up_noise() -> None:
    noise = made_up(0.02)
    equal = promotions(noise, 0.0, 40, 100.0)
    gain = promotions(noise, 0.03, 20, 100.0)
    assert equal.promoted <= 0.1
    assert gain.promoted == 1.0
    assert 4 <= gain.median_pairs <= 25


def test_a_replay_decides_as_the_experiment_does() -> None:
    """The same blocks through `run_experiment`: the first promotion is after the same pair."""
    noise = made_up(0.02)
    seed = 11
    expected = replay(noise, 0.05, seed, 100.0)
    start = random.Random(seed).randrange(len(noise.rates) - 200 + 1)
    blocks = iter(noise.rates[start:])
    engine = PlantedEngine(restart_s=0.0)
    # Windows before the first pair: warm-up blocks take none of the recorded ones.
    warm = itertools.count()
    settings = ExperimentSettings(
        budget_s=1e6, block_requests=1, most_warmup_blocks=1, seed=seed, most_pairs=100
    )

    def speed() -> float:
        if next(warm) == 0:
            return 100.0
        return next(blocks) * (1.05 if engine.settings()["graphs"] else 1.0)

    engine._speed = speed  # type: ignore[method-assign]
    candidate = Candidate("graphs", ("graphs",), {"graphs": True}, "bitwise", "safe", True)
    result = run_experiment(engine, planted_workload(), candidate, settings, clock=engine.clock)
    assert result.verdict == "improved"
    assert result.looks[-1].pair + 1 == expected.promoted_after


@pytest.mark.parametrize("path", NOISE, ids=lambda path: path.stem)
def test_a_sample_of_recorded_noise(path: Path) -> None:
    noise = recordings.noise(path)
    found = promotions(noise, 0.0, 40, 60.0)
    # 5 % are allowed; of 40 runs 6 or more have a chance of 1 %.
    assert found.promoted < 6 / 40


@pytest.mark.slow
@pytest.mark.parametrize("path", NOISE, ids=lambda path: path.stem)
def test_at_most_one_in_twenty_equal_settings_is_promoted(path: Path) -> None:
    found = promotions(recordings.noise(path), 0.0, 500, 600.0)
    assert found.promoted <= 0.05


@pytest.mark.slow
@pytest.mark.skipif(
    not (recordings.FOLDER / recordings.NOISE[0]).is_file(), reason="no quiet recording"
)
def test_planted_gains_of_3_percent_are_found_within_10_minutes() -> None:
    found = promotions(recordings.noise(recordings.FOLDER / recordings.NOISE[0]), 0.03, 500, 600.0)
    assert found.promoted >= 0.9


def test_malformed_recordings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.json"
    for text, words in (
        ("[]", "expected an object"),
        ("{}", "expected visits with blocks"),
        ('{"visits": [{"blocks": [[0, 1]]}]}', "above 0"),
    ):
        path.write_text(text)
        with pytest.raises(recordings.InputError, match=words):
            recordings.noise(path)
    with pytest.raises(recordings.InputError, match="expected the file"):
        recordings.noise(tmp_path / "none.json")
