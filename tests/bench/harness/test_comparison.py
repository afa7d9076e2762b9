"""Verdicts of comparisons: regressed, improved, undecided, invalid."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.bench.claims.claim import Gates
from assay.bench.claims.judging import judge, regression
from assay.bench.harness.comparison import compare
from assay.errors import InputError

Make = Callable[..., Any]


def noisy(median: float, count: int, seed: int, spread: float = 0.03) -> list[float]:
    return (median * np.random.default_rng(seed).lognormal(0.0, spread, count)).tolist()


@pytest.mark.parametrize(
    ("factor", "unit", "verdict"),
    [
        (1.0, "GB/s", "undecided"),
        (0.97, "GB/s", "undecided"),
        (0.8, "GB/s", "regressed"),
        (1.3, "GB/s", "improved"),
        (1.3, "us", "regressed"),
        (0.8, "us", "improved"),
    ],
)
def test_verdicts(
    make_figure: Make, make_result: Make, factor: float, unit: str, verdict: str
) -> None:
    now = make_result(make_figure(noisy(10.0 * factor, 41, 1), unit=unit))
    then = make_result(make_figure(noisy(10.0, 41, 2), unit=unit))
    (found,) = compare(now, then).verdicts
    assert found.verdict == verdict
    expected = factor if unit == "GB/s" else 1 / factor
    assert found.ratio == pytest.approx(expected, rel=0.03)
    assert found.interval[0] <= found.ratio <= found.interval[1]


def test_slower_machine_is_not_a_regression(make_figure: Make, make_result: Make) -> None:
    """Everything at half speed now, our figure and its ceiling alike."""
    now = make_result(make_figure(noisy(5.0, 41, 1), ceiling=noisy(10.0, 41, 3)))
    then = make_result(make_figure(noisy(10.0, 41, 2), ceiling=noisy(20.0, 41, 4)))
    (found,) = compare(now, then).verdicts
    assert found.verdict == "undecided"
    assert found.by == "ratio to read in the same rounds"
    assert found.ratio == pytest.approx(1.0, abs=0.03)


def test_rival_of_both_runs_is_the_reference_without_a_ceiling(
    make_figure: Make, make_result: Make
) -> None:
    now = make_result(make_figure(noisy(5.0, 41, 1), rivals={"NumPy": noisy(10.0, 41, 3)}))
    then = make_result(make_figure(noisy(10.0, 41, 2), rivals={"NumPy": noisy(20.0, 41, 4)}))
    (found,) = compare(now, then).verdicts
    assert (found.verdict, found.by) == ("undecided", "ratio to NumPy in the same rounds")


def test_false_positive_rate_of_equal_runs_is_below_five_percent(
    make_figure: Make, make_result: Make
) -> None:
    alarms = 0
    for seed in range(300):
        now = make_result(make_figure(noisy(10.0, 21, 2 * seed, 0.1)))
        then = make_result(make_figure(noisy(10.0, 21, 2 * seed + 1, 0.1)))
        alarms += compare(now, then, 0.0).verdicts[0].verdict != "undecided"
    assert alarms / 300 <= 0.05


@pytest.mark.parametrize(
    ("now", "then", "reason"),
    [
        ({"error": 1.0}, {}, "the answer now is wrong"),
        ({}, {"error": float("nan")}, "the answer then is wrong"),
        ({}, {"unit": "us"}, "the unit is GB/s now and was us"),
        ({}, {"cold": False}, "the inputs come from memory in one run and from cache in the other"),
    ],
)
def test_invalid_comparisons_state_the_reason(
    make_figure: Make, make_result: Make, now: Any, then: Any, reason: str
) -> None:
    values = [1.0] * 21
    found = compare(
        make_result(make_figure(values, **now)), make_result(make_figure(values, **then))
    )
    assert [(one.verdict, one.by) for one in found.verdicts] == [("invalid", reason)]


def test_other_machine_or_quick_run_is_invalid(make_figure: Make, make_result: Make) -> None:
    here = make_result(make_figure([1.0] * 9))
    there = make_result(make_figure([1.0] * 9), fingerprint="another")
    quick = make_result(make_figure([1.0] * 9), quick=True)
    assert compare(here, there).verdicts[0].by == "measured on another machine or device"
    assert compare(here, quick).verdicts[0].by == "one run was quick, the other was not"


def test_few_rounds_are_undecided(make_figure: Make, make_result: Make) -> None:
    now, then = make_result(make_figure([1.0] * 5)), make_result(make_figure([9.0] * 5))
    (found,) = compare(now, then).verdicts
    assert (found.verdict, found.interval) == ("undecided", None)


def test_figures_of_only_one_run_are_listed(make_figure: Make, make_result: Make) -> None:
    now = make_result(make_figure([1.0] * 9, name="both"), make_figure([1.0], name="new"))
    then = make_result(make_figure([1.0] * 9, name="both"), make_figure([1.0], name="old"))
    found = compare(now, then)
    assert [one.name for one in found.verdicts] == ["both"]
    assert (found.only_now, found.only_then) == (("new",), ("old",))


def test_other_suite_raises(make_figure: Make, make_result: Make) -> None:
    with pytest.raises(InputError, match="expected a result of the suite gemm, got one of pool"):
        compare(make_result(make_figure([1.0])), make_result(make_figure([1.0]), suite="pool"))


@pytest.mark.parametrize("rival", [30.0, 10.0 / 3])
def test_a_rival_that_moved_by_itself_is_no_verdict(
    make_figure: Make, make_result: Make, rival: float
) -> None:
    """An A/A comparison: ours is as it was, and the rival three times as fast, or as slow."""
    now = make_result(make_figure(noisy(10.0, 41, 1), rivals={"Polars": noisy(rival, 41, 3)}))
    then = make_result(make_figure(noisy(10.0, 41, 2), rivals={"Polars": noisy(10.0, 41, 4)}))
    (found,) = compare(now, then).verdicts
    assert found.verdict == "undecided"
    assert "by value " in found.doubt
    assert re.search(r"and Polars was (2\.9|3\.0|0\.3)\d times as fast as then", found.doubt)
    assert found.may_be_slower == (rival == 30.0)
    assert regression(found, 0.05).verdict == ("undecided" if found.may_be_slower else "passed")


def test_a_slowdown_that_the_rival_shared_but_more_is_no_pass(
    make_figure: Make, make_result: Make
) -> None:
    """Half as fast, beside a rival that is a third: its ratio improved."""
    now = make_result(make_figure(noisy(5.0, 41, 1), rivals={"Polars": noisy(3.3, 41, 3)}))
    then = make_result(make_figure(noisy(10.0, 41, 2), rivals={"Polars": noisy(10.0, 41, 4)}))
    (found,) = compare(now, then).verdicts
    assert (found.verdict, found.may_be_slower) == ("undecided", True)
    line = regression(found, 0.05)
    assert (line.verdict, "and Polars was 0.33 times as fast" in line.reason) == ("undecided", True)


def test_ratio_and_value_that_agree_are_a_verdict(make_figure: Make, make_result: Make) -> None:
    now = make_result(make_figure(noisy(5.0, 41, 1), rivals={"Polars": noisy(10.0, 41, 3)}))
    then = make_result(make_figure(noisy(10.0, 41, 2), rivals={"Polars": noisy(10.0, 41, 4)}))
    (found,) = compare(now, then).verdicts
    assert (found.verdict, found.doubt) == ("regressed", "")
    assert regression(found, 0.05).verdict == "failed"


def test_a_slower_value_that_a_noisy_ratio_leaves_open_is_said(
    make_figure: Make, make_result: Make
) -> None:
    now = make_result(make_figure([5.0] * 41, rivals={"Polars": noisy(7.0, 41, 3, 2.0)}))
    then = make_result(make_figure([10.0] * 41, rivals={"Polars": noisy(10.0, 41, 4, 2.0)}))
    (found,) = compare(now, then).verdicts
    assert (found.verdict, found.may_be_slower) == ("undecided", True)
    assert "by value 0.50 (0.50 to 0.50)" in found.doubt


def test_a_busy_machine_is_said(make_figure: Make, make_result: Make) -> None:
    quiet = make_result(make_figure([1.0] * 9))
    busy = dataclasses.replace(quiet, other_cores=1.5)
    assert not any("busy" in note for note in compare(quiet, quiet).notes)
    assert compare(quiet, busy).notes[0].startswith("the machine was busy with other work then:")
    assert (
        compare(busy, busy)
        .notes[0]
        .startswith("the machine was busy with other work then and now:")
    )
    gates = Gates(seeds=0)
    (line,) = [line for line in judge(busy, gates, quiet) if line.gate == "regression"]
    assert line.reason.endswith("; the machine was busy")
