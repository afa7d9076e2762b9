"""The verdict of a run from its trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.improve.experiments.result import ExperimentResult, Verdict
from assay.improve.levers.lever import Candidate
from assay.improve.loop.finishing import run_verdict
from assay.intervals import Interval

pytestmark = pytest.mark.usefixtures("without_fsync")

TRIAL = ExperimentResult(
    "01 threads",
    Candidate("threads=2", ("threads",), {"threads": 2}, "bitwise", "safe", hot=True),
    "undecided",
    Interval(1.0, 0.98, 1.005),
    "no gain worth having",
)


def trial(verdict: Verdict, hi: float = 1.005) -> ExperimentResult:
    return replace(TRIAL, verdict=verdict, ratio=Interval(1.0, 0.9, hi))


@pytest.mark.parametrize(
    ("kept", "others", "confirmed", "untried", "verdict"),
    [
        ((), (), None, 0, "nothing to gain"),
        ((), (trial("undecided"), trial("regressed")), None, 0, "nothing to gain"),
        ((), (trial("undecided", 1.2),), None, 0, "undecided"),
        ((), (), None, 12, "undecided"),
        ((), (trial("undecided"),), None, 1, "undecided"),
        ((trial("improved"),), (), trial("improved"), 0, "improved"),
        ((trial("improved"),), (), trial("undecided"), 0, "undecided"),
        ((trial("improved"),), (), None, 0, "undecided"),
    ],
)
def test_verdicts(
    kept: tuple[ExperimentResult, ...],
    others: tuple[ExperimentResult, ...],
    confirmed: ExperimentResult | None,
    untried: int,
    verdict: str,
) -> None:
    found, reason = run_verdict(
        diagnosed_only=False,
        confirmation=confirmed,
        kept=kept,
        others=others,
        threshold=0.01,
        untried=untried,
    )
    assert found == verdict
    assert reason


def test_a_bound_beyond_reason_is_not_printed() -> None:
    _, reason = run_verdict(
        diagnosed_only=False,
        confirmation=None,
        kept=(),
        others=(trial("undecided", 4e9),),
        threshold=0.01,
    )
    assert reason == "1 of 1 trials are undecided"


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ((), "interrupted before the first trial ended"),
        ((trial("regressed"),), "interrupted after 1 trials"),
    ],
)
def test_an_interrupted_run_does_not_say_that_nothing_is_to_gain(
    others: tuple[ExperimentResult, ...], reason: str
) -> None:
    got = run_verdict(
        diagnosed_only=False,
        confirmation=None,
        kept=(),
        others=others,
        threshold=0.01,
        interrupted=True,
    )
    assert got == ("undecided", reason)
