"""Every preset is set beside a public figure, and where it is off the page says why."""

from __future__ import annotations

import json
import re

import pytest

import generate_preset_reference as page
from assay.scenario import built_in

ROWS = json.loads(page.CASES.read_text(encoding="utf-8"))
TEXT = page.PAGE.read_text(encoding="utf-8")


def test_every_preset_has_a_section_and_but_for_the_worked_example_a_figure() -> None:
    for name in built_in.presets():
        assert f"## {name}\n" in TEXT
    named = {row["preset"] for row in ROWS}
    assert named == set(built_in.presets()) - {"dense_training_cost_fixture"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['preset']}-{row['what']}")
def test_page_has_the_figures_of_today(row: dict[str, str]) -> None:
    _, published, ratio = page.compared(row)
    (stated,) = re.findall(
        rf"- \*\*{re.escape(row['what'])}\*\*: \S.*, published {re.escape(published)} "
        r"\(ratio ([\d.]+)\)\.\n  " + re.escape(row["source"]),
        TEXT.partition(f"## {row['preset']}\n")[2].partition("\n## ")[0],
    )
    # Figures move with the equations; the page is written anew when they move by a tenth.
    assert float(stated) == pytest.approx(ratio, rel=0.1, abs=0.01)
    assert row["why"]
    if not 0.8 <= ratio <= 1.25:
        assert f"Why it is off: {row['why']}." in TEXT
    assert page.command(row) in TEXT


def test_floors_are_below_what_was_published() -> None:
    for row in ROWS:
        if "floor" in row["preset"]:
            assert page.compared(row)[2] < 1
