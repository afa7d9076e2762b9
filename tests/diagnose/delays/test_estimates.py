"""Slopes, their intervals and verdicts against published and enumerated values."""

import itertools
import random
from statistics import median

import pytest

from assay.diagnose.delays.estimates import (
    Observation,
    _lower_rank,
    block_slope,
    pseudomedian,
    verdict,
)
from assay.intervals import Interval

# Hollander and Wolfe, Nonparametric Statistical Methods, examples 3.1, 3.3 and 3.4: the depression
# factor of nine patients before and after therapy; estimate -0.46, interval (-0.786, -0.010) at 96.1 %.
BEFORE = (1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
AFTER = (0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)


def test_pseudomedian_of_a_published_example() -> None:
    differences = [after - before for after, before in zip(AFTER, BEFORE, strict=True)]
    found = pseudomedian(differences, 0.04)
    assert found is not None
    assert found == pytest.approx((-0.46, -0.786, -0.010), abs=1e-9)


@pytest.mark.parametrize("count", range(4, 11))
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.0125])
def test_ranks_equal_those_of_all_sign_patterns(count: int, alpha: float) -> None:
    sums = [
        sum(rank for rank, positive in zip(range(1, count + 1), signs, strict=True) if positive)
        for signs in itertools.product((False, True), repeat=count)
    ]
    # The largest rank whose tail P(T < rank), on both sides, is at most alpha.
    expected = 0
    while 2 * sum(total < expected + 1 for total in sums) <= alpha * 2**count:
        expected += 1
    assert _lower_rank(count, alpha) == expected


def test_slope_of_a_block_is_least_squares_through_its_controls() -> None:
    numpy = pytest.importorskip("numpy")
    delays, steps = [5.0, 10.0, 20.0], [56.0, 58.5, 74.0]
    [expected], *_ = numpy.linalg.lstsq([[delay] for delay in delays], [one - 51 for one in steps])
    runs = [Observation(delay, step) for delay, step in zip(delays, steps, strict=True)]
    assert block_slope(runs, [50.0, 51.0, 900.0]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="without a delay"):
        block_slope([Observation(0.0, 50.0)], [50.0])


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0])
def test_intervals_cover_the_slope_under_heavy_tailed_noise(slope: float) -> None:
    source = random.Random(f"coverage {slope}")
    covered, widths = 0, []
    for _ in range(300):
        slopes = []
        for _ in range(12):
            level = source.gauss(0, 30)
            runs = [
                Observation(delay, 1000 + level + slope * delay + _noise(source))
                for delay in (0, 0, 0, 50, 100)
            ]
            slopes.append(block_slope(runs[3:], [run.step_ns for run in runs[:3]]))
        found = pseudomedian(slopes, 0.05)
        assert found is not None
        covered += found.lo <= slope <= found.hi
        widths.append(found.hi - found.lo)
    assert covered >= 0.92 * 300
    assert median(widths) < 0.2


def _noise(source: random.Random) -> float:
    """Mostly small; one run in twenty is disturbed by ten times the delay, as on a shared machine."""
    return source.gauss(0, 3) + (source.expovariate(1 / 1000) if source.random() < 0.05 else 0)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.76, 1.3), "critical"),
        ((0.74, 1.3), "undecided"),
        ((-0.4, 0.24), "hidden"),
        ((-0.4, 0.26), "undecided"),
        ((0.11, 0.89), "partly hidden"),
        ((0.05, 0.89), "undecided"),
    ],
)
def test_verdicts_at_their_bounds(interval: tuple[float, float], expected: str) -> None:
    lo, hi = interval
    assert verdict(Interval((lo + hi) / 2, lo, hi)) == expected


def test_too_few_blocks_are_undecided() -> None:
    assert verdict(pseudomedian([1.0] * 7, 0.0125)) == "undecided"
    assert verdict(pseudomedian([1.0] * 8, 0.0125)) == "critical"
