"""LoRA adapters: r (in + out) of every linear layer, by hand from the shapes of the models."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask

LLAMA_8B = 32 * (2 * 4096 + 2 * (4096 + 1024) + 2 * 4096 + 3 * (4096 + 14336))
"""Inputs and outputs of queries, keys and values, the output, and three matrices of the feed-forward, 32 times."""
LLAMA_70B = 80 * (2 * 8192 + 2 * (8192 + 1024) + 2 * 8192 + 3 * (8192 + 28672))
MIXTRAL = 32 * (2 * 4096 + 2 * (4096 + 1024) + 2 * 4096)
"""Its routed experts have no adapters."""


@pytest.mark.parametrize(
    ("question", "parameters"),
    [
        # PEFT prints 41,943,040 and 207,093,760 trainable parameters.
        ("how many parameters does a LoRA adapter of rank 16 have on llama 3.1 8b", 16 * LLAMA_8B),
        ("how many trainable parameters has LoRA with r=16 on Llama 3.1 70B", 16 * LLAMA_70B),
        ("LoRA rank 16 adapter parameters for Mixtral 8x7B", 16 * MIXTRAL),
    ],
)
def test_parameters_of_an_adapter(question: str, parameters: int) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.number[0] == pytest.approx(parameters, rel=1e-9)
    assert f"{parameters:,}" in outcome.text


@pytest.mark.parametrize(
    ("question", "size"),
    [
        ("size of a rank 16 LoRA adapter for Llama 3.1 8B", 2 * 16 * LLAMA_8B),
        ("how big is a LoRA adapter of rank 64 for Llama 3.1 70B", 2 * 64 * LLAMA_70B),
        ("memory of a LoRA r=16 adapter for llama 3.1 8b in fp32", 4 * 16 * LLAMA_8B),
    ],
)
def test_bytes_of_an_adapter(question: str, size: int) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.number == (pytest.approx(size, rel=1e-9), "byte")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("how many parameters does a LoRA adapter of llama 3.1 8b have", "lora adapter"),
        ("how many parameters does a LoRA adapter of rank 0 have on llama 3.1 8b", "at least 1"),
        ("parameters of a rank 16 LoRA adapter on q_proj and v_proj of llama 3.1 8b", "q_proj"),
        ("size of a rank 16 LoRA adapter for llama 3.1 8b in int4", "16 or 32 bits"),
    ],
)
def test_what_an_adapter_leaves_open_is_refused(question: str, reason: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert reason in f"{answer.problem} {answer.problem.hint if answer.problem else ''}"
