"""Lengths of prompts by the tokens that a server counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assay.load.workloads.archive import save, workload_hash
from assay.load.workloads.builtin import workload
from assay.load.workloads.counting import ServedCount, count_of, how_counted
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.reading import read_requests
from assay.load.workloads.shape import shape
from assay.load.workloads.workload import Window, Workload


def of_bytes(text: str) -> int:
    """A tokenizer of bytes that puts a token before every text."""
    return 1 + len(text.encode())


def server(count: Callable[[str], int]) -> Callable[[Workload, Window], Measurement]:
    """Measures nothing but prompts."""

    def measure(asked: Workload, window: Window) -> Measurement:
        records = tuple(
            RequestRecord(request.number, 0.0, 0.1, 0.1, count(request.prompt), 1)
            for request in asked.requests[: window.requests]
        )
        return Measurement(asked.name, 0.0, 1.0, records, {}, "stable", {})

    return measure


def test_prompts_have_the_tokens_that_were_asked_for() -> None:
    count = count_of(server(of_bytes))
    assert count is not None
    assert count("a" * 100) == pytest.approx(101, abs=3)
    made = workload("batch", requests=50, input_tokens=1024, output_tokens=8, count=count)
    counted = [of_bytes(request.prompt) for request in made.requests]
    assert sum(counted) / len(counted) == pytest.approx(1024, rel=0.01)
    assert max(counted) < 1.03 * 1024
    assert "as the server counts, 4.8 tokens a word" in made.notes[0]
    # A guess by words is a fifth of it.
    guessed = workload("batch", requests=5, input_tokens=1024, output_tokens=8)
    assert of_bytes(guessed.requests[0].prompt) > 4000


def test_a_template_before_every_text_is_part_of_its_length() -> None:
    count = count_of(server(lambda text: 30 + len(text.split())))
    assert count is not None
    made = workload("batch", requests=20, input_tokens=100, output_tokens=8, count=count)
    counted = [30 + len(request.prompt.split()) for request in made.requests]
    assert sum(counted) / len(counted) == pytest.approx(100, rel=0.04)


@pytest.mark.parametrize("counted", [0, 7])
def test_a_server_that_does_not_count_is_not_asked_to(counted: int) -> None:
    # No usage, or the same number whatever the text.
    assert count_of(server(lambda text: counted)) is None
    assert how_counted(None).startswith("approximate")


def test_shapes_and_saved_workloads_have_the_counted_lengths(tmp_path: Path) -> None:
    count = ServedCount(of_none=1.0, of_a_piece=0.5, of_a_letter=0.8)
    made = workload("rag", requests=8, count=count)
    lengths = [request.prompt_tokens for request in made.requests]
    assert lengths == [count(request.prompt) for request in made.requests]
    assert shape(made).input_mean == sum(lengths) / len(lengths)
    # Both are tokens of the server: two thirds of a prompt are shared.
    assert shape(made).prefix_share == pytest.approx(0.66, abs=0.06)
    save(made, tmp_path / "w.jsonl")
    assert read_requests(tmp_path / "w.jsonl") == made
    # What is sent does not depend on who counted.
    uncounted = tuple(replace(request, prompt_tokens=0) for request in made.requests)
    assert workload_hash(replace(made, requests=uncounted)) == workload_hash(made)
