"""Words from below the pins: shrink, node, droplet, wafer, yield, reticle, refresh, leakage, coolant."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask

# Published: TSMC on N2 and N3E, ASML's field and droplets, CSET and press reports on wafers, Ramulator's refresh.
QUESTIONS = [
    ("What does a 2 nm shrink of an H100 do to the cost of a token?", None, 0.896, 0.02),
    ("What would a shrink to 2nm do to a step?", 12.45, None, 0.02),
    ("How many droplets of tin print a GPU?", 4.4e5, None, 0.05),
    ("How many tin droplets per training token?", 3.4e-7, None, 0.05),
    ("What does a 3 nm wafer cost?", 19865.0, None, 0.01),
    ("What does a 5 nm wafer cost?", 16988.0, None, 0.01),
    ("What is the reticle limit?", 858.0, None, 1e-9),
    ("How much of the reticle does a die of an H100 fill?", 814 / 8.58, None, 1e-3),
    ("How much bandwidth does refresh cost?", 5.1, None, 0.02),
    ("What is the transistor density of TSMC N3E?", 171.3 * 1.3, None, 0.01),
]  # fmt: skip


@pytest.mark.parametrize(("question", "value", "ratio", "tolerance"), QUESTIONS)
def test_answers_are_near_what_is_published(
    question: str, value: float | None, ratio: float | None, tolerance: float
) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    if value is not None:
        assert outcome.number[0] == pytest.approx(value, rel=tolerance)
    if ratio is not None:
        assert outcome.ratio == pytest.approx(ratio, abs=tolerance)


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("What is the leakage power?", "leakage"),
        ("How hot is the coolant?", "coolant"),
        ("What is the die yield?", "yield"),
        ("How many good dies are on a wafer?", "wafer"),
    ],
)
def test_words_that_are_understood(question: str, intent: str) -> None:
    answer = ask(question)
    assert answer.intent == intent
    assert answer.outcome is not None


def test_a_number_that_is_not_used_is_a_refusal() -> None:
    answer = ask("What if the coolant is 330 K?")
    assert answer.outcome is None
    assert "330" in answer.unknown
