"""How many GPUs: the layout of the fewest in total, not of the smallest replica."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome
from assay.asking.predictions import Plan
from assay.errors import AssayError


def _outcome(question: str) -> Outcome:
    answer = ask(question)
    assert answer.outcome is not None, answer.problem
    return answer.outcome


@pytest.mark.parametrize(
    ("question", "cache_gb"),
    [
        # 61 layers of 576 elements of 2 bytes: 70,272 bytes a token.
        ("how many H200s for DeepSeek-V3 with 32 users at 100k context?", 32 * 100_000 * 70_272e-9),
        (
            "how many H200s do I need for DeepSeek R1 in fp8 with 128k context and 32 concurrent users",
            32 * 131_072 * 70_272e-9,
        ),
    ],
)
def test_requests_of_a_latent_cache_are_divided_over_ranks(question: str, cache_gb: float) -> None:
    outcome = _outcome(question)
    # 671 billion weights of a byte, on GPUs of 141 GB.
    least = (671 + cache_gb) / 141
    assert outcome.value is not None
    assert least < outcome.value <= 16
    assert any("data-parallel attention" in line for line in outcome.assumed)
    assert "serving.attention_replicas=8" in outcome.result.command.line


def test_a_cache_without_copies_needs_no_data_parallel_attention() -> None:
    outcome = _outcome("how many H100 for Llama 3.1 70B with 32 users at 8k context?")
    # Grouped-query attention: 327,680 bytes a token on all GPUs together, 141 GB of weights.
    assert outcome.value == 4
    assert 141 + 32 * 8_192 * 327_680e-9 > 2 * 80
    assert not any("data-parallel" in line for line in outcome.assumed)


def test_replicas_for_a_rate_are_as_wide_as_takes_the_fewest_gpus() -> None:
    outcome = _outcome(
        "How many nodes do I need to serve 5 requests per second of Llama 3.1 405B in fp8 on "
        "H200, 2000 in 300 out?"
    )
    command = outcome.result.command
    assert outcome.unit == "node"
    assert isinstance(command, Plan)
    # Four GPUs hold its 405 GB, too, but their replicas take more of them or keep no limit.
    assert command.servers.tensor == 8
    narrower = replace(command, servers=replace(command.servers, tensor=4))
    try:
        gpus = narrower.option().gpus
    except AssayError:
        return
    assert gpus >= (outcome.result.value or 0)


def test_a_rate_takes_the_plan_of_random_arrivals() -> None:
    outcome = _outcome("how many H100 for 150 requests/s of Llama 3.1 8B")
    # Capacity at 95 % of which queues have no end would be 5 GPUs; `assay plan` takes 6 to 7.
    assert outcome.value in (6, 7)
    assert outcome.result.command.line.startswith("assay plan --model llama-3.1-8b --rate 150 ")
    assert "p=99%" in outcome.result.command.line
    assert {"TTFT within 1 s", "TPOT within 50 ms"} <= set(outcome.assumed)


def test_the_cost_of_a_rate_is_that_of_its_gpus_with_their_electricity() -> None:
    outcome = _outcome("cost of serving 50 requests/s of Llama 3.1 8B on H100 at $2/h for a month")
    gpus = outcome.commands[0].run().value
    assert gpus is not None
    assert outcome.value == pytest.approx(gpus * 720 * 2)


def test_stated_tensor_ranks_are_kept() -> None:
    outcome = _outcome(
        "How many GPUs for 5 requests/s of Llama 3.1 405B in fp8 with tensor parallel 4 on H200?"
    )
    assert "--tensor 4" in outcome.result.command.line


def test_the_interval_of_a_rate_within_limits_is_that_of_step_times() -> None:
    outcome = _outcome(
        "How many requests per second can one H100 take with Llama 3.1 8B if TTFT must be below "
        "500 ms and 2000 tokens in, 200 out?"
    )
    low, value, high = outcome.result.lo, outcome.result.value, outcome.result.hi
    assert low is not None
    assert value is not None
    assert high is not None
    # The rate is kept at nine of ten errors of step times: near the low end of their 90 %.
    assert 0.8 * value < low < value < 1.1 * value < high


def test_a_cost_within_limits_has_an_interval() -> None:
    outcome = _outcome(
        "cost per million output tokens of Llama 3.1 70B on H200 with TPOT under 40 ms"
    )
    assert outcome.result.lo is not None
    assert outcome.result.hi is not None
    assert outcome.result.lo < (outcome.result.value or 0) < outcome.result.hi
