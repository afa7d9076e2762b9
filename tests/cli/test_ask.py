"""`assay ask`: the layout of a model that the scenario's GPUs are too small for."""

from __future__ import annotations

from typing import Any

from .conftest import Cli

GB = 1e9
PARAMETERS = 70.55e9
"""Of Llama 3.1 70B, by its model card; bfloat16 takes two bytes each."""
H200_BYTES = 143_771 * 2**20
"""What nvidia-smi states for an H200."""
USABLE = 0.9
"""vLLM's default for gpu_memory_utilization."""


def answer(cli: Cli, question: str) -> dict[str, Any]:
    answered: dict[str, Any] = cli("ask", question, "--json").data["answer"]
    return answered


def test_a_model_too_large_for_one_gpu_is_split_over_the_fewest(cli: Cli) -> None:
    assert 2 * PARAMETERS > USABLE * H200_BYTES
    assert 2 * PARAMETERS + 40 * GB < 2 * USABLE * H200_BYTES
    split = answer(cli, "cost per output token of Llama-3-70B on H200")
    assert split["assign"] == ["econ.serving.load=1", "serving.tensor=2"]
    assert split["command"].endswith("--set serving.tensor=2")
    assert not any("fit" in meaning for meaning in split["violated"])


def test_a_model_that_fits_keeps_the_layout_of_its_scenario(cli: Cli) -> None:
    assert answer(cli, "cost per output token of Llama 3 8B on H200")["assign"] == [
        "econ.serving.load=1"
    ]


def test_what_no_layout_mends_is_named(cli: Cli) -> None:
    # 405 billion parameters in bfloat16 need seven H200; a step of theirs is slower than 10 ms.
    slow = answer(cli, "cost per output token of Llama-3.1-405B on H200 with 4 users")
    assert slow["assign"] == [
        "serving.concurrency=4 request",
        "econ.serving.load=1",
        "serving.tensor=8",
    ]
    assert slow["value"] > 0


def test_a_question_without_words_is_refused(cli: Cli) -> None:
    outcome = cli("ask", "???")
    assert outcome.code == 2
    assert "the question is empty" in outcome.err


def test_a_refusal_names_the_nearest_command_once(cli: Cli) -> None:
    outcome = cli("ask", "does llama-3.1-70b fit in narnia?")
    assert outcome.code == 2
    assert outcome.err == 'error: not understood: "narnia"\n'
    assert outcome.out.startswith("nearest assay resolve serving.kv.max_concurrency")


def test_one_word_of_several_does_not_name_a_variable(cli: Cli) -> None:
    outcome = cli("ask", "what is the temperature of london?")
    assert outcome.code == 2
    assert 'not understood: "london"' in outcome.err
    assert "assay show" not in outcome.out + outcome.err
