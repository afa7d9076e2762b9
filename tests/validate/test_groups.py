"""Groups of figures: medians with one source left out, and the band of the coverage."""

import pytest
from scipy.stats import binom

from assay.validate.groups import BARS, SERVING, TRAINING, binomial_band, score_groups
from assay.validate.score import Row
from assay.validate.serving.deployments import LOADED


def row(case: str, source: str, observed: float, **more: object) -> Row:
    return Row(
        case, "suite", "step_time", "s", observed, 10.0, 9.0, 11.0, source=source,
        group="training dense", **more,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 12, 45, 100, 203])
def test_band_is_the_binomial_one(count: int) -> None:
    expected = binom.ppf([0.025, 0.975], count, 0.9) / count
    assert binomial_band(count) == pytest.approx(tuple(expected))


def test_every_group_has_a_bar() -> None:
    loaded = {group for _, _, group in LOADED.values()}
    assert {*TRAINING.values(), *SERVING.values(), *loaded} == BARS.keys()


def test_left_out_predictions_count_where_there_are_such() -> None:
    rows = [
        row("a-1", "one", 10.0, in_sample=True, held_out=12.0),
        row("a-2", "one", 10.0, held_out=11.0),
        row("a-3", "two", 10.0),
    ]
    (found,) = score_groups(rows)
    assert found.held_out is not None
    assert found.held_out.median == pytest.approx(0.1)
    assert found.by_source == pytest.approx({"one": 0.15, "two": 0.0})
    assert found.source_mean == pytest.approx(0.075)
    assert found.in_sample is not None
    assert found.in_sample.count == 1
    assert found.failures == ("median",)


def test_intervals_of_the_left_out_source_count() -> None:
    inside = row("a-1", "one", 10.0, held_out=14.0, held_out_lo=9.0, held_out_hi=15.0)
    outside = row("a-2", "one", 10.0, held_out=14.0, held_out_lo=12.0, held_out_hi=15.0)
    (found,) = score_groups([inside, outside])
    assert found.coverage90 == 0.5


def test_narrow_and_wide_intervals_fail() -> None:
    narrow = [row(f"a-{n}", "one", 10.0 if n < 70 else 20.0) for n in range(100)]
    wide = [row(f"a-{n}", "one", 10.0) for n in range(100)]
    (found,) = score_groups(narrow)
    assert (found.coverage90, found.failures) == (0.7, ("narrow",))
    (found,) = score_groups(wide)
    assert found.failures == ("wide",)


def test_figures_without_a_prediction_are_in_no_group() -> None:
    gap = Row("a-1", "suite", "x", "s", 1.0, None, gap="unknown", group="TPOT")
    assert score_groups([gap]) == []
