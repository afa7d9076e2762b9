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
    answer = ask("What is the die yield at 330 K?")
    assert answer.outcome is None
    assert "at 330 k" in answer.unknown


@pytest.mark.parametrize(
    ("question", "ratio", "tolerance"),
    [
        # A wafer of 30,000 USD beside one of 16,480: 13,520 over 38 good dies, by the maker's margin of 8.8.
        ("What if a wafer costs $30,000: price of an H100", 28_570 / 25_430, 0.01),
        # Dies cost by their yield: 60.6 over 50 of some 450 USD, by the margin.
        ("What if die yield drops to 50%: price of an H100", 1.032, 0.01),
        # The exposure of a layer is half of its time, and that a few hundredths of a wafer's cost.
        ("What does doubling EUV source power do to the price of a wafer?", 0.986, 0.01),
    ],
)
def test_a_change_below_the_pins_moves_a_figure_above_them(
    question: str, ratio: float, tolerance: float
) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.ratio == pytest.approx(ratio, abs=tolerance)
    assert len(outcome.lines) == 2
    assert all("packs/h100_floor" in line for line in outcome.lines)


def test_dies_of_a_wafer_are_all_of_them_unless_good_ones_are_asked_for() -> None:
    every, good = (ask(f"how many {kind}dies on a wafer of H100") for kind in ("", "good "))
    assert every.outcome is not None
    assert good.outcome is not None
    # De Vries: pi 150^2 / 814 - pi 300 / sqrt(2 x 814) = 63.5.
    assert every.outcome.number[0] == pytest.approx(64, abs=1.5)
    assert good.outcome.number[0] == pytest.approx(38, abs=1)


def test_the_price_of_a_gpu_from_its_wafer_is_not_that_of_the_wafer() -> None:
    outcome = ask("price of an H100 from its wafer").outcome
    assert outcome is not None
    assert outcome.result.target == "econ.gpu.price"
    assert ask("price of a B200 from its wafer").outcome is None
