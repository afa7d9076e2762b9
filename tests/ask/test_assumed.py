"""What `assay ask` assumes is sensible, and said: equal counts, loads, lengths, layouts and units."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome
from assay.asking.reading import read


def answered(question: str) -> Outcome:
    """The answer to a question that must have one."""
    answer = ask(question)
    assert answer.outcome is not None, answer.problem
    return answer.outcome


@pytest.mark.parametrize(
    ("question", "low", "high"),
    [
        # Peaks in BF16: 989, 312 and 2,250 TFLOP/s.
        ("is H100 faster than A100 for pretraining llama 3.1 8b?", 2.3, 3.2),
        ("How long to train Llama 3.1 8B on 1T tokens: H100 or B200?", 1.6, 2.4),
    ],
)
def test_training_is_compared_on_as_many_gpus(question: str, low: float, high: float) -> None:
    outcome = answered(question)
    assert outcome.ratio is not None
    assert low < outcome.ratio < high
    assert "64 GPUs for each" in outcome.assumed


@pytest.mark.parametrize(
    ("question", "layout"),
    [
        ("Does Llama 3.1 8B fit on 3 H100?", "3 pipeline stages"),
        ("Does Llama 3.1 70B fit on 6 H100?", "2 tensor ranks x 3 pipeline stages"),
        ("Does Llama 3.1 405B fit on 13 H100?", "13 pipeline stages"),
    ],
)
def test_any_layout_of_the_gpus_may_hold_a_model(question: str, layout: str) -> None:
    outcome = answered(question)
    assert outcome.verdict == "yes"
    assert layout in outcome.text


def test_what_fails_is_worded_as_failing() -> None:
    outcome = answered("does llama 3.1 8b fit on an H100 with TP=3")
    assert outcome.verdict == "no"
    assert "32 query heads cannot be split over 3 GPUs" in outcome.text


def test_tokens_are_priced_on_busy_servers_unless_a_load_is_said() -> None:
    """The rent of the GPUs over their tokens per second; and twice that at half load."""
    machine = "Llama 3.1 70B on 8 H100"
    speed = answered(f"throughput of {machine}").result.value
    full = answered(f"price per million output tokens of {machine} at $2/h")
    half = answered(f"price per million output tokens of {machine} at $2/h at 50% utilization")
    assert speed is not None
    assert full.result.value == pytest.approx(16 / 3600 / speed, rel=1e-6)
    assert half.result.value == pytest.approx(32 / 3600 / speed, rel=1e-6)
    assert any("100 % load" in line for line in full.assumed)
    assert not any("100 % load" in line for line in half.assumed)


def test_a_shorter_sequence_is_tried_before_fine_tuning_is_said_not_to_fit() -> None:
    outcome = answered("Can I LoRA fine-tune Llama 3.1 8B on a RTX 4090?")
    assert outcome.verdict == "yes"
    assert "1 GPU" in outcome.assumed
    assert any("sequences of 2,048 tokens" in line for line in outcome.assumed)


def test_the_length_of_training_sequences_is_said() -> None:
    outcome = answered("MFU of Llama 3.1 8B on 64 H100")
    assert "sequences of 8,192 tokens" in outcome.assumed


def test_a_latency_is_of_one_request_unless_users_are_said() -> None:
    question = "how long does it take to generate 500 tokens with Llama 3.1 8B on an H100"
    lone = answered(question)
    assert {"one request at a time", "1,024 tokens in"} <= set(lone.assumed)
    assert lone.result.value == answered(f"{question} for 1 user").result.value
    assert (answered(f"{question} for 64 users").result.value or 0) > (lone.result.value or 0)


@pytest.mark.parametrize(
    ("question", "value", "unit"),
    [
        # 8,192 tokens of 131,072 bytes.
        ("KV cache of Llama 3.1 8B for 8k tokens in MiB", 1024, "MiB"),
        ("KV cache of Llama 3.1 8B for 8k tokens in GiB", 1, "GiB"),
        # 46.7e9 weights of two bytes.
        ("weights of Mixtral 8x7B in fp16 in GiB", 87.0, "GiB"),
    ],
)
def test_the_unit_that_is_asked_for_is_used(question: str, value: float, unit: str) -> None:
    outcome = answered(question)
    assert outcome.number[1] == unit
    assert outcome.number[0] == pytest.approx(value, rel=1e-3)
    assert f" {unit} " in outcome.text


def test_a_model_by_another_name_is_said() -> None:
    assert '"deepseek r1" is deepseek-v3' in answered("weights of DeepSeek R1").assumed


@pytest.mark.parametrize(
    ("question", "value"),
    [
        # Rent by the hour, GPUs and hours.
        ("how much does it cost to rent 12 H100 for 14 days at $2/h?", 12 * 14 * 24 * 2),
        ("What does it cost to run 8 H100s for a month at $3/h?", 8 * 30 * 24 * 3),
        # 70.6 GB in nine tenths of 80 GiB, 77.3e9 bytes, and a request of 0.4 GB.
        ("how many A100 do I need for Llama 3.1 70B in int8?", 1),
    ],
)
def test_words_of_everyday_questions_are_understood(question: str, value: float) -> None:
    assert answered(question).number[0] == pytest.approx(value)


@pytest.mark.parametrize(
    ("question", "slot", "value"),
    [
        ("Can I serve DeepSeek-V3 on a single 8xH100 node?", "gpus", 8),
        ("throughput of two H100 nodes for Llama 3.1 8B", "nodes", 2),
        ("latency of a single request of Llama 3.1 8B", "concurrency", 1),
        ("TPOT of Llama 3.1 70B on H100 with TP4", "tensor", 4),
        ("time to prefill 64k tokens with Llama 3.1 70B on 8 H100", "prompt", 65536),
        ("train Llama 3.1 8B on half a trillion tokens", "tokens", 5e11),
        ("what does a million tokens of Llama 3.1 8B cost", "tokens", 1e6),
    ],
)
def test_numbers_of_everyday_questions_are_read(question: str, slot: str, value: float) -> None:
    assert read(question).values(slot) == [value]
