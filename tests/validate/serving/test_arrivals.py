"""Open loops in cases: requests in flight, what is refused, and how a run of varied answers drains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from assay.validate.cases import Case
from assay.validate.serving.arrivals import Loads, drain_answers, in_flight
from assay.validate.serving.deployments import UNLIMITED, Deployment, deployment_of

PLACES = 64.0


def _deployment(rate: float) -> Deployment:
    inputs = {
        "system": "H100", "model": "llama-3.1-8b", "precision": "bf16", "backend": "vLLM",
        "isl": 200, "osl": 100, "client": "open loop", "arrival_rate": rate, "num_prompts": 1000,
    }  # fmt: skip
    observed = {"ttft_p50": 50.0, "tpot_p50": 10.0, "output_tokens_per_s_total": 1500.0}
    return deployment_of(Case("dstack-1", "inference", inputs, observed, notes=""))


def _loads(deployment: Deployment, numbers: Sequence[float]) -> Loads:
    """A server of 64 places, each of which completes a request in two seconds: 32 a second, 24 to 40."""
    rates = np.minimum(np.array(numbers), PLACES) / 2
    return Loads(rates, np.full(len(rates), 0.02), 24.0, 40.0)


@pytest.mark.parametrize(
    ("rate", "running", "said"),
    [(8.0, 16.0, ""), (28.0, 56.0, "28 requests/s may overload"), (90.0, UNLIMITED, "overload")],
)
def test_arrivals_fill_a_server_by_littles_law(rate: float, running: float, said: str) -> None:
    steady, reason = in_flight(_deployment(rate), _loads)
    assert steady.values["serving.concurrency"] == pytest.approx(running, rel=0.02)
    assert bool(reason) == bool(said)
    assert said in reason
    assert ("ttft_p50" in {figure.quantity for figure in steady.figures}) == (not said)
    assert {"tpot_p50", "output_tokens_per_s_total"} <= {f.quantity for f in steady.figures}


def test_rates_that_fall_past_a_peak_give_the_fewest_in_flight() -> None:
    """A server that completes less of a few more requests than it has places for."""

    def dipping(deployment: Deployment, numbers: Sequence[float]) -> Loads:
        loads, running = _loads(deployment, numbers), np.array(numbers)
        dips = (running > PLACES) & (running < 500)
        return replace(loads, rates=np.where(dips, 0.8 * loads.rates, loads.rates))

    steady, _ = in_flight(_deployment(30.0), dipping)
    assert steady.values["serving.concurrency"] == pytest.approx(60.0, rel=0.02)


def test_a_batch_of_varied_answers_drains_as_drawn() -> None:
    """The last of 64 exponential answers, by 4,000 draws; iterations of one length, and shorter ones at the end."""
    drawn = np.random.default_rng(0).exponential(size=(4000, 64)).max(axis=1).mean()
    assert drain_answers(np.ones(26), 64) == pytest.approx(drawn, rel=0.02)
    rising = np.linspace(0.5, 2.0, 26)
    assert 1 < drain_answers(rising, 64) < drain_answers(np.ones(26), 64)
