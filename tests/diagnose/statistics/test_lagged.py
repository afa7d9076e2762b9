from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import simulated_effects as simulated

from assay.diagnose.statistics.lagged import lagged_screen
from assay.errors import InputError, UnknownNameError


@pytest.mark.parametrize("kind", simulated.LAGGED)
def test_planted_lags_are_found(kind):
    right, planted, wrong = 0, 0, 0
    for run in range(4):
        table, links = simulated.lagged_series(np.random.default_rng([run, 3]), kind, planted=3)
        found = {(one.series, one.lag): one.sign for one in lagged_screen(table, "y", 5)}
        right += sum(found.get(link) == sign for link, sign in links.items())
        planted += len(links)
        wrong += len(found.keys() - links.keys())
    assert right >= 0.75 * planted
    assert wrong <= 2


def test_slope_and_effect_are_those_that_were_planted():
    table, links = simulated.lagged_series(
        np.random.default_rng(8), "autoregressive", planted=1, count=4000
    )
    (found,) = lagged_screen(table, "y", 3, rate=1e-6)
    (((name, lag), sign),) = links.items()
    assert (found.series, found.lag, found.sign) == (name, lag, sign)
    # The candidate's innovation has standard deviation one, and so has the target's noise.
    assert found.slope == pytest.approx(sign * simulated.EFFECT, abs=0.06)
    assert found.effect == pytest.approx(sign * simulated.EFFECT, abs=0.06)
    assert f"{lag} sample" in str(found)


def test_independent_random_walks_are_not_related():
    false = 0
    for run in range(20):
        walks = np.cumsum(np.random.default_rng([run, 1]).standard_normal((400, 6)), axis=0)
        table = pl.DataFrame({f"w{number}": column for number, column in enumerate(walks.T)})
        false += len(lagged_screen(table, "w0", 4)) > 0
    # The correlation of two of them is "significant" most of the time; 5 % is nominal here.
    assert false <= 4


def test_the_same_sample_is_tested_only_when_asked_for():
    random = np.random.default_rng(0)
    x = random.standard_normal(400)
    table = pl.DataFrame({"x": x, "y": 0.5 * x + random.standard_normal(400)})
    assert len(lagged_screen(table, "y", 3)) == 0
    (found,) = lagged_screen(table, "y", 3, min_lag=0)
    assert found.lag == 0
    assert "in the same sample" in str(found)


def test_the_stricter_correction_has_larger_q_values():
    table, _ = simulated.lagged_series(np.random.default_rng(5), "autoregressive", planted=3)
    mild = {(one.series, one.lag): one.q_value for one in lagged_screen(table, "y", 4, rate=1.0)}
    strict = lagged_screen(table, "y", 4, rate=1.0, correction="by")
    assert strict.tests == 40 == len(strict)
    assert all(one.q_value >= mild[one.series, one.lag] for one in strict)


def test_gaps_and_constants_are_left_out_and_said():
    table, links = simulated.lagged_series(
        np.random.default_rng(2), "autoregressive", planted=1, count=800
    )
    table = table.with_columns(
        pl.when(pl.int_range(pl.len()) % 97 == 0).then(None).otherwise(pl.col("x0")).alias("x0"),
        pl.lit(3.0).alias("constant"),
        pl.lit("a").alias("text"),
    )
    screen = lagged_screen(table, "y", 4)
    assert links.keys() <= {(one.series, one.lag) for one in screen}
    assert screen.samples < 800 - 4 * 8
    assert screen.degradations == (
        "constant: not tested, it does not vary",
        "text: not tested, expected numbers, got String",
    )


def test_what_cannot_be_tested_is_refused():
    short = pl.DataFrame({"x": [1.0, 2.0, 1.0] * 6, "y": [0.0, 1.0, 0.5] * 6})
    with pytest.raises(InputError, match="expected at least 56 samples without gaps"):
        lagged_screen(short, "y", 5)
    with pytest.raises(UnknownNameError, match='unknown column "z"'):
        lagged_screen(short, "z", 1)
    with pytest.raises(InputError, match="max_lag: expected at least min_lag 1"):
        lagged_screen(short, "y", 0)
    with pytest.raises(InputError, match="numbers that vary"):
        lagged_screen(pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 1.0]}), "y", 1)
