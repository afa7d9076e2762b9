"""Plans of training runs: time, checkpoints and spares beside their formulas."""

from __future__ import annotations

import math

import pytest

from assay.errors import InfeasibleError, InputError
from assay.planner.capacity.training import plan_training, spare_nodes


def test_a_run_is_in_time_with_daly_checkpoints_and_spares() -> None:
    (option,) = plan_training("llama-3.1-8b", "1T", 30.0, gpus=["h100"], repair_hours=12.0).options
    figures = {name: value or math.nan for name, value in option.figures.items()}
    assert option.gpu == "h100_sxm"
    assert 0.5 * 30 * 86400 < figures["seconds"] <= 30 * 86400
    assert figures["tokens_per_second"] * figures["seconds"] * figures["goodput"] == pytest.approx(
        1e12, rel=0.01
    )
    # Of the time: what failures, restarts and stalls leave, to first order; planned stops; evaluation.
    lost = figures["restart_seconds"] + figures["checkpoint_seconds"] / 2
    left = 1 - lost / figures["mtbf_seconds"]
    left -= figures["stall_seconds"] / figures["checkpoint_seconds"]
    shares = (1 - figures["planned_share"]) * figures["productive_share"]
    assert figures["goodput"] == pytest.approx(left * shares, rel=2e-3)
    # Young: sqrt(2 stall MTBF), which Daly's differs little from where stalls are short.
    young = math.sqrt(2 * figures["stall_seconds"] * figures["mtbf_seconds"])
    assert figures["checkpoint_seconds"] == pytest.approx(young, rel=0.02)
    assert option.spare_nodes is not None
    assert not option.unknown


def test_spares_are_poisson_quantiles() -> None:
    # P(X <= 4) = 0.99634 and P(X <= 3) = 0.98101 for a mean of 1, by tables.
    assert spare_nodes(1.0) == 4
    assert spare_nodes(1.0, 0.98) == 3


@pytest.mark.parametrize(("days", "repair"), [(0.0, None), (30.0, -1.0)])
def test_impossible_times_are_refused(days: float, repair: float | None) -> None:
    with pytest.raises(InputError):
        plan_training("llama-3.1-8b", "1T", days, repair_hours=repair)


def test_a_time_in_which_no_cluster_is_done_says_what_it_would_take() -> None:
    with pytest.raises(InfeasibleError, match=r"in 1 day; at least [\d,]+ would be needed"):
        plan_training("llama-3.1-405b", "15T", 1.0, gpus=["h100_sxm"])
