"""What the power limit takes from prompts where a load lasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.planner.capacity.candidates import Candidate, candidates
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.replay import replay
from assay.planner.capacity.served import Sample, ServerLimits, sample_of, serve
from assay.planner.capacity.step_table import StepTable
from assay.planner.capacity.throttle import AVERAGED, Throttle
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

from .synthetic_servers import table

PROMPT = 1000.0


def throttled(extra: float = 0.005) -> StepTable:
    """Steps of 20 ms a prompt of 1,000 tokens, which takes 5 ms longer where prompts alone run."""
    steps = table(decode=0.001, token=2e-5)
    seconds = extra * steps.chunks / PROMPT
    limit = Throttle(
        seconds, 700.0, 100.0, 1300.0, np.array([0.0, 1000.0]), np.array([100.0, 600.0])
    )
    return replace(steps, throttle=limit)


@pytest.fixture(scope="module")
def server() -> tuple[Candidate, Sample]:
    one = np.ones(2)
    sample = sample_of(1024 * one, 1024 * one, 128 * one)
    (own,), _ = candidates(
        model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig(), sample, tensor=(1,),
        longest=1152,
    )  # fmt: skip
    return own, sample


def test_prompts_alone_run_at_the_clock_of_long_kernels(server: tuple[Candidate, Sample]) -> None:
    own, _ = server
    one = np.array([0.0, 1.0])
    lasting = own.table.lasting(one, np.ones(2), 20.0)
    ratio = lasting.base[0, -1] / own.table.base[0, -1]
    # 8,192 tokens: gate and up take 2.6 ms, which alone has 2.6 / 4.6 of the slowdown of 0.206; the other products are
    # shorter, and a tenth of the step is no product.
    assert 1.05 < ratio < 1.206 / (1 + 0.206 * 2.6 / 4.6) + 0.04
    assert lasting.base[:, 0] == pytest.approx(own.table.base[:, 0])
    assert own.table.lasting(one, np.zeros(2), 20.0).base[0] == pytest.approx(own.table.base[0])


def test_a_load_below_the_limit_keeps_its_times(server: tuple[Candidate, Sample]) -> None:
    own, sample = server
    free = replace(own, table=replace(own.table, throttle=None))
    for rate, least, most in ((4.0, 1.0, 1.0001), (24.0, 1.02, 1.3)):
        ours, theirs = (
            one.served(sample, rate, 0.0, Objective()).output_token.mean for one in (own, free)
        )
        assert least - 1e-9 <= ours / theirs <= most + 1e-9


def test_a_replay_begins_fast_and_ends_at_the_lowest_clock() -> None:
    count = 200
    fresh = np.full(count, PROMPT)
    run = replay(throttled(), ServerLimits(1e9), np.zeros(count), fresh, fresh, np.ones(count))
    steps = np.diff(run.first_token)
    assert steps[0] == pytest.approx(0.02, rel=0.01)
    assert steps[-1] == pytest.approx(0.025, rel=0.01)
    # From 100 W towards 1,300 W, half way after 0.7 of the time that power is averaged over.
    crossed = run.first_token[int(np.argmax(steps > 0.0201))]
    assert crossed == pytest.approx(AVERAGED * np.log(2), abs=0.045)


def test_closed_form_loses_what_the_replay_loses() -> None:
    # At 24 requests/s of 20 ms and 100 tokens some 60 decode: 52 % of 1,300 W and 48 % of 130 are above 700 W.
    rate, count = 24.0, 8000
    arrivals = np.cumsum(np.random.default_rng(3).exponential(1 / rate, count))
    fresh, outputs = np.full(count, PROMPT), np.full(count, 1000.0)
    sample, limits = sample_of(fresh, fresh, outputs), ServerLimits(1e9)
    replayed, found = [], []
    for steps in (throttled(), replace(throttled(), throttle=None)):
        run = replay(steps, limits, arrivals, fresh, fresh, outputs)
        replayed.append(float(run.output_token[count // 4 :].mean()))
        found.append(serve(steps, sample, rate, limits, Objective()).output_token.mean)
    assert replayed[0] / replayed[1] > 1.005
    assert found[0] / found[1] == pytest.approx(replayed[0] / replayed[1], rel=0.03)
