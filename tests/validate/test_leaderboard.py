"""The leaderboard: who answers what, ranks where both answer, and the interval score in closed form."""

from __future__ import annotations

import math

import pytest

from assay.validate.fitting.load_error import Residual, spread_of
from assay.validate.leaderboard import leaderboard
from assay.validate.score import Row
from generate_score_table import board_table


def _row(case: str, predicted: float | None, **others: float) -> Row:
    """A figure of 100 with a prediction in an interval of 20 % to each side, and those of others."""
    if predicted is None:
        return Row(case, "s", "itl_p50", "ms", 100.0, None, gap="nothing known")
    return Row(
        case, "s", "itl_p50", "ms", 100.0, predicted, predicted / 1.2, predicted * 1.2,
        baselines=others, group="ITL",
    )  # fmt: skip


def test_ranks_compare_the_figures_that_both_answer() -> None:
    """A tool that answers the easy half is compared with Assay on that half."""
    rows = [
        _row("a", 101.0, aiconfigurator=103.0, roofline=50.0),
        _row("b", 140.0, roofline=145.0),
        _row("c", 160.0, roofline=165.0),
        _row("d", None),
    ]
    (board,) = leaderboard(rows)
    own, tool, roof = board.entries
    assert (board.group, board.figures, board.coverage) == ("ITL", 4, 0.75)
    assert (own.answered, tool.answered, roof.answered) == (3, 1, 3)
    # Over all figures Assay misses by 40 %; on the one that the tool answers, by 1 %.
    assert own.median == pytest.approx(0.4)
    assert tool.own_median == pytest.approx(0.01)
    assert board.rank == 1
    (worse,) = leaderboard([_row("a", 101.0, aiconfigurator=100.5)])
    assert worse.rank == 2


def test_interval_score_pays_width_and_twenty_times_a_miss() -> None:
    (board,) = leaderboard([_row("a", 110.0, roofline=110.0), _row("b", 150.0, roofline=100.0)])
    own, roof = board.entries
    width, miss = 2 * math.log(1.2), math.log(150.0 / 1.2 / 100.0)
    assert own.interval_score == pytest.approx(width + 20 * miss / 2)
    assert roof.interval_score == pytest.approx(20 * math.log(1.1) / 2)


def test_a_further_spread_adds_to_what_intervals_have() -> None:
    """Nine in ten residuals of a spread of 0.5, in intervals of 0.3, need another 0.4."""
    sizes = [1.645 * 0.5 * share / 18 for share in range(1, 21)]
    residuals = [Residual("e", "m", size, 0.3) for size in sizes]
    assert spread_of(residuals) == pytest.approx(0.4, rel=1e-6)


def test_a_group_without_answers_says_of_how_many_figures() -> None:
    (board,) = leaderboard([_row("a", None), _row("b", None)])
    assert board_table([board]).splitlines()[-1] == "| ITL | 0/2 | - | - | - | - |"
