"""How much time a trial gets."""

from dataclasses import replace

import pytest

from assay.improve.experiments.noise import NoiseFloor
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate
from assay.improve.loop.allotment import Allotment
from assay.intervals import Interval

NOISY = NoiseFloor(
    pairs=4, block_requests=1, block_s=3.0, pair_s=6.0, sd=0.2, autocorrelation=0.0,
    order_effect=0.0, batch=1, repeats=True,
)  # fmt: skip
RESTARTED = Candidate(
    name="graphs", levers=("graphs",), changes={"enforce_eager": False}, hot=False,
    correctness="rounding", safety="may fail", prediction=Interval(3.9, 3.0, 5.0),
)  # fmt: skip


@pytest.fixture
def allotment() -> Allotment:
    return Allotment(NOISY, replace(ExperimentSettings(), block_s=3.0), restart_s=25.0)


def test_the_only_candidate_may_take_all_the_time_left(allotment: Allotment) -> None:
    # A run over vLLM had one candidate, gave it half the time, ended undecided and left the rest.
    wanted = allotment.wanted_s(RESTARTED)
    assert wanted > 150.0
    assert allotment.budget_s(RESTARTED, 240.0, others_wait=False) == pytest.approx(
        min(wanted, 240.0)
    )
    assert allotment.budget_s(RESTARTED, 2.0 * wanted, others_wait=False) == wanted


def test_where_others_wait_half_of_it_is_left_for_them(allotment: Allotment) -> None:
    left = 1.5 * allotment.wanted_s(RESTARTED)
    assert allotment.budget_s(RESTARTED, left, others_wait=True) == pytest.approx(0.5 * left)


def test_no_trial_gets_less_than_a_verdict_needs(allotment: Allotment) -> None:
    least = allotment.least_s(RESTARTED)
    assert allotment.budget_s(RESTARTED, 1.0, others_wait=True) == least


def test_four_restarts_fit_with_warm_up_and_following(allotment: Allotment) -> None:
    # A trial of 98 s by quick restarts made two pairs: a visit warms up for two blocks, the first
    # for three, and to lead the control along answers took 15 s.
    quick = replace(allotment, restart_s=0.5)
    visits = [3, 3 + 3, 3, 2 + 3, 3, 2 + 3, 3, 2 + 3]
    assert quick.least_s(RESTARTED) > 4 * 0.5 + 3.0 * sum(visits) + 15.0
