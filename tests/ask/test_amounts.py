"""Amounts and intervals as people write them; the forms are those of a stranger's findings."""

from __future__ import annotations

import pytest

from assay.asking.amounts import amount, interval
from assay.asking.answering import ask
from assay.asking.outcome import Outcome
from assay.asking.text import normalized


def answered(question: str) -> Outcome:
    """The answer to a question that must have one."""
    answer = ask(question)
    assert answer.outcome is not None, answer.problem
    return answer.outcome


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (11310.47, "USD", "$11,310"),
        (3600.0, "USD", "$3,600"),
        (0.1655, "USD", "$0.1655"),
        (0.0002794, "kWh", "0.2794 Wh"),
        (35365.0, "token/s", "35,365 token/s"),
    ],
)
def test_amounts_have_few_digits_and_a_handy_unit(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_an_interval_has_the_unit_of_its_value() -> None:
    minute = 1 / 1440
    assert interval(45 * minute, "day", 33 * minute, 64 * minute) == "33 to 64 min"
    assert interval(192.0, "request", 192.0, 192.0) == ""
    assert "e+" not in interval(1526.0, "ms", 1382.0, 6745.0)


def test_a_figure_by_the_million_has_its_interval_by_the_million() -> None:
    outcome = answered("cost per million tokens of llama 3.1 8b on an H100 at $2/h")
    assert outcome.interval.startswith("$0.")
    assert "e-" not in outcome.interval


def test_replicas_scale_the_interval() -> None:
    one, eight = (answered(f"throughput of llama 3.1 8b on {n} H100") for n in (1, 8))
    assert eight.number[0] == pytest.approx(8 * (one.number[0] or 0))
    assert eight.ends == pytest.approx([8 * (end or 0) for end in one.ends])


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("16 instead of 8 H100s", "16 h100s instead of 8 h100s"),
        ("tensor parallel 2 or 4", "tensor parallel 2 or tensor parallel 4"),
        ("double the batch from 32 to 64", "batch 32 vs batch 64"),
        ("one hundred H100s at two dollars an hour", "100 h100s at 2 dollars an hour"),
        ("8 gaming 4090s", "8 4090s"),
        ("does it not fit?", "does it fit?"),
    ],
)
def test_shortened_words_are_written_out(question: str, text: str) -> None:
    assert normalized(question) == text
