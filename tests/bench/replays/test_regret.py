"""Searches over a recorded grid: what regret is, and the bar beside Optuna's TPE."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

from assay.bench.replays import recordings, searches
from assay.bench.replays.recordings import RecordedGrid
from assay.bench.replays.regret import Curve, Trials, curve, exhaustive, median_curve, plain
from assay.errors import InputError

GRID = recordings.FOLDER / recordings.GRID
SEEDS = 20


@pytest.fixture(scope="module")
def grid() -> RecordedGrid:
    return recordings.grid(GRID)


def test_the_recording_is_large_enough(grid: RecordedGrid) -> None:
    assert len(grid.points) >= 144
    assert len(grid.knobs) >= 4
    assert grid.repetitions >= 3


def test_the_truth_is_the_mean_of_what_a_search_does_not_see(grid: RecordedGrid) -> None:
    raw = json.loads(GRID.read_text())
    point = grid.points[17]
    rates = {}
    for visit in raw["visits"]:
        if tuple(visit["settings"].values()) == point:
            blocks = [tokens / seconds for tokens, seconds in visit["blocks"]]
            rates[visit["repetition"]] = statistics.fmean(blocks)
    assert grid.truth(point, without=1) == pytest.approx((rates[0] + rates[2]) / 2)
    seen = Trials(grid, seed=4, start=plain(grid))
    assert seen.repetition == 1
    assert min(seen.grid.visits[1, point]) <= seen.rate(point) <= max(seen.grid.visits[1, point])


def test_regret_is_nothing_at_the_best_and_positive_elsewhere(grid: RecordedGrid) -> None:
    trials = Trials(grid, seed=0, start=plain(grid))
    regrets = [trials.regret(point) for point in grid.points]
    assert min(regrets) == 0.0
    assert all(0.0 <= one < 1.0 for one in regrets)


def test_a_curve_has_arrived_when_it_stays() -> None:
    assert Curve((0.5, 0.04, 0.2, 0.01, 0.0)).arrived == 4
    assert Curve((0.5, 0.4)).arrived == 3
    assert Curve((0.0, 0.0)).arrived == 1
    assert median_curve([Curve((0.1, 0.2)), Curve((0.3, 0.0)), Curve((0.2, 0.4))]) == [0.2, 0.2]


def test_measuring_everything_is_no_better_than_its_repetition(grid: RecordedGrid) -> None:
    """One repetition is seen, the others judge."""
    found = [exhaustive(grid, seed) for seed in range(6)]
    assert all(0.0 <= one < 1.0 for one in found)
    equal = RecordedGrid(
        {"knob": (0, 1)},
        {(repetition, (value,)): (1.0 + (repetition == value),) * 2
         for repetition in range(3) for value in (0, 1)},
        3,
    )  # fmt: skip
    # Repetition 0 was lucky for 0, repetition 1 for 1: each misleads about the others.
    assert exhaustive(equal, 0) == pytest.approx(1 / 3)
    assert exhaustive(equal, 1) == pytest.approx(1 / 3)


def test_a_sample_of_both_searches(grid: RecordedGrid) -> None:
    pytest.importorskip("optuna")
    for search in (searches.loop_search, searches.tpe):
        found = curve(search, grid, seed=1, most=12)
        assert len(found.regrets) == 12
        # Both start at the plain settings, and both get away from them.
        trials = Trials(grid, 1, plain(grid))
        assert found.regrets[0] == trials.regret(trials.point({}))
        assert found.regrets[-1] < found.regrets[0]


def test_both_searches_are_told_the_same_rates(grid: RecordedGrid) -> None:
    left, right = Trials(grid, 3, plain(grid)), Trials(grid, 3, plain(grid))
    assert [left.rate(one) for one in grid.points] == [right.rate(one) for one in grid.points]


@pytest.mark.slow
def test_the_loop_arrives_in_a_quarter_of_the_trials_and_before_tpe(grid: RecordedGrid) -> None:
    pytest.importorskip("optuna")
    most = len(grid.points) // 2
    first = {}
    for search in (searches.loop_search, searches.tpe):
        found = median_curve([curve(search, grid, seed, most) for seed in range(SEEDS)])
        first[search] = next((at for at, one in enumerate(found, 1) if one <= 0.05), math.inf)
    assert first[searches.loop_search] <= 0.25 * len(grid.points)
    assert first[searches.loop_search] < first[searches.tpe]


def test_a_grid_with_a_hole_is_refused(tmp_path: Path) -> None:
    data = json.loads(GRID.read_text())
    data["visits"].pop()
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="expected 432 visits"):
        recordings.grid(path)
