"""The page of the physical layers is what the equations make it, and its answers are those from outside."""

from __future__ import annotations

import pytest

import generate_physics_reference as page

OUTSIDE = {
    "training.step_time": "12.4 s", "gpu.throttle": "0.76", "lithography.gpu.droplets": "4.4e+05 1/GPU",
    "lithography.resist.absorbed_noise": "3.81 %", "arithmetic.flops.bits_16": "4.1e+03 FLOP",
}  # fmt: skip


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("target", OUTSIDE)
def test_answers_to_the_questions(target: str) -> None:
    (asked, *_) = (asked for asked in page.QUESTIONS if asked.target == target)
    assert page.answer(asked) == OUTSIDE[target]


def test_every_layer_moves_something_outside_it() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    sections = [section for section in text.split("\n## ")[4:] if not section.startswith("Scaling")]
    assert len(sections) == len(page.LAYERS) - 1
    assert all("\nMoves `" in section for section in sections)


def test_one_pack_moves_headlines_from_most_layers() -> None:
    """The table of what moves what: twelve layers below the pins with a thousandth or more."""
    (table,) = (
        part for part in page.PAGE.read_text().split("\n## ") if part.startswith("What moves")
    )
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    strongest = {
        row[0].strip("| "): max(float(cell) for cell in row[1:-1] if cell != "-") for row in rows
    }
    below = {scope for _, scope, _ in page.LAYERS}
    assert sum(size > 1e-3 for layer, size in strongest.items() if layer in below) >= 12
