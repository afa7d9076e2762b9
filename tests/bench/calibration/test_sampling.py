"""Samples of ceilings: which count, and what a wrong answer does."""

import dataclasses
import itertools
from typing import Any

import pytest

from assay.bench.calibration import sampling
from assay.bench.calibration.sampling import PLAN, Measurement, WrongAnswerError, measure
from assay.bench.harness.case import Check, PreparedCase, Subject
from assay.bench.harness.clocks import SelfTimedClock


def measurement(seconds: Any, error: float = 0.0) -> Measurement:
    """Ten bytes in the seconds of each call."""
    subject = Subject("assay", lambda _: next(seconds), SelfTimedClock(), 10.0)
    check = Check("the truth", lambda _: error, 1e-6)
    prepared = PreparedCase(subject, check, bytes=10.0)
    return Measurement("thing", "GB/s", {"operation": "thing"}, lambda: prepared)


def test_disturbed_samples_are_set_aside(monkeypatch: Any) -> None:
    # Every second sample takes twice as long, and its threads waited for a core meanwhile.
    turns = itertools.count()
    waited = 0.0

    def call() -> float:
        nonlocal waited
        # Each sample is a warm-up call and a timed one.
        disturbed = next(turns) // 2 % 2 == 1
        waited += 1.0 if disturbed else 0.0
        return 2.0 if disturbed else 1.0

    monkeypatch.setattr(sampling, "waited_seconds", lambda: waited)
    found = measure(measurement(iter(call, None)), PLAN)
    assert (found.ceiling.value, found.ceiling.lo, found.ceiling.hi) == (10.0, 10.0, 10.0)
    assert found.ceiling.unit == "byte/s"
    assert found.ceiling.parameters == {"operation": "thing", "bytes": 10.0}
    assert found.is_quiet
    assert found.disturbed >= sampling.LEAST_QUIET


def test_the_best_samples_count_where_none_was_quiet(monkeypatch: Any) -> None:
    clock = itertools.count()
    monkeypatch.setattr(sampling, "waited_seconds", lambda: float(next(clock)))
    found = measure(measurement(itertools.cycle([1.0, 2.0, 4.0])), PLAN)
    assert not found.is_quiet
    assert found.ceiling.repeats == found.disturbed
    assert found.ceiling.value == pytest.approx(10.0)
    assert found.ceiling.lo == pytest.approx(5.0)


def test_of_disturbed_times_the_least_count(monkeypatch: Any) -> None:
    clock = itertools.count()
    monkeypatch.setattr(sampling, "waited_seconds", lambda: float(next(clock)))
    what = dataclasses.replace(measurement(itertools.cycle([10.0, 20.0, 40.0])), unit="us")
    found = measure(what, PLAN).ceiling
    assert (found.lo, found.value, found.hi) == pytest.approx((1.0, 1.0, 2.0))


def test_without_a_counter_no_sample_is_called_disturbed(monkeypatch: Any) -> None:
    monkeypatch.setattr(sampling, "waited_seconds", lambda: None)
    assert measure(measurement(itertools.repeat(1.0)), PLAN).disturbed == 0


@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_answer_is_no_ceiling(error: float) -> None:
    with pytest.raises(WrongAnswerError, match="thing computed a wrong answer"):
        measure(measurement(itertools.repeat(1.0), error), PLAN)
