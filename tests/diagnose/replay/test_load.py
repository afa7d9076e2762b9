"""The load simulator against closed forms of continuous batching."""

from __future__ import annotations

import random

import pytest

from assay.diagnose.replay.load import Arrival, SchedulerConfig, poisson, simulate
from assay.diagnose.replay.step_cost import StepShape
from assay.errors import InputError


class Cost:
    """Milliseconds: of a step, a decoding sequence, a prompt token."""

    def __init__(self, step: float = 10.0, decode: float = 0.0, prompt: float = 0.0) -> None:
        self.step, self.decode, self.prompt = step, decode, prompt
        self.shapes: list[StepShape] = []

    def step_ns(self, shape: StepShape) -> float:
        self.shapes.append(shape)
        return 1e6 * (self.step + self.decode * shape.decodes + self.prompt * shape.prefill_tokens)


def test_one_request() -> None:
    cost = Cost(step=10, prompt=0.5)
    found = simulate([Arrival(0.0, 100, 5)], SchedulerConfig(), cost)
    (request,) = found.requests
    assert request.ttft_s == pytest.approx(0.060)
    assert request.tpot_s == pytest.approx(0.010)
    assert found.steps == 5
    assert found.duration_s == pytest.approx(0.060 + 4 * 0.010)
    assert found.output_throughput == pytest.approx(5 / 0.1)


def test_a_prompt_is_chunked_by_the_token_budget() -> None:
    cost = Cost(step=0, prompt=1.0)
    simulate([Arrival(0.0, 100, 1)], SchedulerConfig(16, 32), cost)
    assert [shape.prefill_tokens for shape in cost.shapes] == [32, 32, 32, 4]
    assert [shape.samples for shape in cost.shapes] == [0, 0, 0, 1]
    pairs = sum(shape.prefill_pairs for shape in cost.shapes)
    assert pairs == 100 * 101 / 2


def test_batches_are_bounded_by_max_num_seqs() -> None:
    cost = Cost(step=10)
    arrivals = [Arrival(0.0, 4, 11) for _ in range(8)]
    found = simulate(arrivals, SchedulerConfig(max_num_seqs=4), cost)
    # Two waves of four: eleven steps each.
    assert found.steps == 22
    assert max(shape.sequences for shape in cost.shapes) == 4
    assert found.percentile("ttft_s", 100) == pytest.approx(0.010 * 12)


def test_decodes_come_before_prefill() -> None:
    cost = Cost(step=10, prompt=1.0)
    arrivals = [Arrival(0.0, 4, 30), Arrival(0.05, 64, 2)]
    simulate(arrivals, SchedulerConfig(16, 33), cost)
    mixed = [shape for shape in cost.shapes if shape.decodes and shape.prefill_tokens]
    assert [(shape.decodes, shape.prefill_tokens) for shape in mixed] == [(1, 32), (1, 32)]


def test_async_scheduling_sees_arrivals_a_step_later() -> None:
    """Steps of 10 ms from 0; the second request comes at 25 ms and is seen at 30 or at 40."""
    arrivals = [Arrival(0.0, 4, 20), Arrival(0.025, 4, 2)]
    found = [
        simulate(arrivals, SchedulerConfig(async_scheduling=ahead), Cost(step=10)).requests[1]
        for ahead in (False, True)
    ]
    assert [one.first_token_s for one in found] == pytest.approx([0.040, 0.050])
    # An idle engine schedules at once either way.
    late = [Arrival(0.0, 4, 2), Arrival(1.0, 4, 2)]
    for ahead in (False, True):
        one = simulate(late, SchedulerConfig(async_scheduling=ahead), Cost(step=10)).requests[1]
        assert one.ttft_s == pytest.approx(0.010)


def test_a_small_cache_preempts() -> None:
    arrivals = [Arrival(0.0, 30, 40) for _ in range(4)]
    roomy = simulate(arrivals, SchedulerConfig(kv_tokens=1024), Cost())
    tight = simulate(arrivals, SchedulerConfig(kv_tokens=160), Cost())
    assert roomy.preemptions == 0
    assert tight.preemptions > 0
    assert [one.tokens for one in tight.requests] == [40] * 4
    assert tight.duration_s > roomy.duration_s


def test_a_shared_prefix_is_computed_once() -> None:
    # The second comes when the first is done: the cache holds its blocks.
    arrivals = [Arrival(0.0, 64, 1, 48), Arrival(10.0, 64, 1, 48)]
    cost = Cost(step=0, prompt=1.0)
    found = simulate(arrivals, SchedulerConfig(prefix_caching=True), cost)
    assert [shape.prefill_tokens for shape in cost.shapes] == [64, 16]
    assert found.cached_tokens == 48


def test_shortest_first_lowers_the_mean_of_first_tokens() -> None:
    arrivals = [Arrival(0.0, length, 2) for length in (400, 10, 10, 10)]
    means = {
        policy: simulate(arrivals, SchedulerConfig(1, 512, policy), Cost(step=0, prompt=1.0)).mean(
            "ttft_s"
        )
        for policy in ("fcfs", "shortest")
    }
    assert means["shortest"] < means["fcfs"]


def test_an_idle_server_serves_at_the_rate_of_arrivals() -> None:
    arrivals = poisson(5.0, 400, 8, 2, seed=3)
    found = simulate(arrivals, SchedulerConfig(), Cost(step=0.1))
    assert len(found.requests) / found.duration_s == pytest.approx(5.0, rel=0.15)
    assert found.goodput({"ttft": 0.01, "tpot": 0.001}) == pytest.approx(
        len(found.requests) / found.duration_s
    )
    assert found.goodput({"ttft": 1e-6}) == 0.0


def test_an_overloaded_server_serves_at_its_capacity() -> None:
    """One sequence at a time, 10 steps of 10 ms each: ten requests a second."""
    found = simulate(poisson(100.0, 200, 4, 10), SchedulerConfig(max_num_seqs=1), Cost(step=10))
    assert len(found.requests) / found.duration_s == pytest.approx(10.0, rel=0.02)


def test_the_same_load_gives_the_same_result() -> None:
    source = random.Random(1)
    arrivals = [Arrival(source.random(), source.randrange(1, 90), 8) for _ in range(50)]
    first, second = (simulate(arrivals, SchedulerConfig(), Cost(10, 1, 0.1)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SchedulerConfig(policy="lifo"), "expected one of fcfs, priority, shortest, got lifo"),
        (SchedulerConfig(64, 32), "expected at least max_num_seqs 64, got 32"),
        (SchedulerConfig(kv_tokens=64), "requests of at most 64 tokens"),
    ],
)
def test_errors(config: SchedulerConfig, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate([Arrival(0.0, 100, 10)], config, Cost())


def test_no_requests() -> None:
    with pytest.raises(InputError, match="expected at least one request"):
        simulate([], SchedulerConfig(), Cost())
