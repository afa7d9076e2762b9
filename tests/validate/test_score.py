"""Scores, against means and quantiles computed by hand."""

import pytest

from assay.validate.score import Row, score_pool, score_suite, scores


def row(case: str, suite: str, observed: float, predicted: float | None, **more: object) -> Row:
    gap = "" if predicted is not None else "nothing known"
    return Row(
        case, suite, str(more.pop("quantity", "time")), "s", observed, predicted, gap=gap, **more
    )  # type: ignore[arg-type]


def test_errors_are_relative_to_observed_values() -> None:
    suite = score_suite(
        "a", [row("a-1", "a", 10, 11), row("a-2", "a", 10, 8), row("a-3", "a", 2, 2)]
    )
    assert suite.errors is not None
    assert suite.errors.mape == pytest.approx(0.1)
    assert suite.errors.median == pytest.approx(0.1)
    # Linear between the second (0.1) and the third (0.2) of three sorted errors.
    assert suite.errors.p90 == pytest.approx(0.18)


def test_missing_prediction_counts_against_coverage_not_as_error() -> None:
    suite = score_suite("a", [row("a-1", "a", 10, 11), row("a-2", "a", 10, None)])
    assert (suite.cases, suite.covered) == (2, 1)
    assert suite.errors is not None
    assert suite.errors.count == 1


def test_case_with_one_missing_figure_is_not_covered() -> None:
    rows = [row("a-1", "a", 10, 11, quantity="x"), row("a-1", "a", 10, None, quantity="y")]
    suite = score_suite("a", rows)
    assert (suite.cases, suite.covered) == (1, 0)


def test_pool_weighs_suites_equally() -> None:
    many = score_suite("a", [row(f"a-{n}", "a", 10, 10) for n in range(99)])
    one = score_suite("b", [row("b-1", "b", 10, 15)])
    pool = score_pool("training", [many, one])
    assert pool.errors is not None
    assert pool.errors.mape == pytest.approx(0.25)
    assert pool.cases == 100


def test_coverage_is_the_share_inside_the_interval() -> None:
    rows = [row("a-1", "a", 10, 11, lo=9.0, hi=12.0), row("a-2", "a", 10, 8, lo=7.0, hi=9.0)]
    assert score_suite("a", rows).coverage90 == 0.5


def test_baselines_are_scored_like_predictions() -> None:
    rows = [row("a-1", "a", 10, 11, baselines={"rule": 15.0}), row("a-2", "a", 10, 8)]
    suite = score_suite("a", rows)
    assert suite.baselines["rule"].mape == pytest.approx(0.5)
    assert suite.baselines["rule"].count == 1


def test_in_sample_and_held_out_errors_are_apart() -> None:
    rows = [
        row("a-1", "a", 10, 11, in_sample=True, held_out=13.0, lo=10.0, hi=12.0),
        row("a-2", "a", 10, 12),
        row("a-3", "a", 10, 14, in_sample=True),
    ]
    suite = score_suite("a", rows)
    assert suite.errors is not None
    assert suite.in_sample is not None
    assert suite.held_out is not None
    assert suite.errors.mape == pytest.approx((0.1 + 0.2 + 0.4) / 3)
    assert (suite.in_sample.count, suite.in_sample.mape) == (2, pytest.approx(0.25))
    # The third entered the fit and has no held-out prediction.
    assert (suite.held_out.count, suite.held_out.mape) == (2, pytest.approx(0.25))
    # 10 to 12 around 11 is 11.8 to 14.2 around 13, which does not hold 10.
    assert (suite.coverage90, suite.held_out_coverage90) == (1.0, 0.0)
    data = suite.to_data()
    assert data["in_sample"]["cases"] == data["held_out"]["cases"] == 2
    assert [item["in_sample"] for item in data["rows"]] == [True, False, True]
    assert data["rows"][0]["held_out"] == 13.0


def test_a_pool_averages_held_out_errors_of_suites() -> None:
    seen = score_suite("a", [row("a-1", "a", 10, 10, in_sample=True, held_out=12.0)])
    unseen = score_suite("b", [row("b-1", "b", 10, 14)])
    pool = score_pool("training", [seen, unseen])
    assert pool.in_sample is not None
    assert pool.held_out is not None
    assert pool.in_sample.mape == 0.0
    assert pool.held_out.mape == pytest.approx(0.3)


def test_each_quantity_has_a_score_and_a_pool() -> None:
    rows = [
        row("a-1", "a", 10, 11, quantity="x"),
        row("a-1", "a", 10, 12, quantity="y"),
        row("b-1", "b", 10, 10, quantity="x"),
    ]
    found = {score.name: score for score in scores("serving", rows)}
    assert list(found) == ["a", "b", "a/x", "a/y", "serving/x", "serving/y", "serving"]
    assert found["serving/x"].errors is not None
    assert found["serving/x"].errors.mape == pytest.approx(0.05)


def test_pool_data_has_no_rows() -> None:
    data = [score.to_data() for score in scores("training", [row("a-1", "a", 10, 11)])]
    assert [len(item["rows"]) for item in data] == [1, 0]
    assert data[0]["rows"][0]["error"] == pytest.approx(0.1)


@pytest.mark.parametrize("predicted", [float("nan"), float("inf")])
def test_non_finite_prediction_raises(predicted: float) -> None:
    with pytest.raises(ValueError, match="no figure"):
        row("a-1", "a", 10, predicted)


def test_row_without_prediction_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        Row("a-1", "a", "time", "s", 10, None)
