"""Words, numbers and names as people type them, and answers that once were wrong."""

from __future__ import annotations

from typing import Any

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome
from assay.asking.reading import read
from assay.errors import InputError


def answered(question: str) -> Outcome:
    """The answer to a question that must have one."""
    answer = ask(question)
    assert answer.outcome is not None, answer.problem
    return answer.outcome


@pytest.mark.parametrize(
    ("question", "slot", "value"),
    [
        ("llama 8b on 1.000 H100", "gpus", 1000),
        ("1.000.000 requests of llama 8b", "requests", 1_000_000),
        ("0,12 $/kwh", "electricity_price", 0.12),
        ("8 h100 at 2.49/hr", "rent", 2.49),
        ("an H100 for $30.000", "budget", 30_000),
        ("llama 70b q4_k_m", "format", "q4_k_m"),
        ("llama 70b in Q8", "format", "q8_0"),
        ("2x3090", "gpus", 2),
        ("dual 3090", "gpus", 2),
        ("a checkpoint at 10 GB/s", "bandwidth", 1e10),
        ("a checkpoint at 10 Gb/s", "bandwidth", 1.25e9),
        ("1 Gbit/s", "bandwidth", 1.25e8),
        ("500 h100 hours", "gpu_hours", 500),
        ("100 million tokens per day", "token_rate", 1e8),
        ("50k samples of 1000 tokens", "tokens", 5e7),
        ("mixtral", "model", "mixtral-8x7b"),
        ("a rack of 72 GB200", "node", "gb200_nvl72"),
        ("responses of 200 tokens", "output", 200),
        ("4 nodes of 8xH100", "nodes", 4),
    ],
)
def test_numbers_and_names_as_people_type_them_are_read(
    question: str, slot: str, value: Any
) -> None:
    assert read(question).values(slot) == [value]


def test_a_part_of_a_gpu_is_refused() -> None:
    with pytest.raises(InputError, match="whole number"):
        read("throughput of llama 8b on 2.5 h100")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        # 141 GB of weights on a GPU of 80; 405e9 weights of two bytes on four.
        ("throughput of llama 70b on 1 H100", "does not fit on 1 x h100_sxm"),
        ("cost per token of llama 405b on 4 h100", "does not fit on 4 x h100_sxm"),
        ("how many requests per second can one h100 do with llama 70b", "does not fit"),
        ("ttft of llama 8b on 64 h100", "several replicas"),
        ("at which rent is b200 cheaper than h100", "solved for"),
        ("how much does a b200 server cost", "to buy or to rent"),
        ("how big a pond fits llama 70b on 4 h100", "not understood"),
    ],
)
def test_what_has_no_answer_is_refused(question: str, reason: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert reason in str(answer.problem)


def test_the_more_efficient_is_not_the_worse_one() -> None:
    # 2.25 times the peak and 2.39 times the bandwidth, at 1.43 times the power.
    question = "Which is more energy efficient, H100 or B200, for Llama 70B?"
    assert answered(question).choice == "b200_sxm"


def test_a_price_of_electricity_is_no_question_about_it() -> None:
    question = "If electricity costs $0.20/kWh, what does training Llama 8B on 1T tokens cost?"
    assert answered(question).result.target == "econ.run.total_cost"


@pytest.mark.parametrize(
    ("question", "low", "high", "unit"),
    [
        # Cost of dies, memory, package: 3,320 USD is published (Raymond James).
        ("what does an h100 cost to make", 2500, 4500, "USD/GPU"),
        # 0.06 to 0.4 USD a million: by the month, not by the day.
        ("cost of serving 1 billion tokens a month with llama 8b on h100", 60, 400, "USD"),
        # Some 4,400 tokens/s of one GPU, fewer of each where four work together.
        ("what's the speed of llama 8b on 100 h100s", 150_000, 500_000, "token/s"),
        ("how much memory do 8 h100 have in total", 640, 690, "GB"),
        ("optimizer states of llama 3.1 8b", 64, 97, "GB"),
    ],
)
def test_figures_that_once_were_wrong(question: str, low: float, high: float, unit: str) -> None:
    value, own = answered(question).number
    assert own == unit
    assert value is not None
    assert low <= value <= high


def test_the_smallest_gpu_is_chosen_among_gpus() -> None:
    assert answered("smallest gpu for llama 8b fp16").choice == "l4"


def test_alternatives_have_the_rents_beside_them() -> None:
    outcome = answered("h100 at $2 vs h200 at $3 for llama 70b, which is cheaper per token")
    assert [name for name, _ in sorted(outcome.rows)] == [
        "h100_sxm at 2 USD/h", "h200_sxm at 3 USD/h",
    ]  # fmt: skip


def test_what_no_word_asks_for_is_said() -> None:
    outcome = answered("70b on 4x a100 40gb 32k ctx?")
    assert outcome.verdict == "no"
    assert outcome.assumed[0] == "the question is whether it fits"
