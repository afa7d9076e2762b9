"""Numbers and names as they are written elsewhere, and words that are near to those that are known."""

from __future__ import annotations

import pytest

from assay.asking import published_runs
from assay.asking.answering import ask
from assay.asking.names import named, near_words, swapped
from assay.asking.reading import read
from assay.asking.text import normalized


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("1.000.000.000.000 tokens", "1000000000000 tokens"),
        ("1 000 000 tokens", "1000000 tokens"),
        ("1.000,5 kwh", "1000.5 kwh"),
        ("pue 1,1", "pue 1.1"),
        ("1,5 hours", "1.5 hours"),
        # Two numbers of a list stay two numbers.
        ("batch 1,2", "batch 1,2"),
        ("8 100 gpus", "8 100 gpus"),
        ("2 l4 at $0.70 or 1 l40s", "2 l4 at $0.70 or 1 l40s"),
    ],
)
def test_numbers_of_other_countries(written: str, read_as: str) -> None:
    assert normalized(written) == read_as


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("Llama-3_1-8B-Instruct", "llama-3.1-8b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("a 34b model", "codellama-34b"),
    ],
)
def test_models_as_repositories_spell_them(written: str, model: str) -> None:
    assert read(f"weights of {written}").get("model") == model


def test_a_size_is_that_of_its_word() -> None:
    """A "Qwen 34B" is no Qwen3 of 4B."""
    assert named("qwen 34b") == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("is more than one H100 needed for qwen2.5 72b in bf16?", "more than"),
        ("cost of 4 to 8 H100 for a day at $2/h", "4 to 8"),
        ("throughput of llama 3.1 8b on h100 between 50 and 100 users", "between 50 and 100"),
    ],
)
def test_a_range_or_a_bound_is_named_in_the_refusal(question: str, words: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert words in answer.unknown


def test_misspelled_words_have_suggestions() -> None:
    known = ("train", "bandwidth", "time")
    assert swapped(["trian", "emit"], known) == {"trian": ["train"]}
    assert near_words(["bandwith", "banana"], known) == {"bandwith": ["bandwidth"]}


def test_published_runs_of_about_as_many_gpus() -> None:
    """Llama 3, table 4: 41 % on 16,384 GPUs and 43 % on 8,192."""
    texts = published_runs.near("llama-3.1-405b", "h100_sxm", 16384)
    assert [text.partition(" GPUs")[0] for text in texts[:-1]] == [
        "published: MFU of 41 % on 16,384",
        "published: MFU of 43 % on 8,192",
    ]
    assert "assay validate --suite llama3" in texts[-1]
    assert published_runs.near("mixtral-8x7b", "t4", 8) == ()


def test_requests_per_second_are_those_of_the_planner() -> None:
    """Between what a load test of vLLM completed, 27.7/s, and what it keeps with some risk."""
    outcome = ask(
        "what rate can one H200 sustain for Llama 3.1 8B with 1024 input and 128 output tokens"
    ).outcome
    assert outcome is not None
    assert "--rate max --max-gpus 1 --slo ttft=1000ms" in outcome.lines[0]
    assert outcome.result.lo is not None
    assert outcome.result.hi is not None
    assert outcome.result.lo < 27.7 < outcome.result.hi
    assert (outcome.number[0] or 0) < 27.7
