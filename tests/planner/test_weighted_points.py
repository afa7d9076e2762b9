"""What chains keep, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.planner import weighted_points
from assay.planner.weighted_points import poisson, stationary


def walk(size: int, up: float, down: float) -> NDArray[np.float64]:
    """A walk that steps up or down by one, or stays."""
    moves = np.zeros((size, size))
    for state in range(size):
        moves[state, min(state + 1, size - 1)] += up
        moves[state, max(state - 1, 0)] += down
        moves[state, state] += 1 - up - down
    return moves


@pytest.mark.parametrize("size", [40, 400])
def test_a_walk_keeps_a_geometric_distribution(size: int) -> None:
    # Detailed balance: as many steps up from a state as down from the next.
    expected = (0.3 / 0.4) ** np.arange(size)
    assert stationary(walk(size, 0.3, 0.4)) == pytest.approx(expected / expected.sum(), rel=1e-9)


@pytest.mark.parametrize("served", [1, 4, 32])
def test_a_queue_of_many_states_is_solved_as_that_of_few(served: int) -> None:
    """A queue from which some are served at a time, while others come: by either method."""
    size = 200
    moves = np.zeros((size, size))
    for state in range(size):
        left = max(state - served, 0)
        moves[state, left:] += poisson(0.8 * served, size - left)
    left_out, solved = weighted_points._eliminated(moves), weighted_points._solved(moves)
    assert left_out / left_out.sum() == pytest.approx(solved / solved.sum(), abs=1e-12)
    # As many are served as come.
    mean = stationary(moves) @ np.minimum(np.arange(size), served)
    assert mean == pytest.approx(0.8 * served, rel=1e-6)


def test_condensed_points_keep_mean_and_quantiles() -> None:
    """Of an exponential distribution, whose mean and quantiles have a closed form."""
    levels = (np.arange(200_000) + 0.5) / 200_000
    points = -np.log1p(-levels)[::-1], np.full(200_000, 1 / 200_000)
    fewer = weighted_points.condensed(points, 1000)
    assert len(fewer[0]) == 1000
    assert weighted_points.mean(fewer) == pytest.approx(weighted_points.mean(points), rel=1e-12)
    assert weighted_points.quantiles(fewer, [0.5, 0.9]) == pytest.approx(
        [np.log(2), np.log(10)], rel=5e-3
    )
