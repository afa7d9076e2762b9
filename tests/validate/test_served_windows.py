"""Windows of servers that were measured on an H200, beside what a plan says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.validate.served_windows import ServedWindows, compare_windows

WINDOWS = Path(__file__).parents[2] / "bench" / "results" / "serving-h200.json"


@pytest.fixture(scope="module")
def answer() -> ServedWindows:
    return compare_windows(WINDOWS)


def test_most_measured_figures_are_within_their_bars(answer: ServedWindows) -> None:
    rows = [row for row in answer.figures if row.scenario in ("1024/128", "4900/128", "200/500")]
    assert len(rows) >= 28
    assert sum(row.is_met for row in rows) >= 0.8 * len(rows)
    inside = [row for row in rows if row.lo is not None and row.rate is not None]
    assert all((row.lo or 0) <= row.measured <= (row.hi or 0) for row in inside)


def test_saturated_rates_of_short_prompts_follow_the_api_process(answer: ServedWindows) -> None:
    rows = [
        row for row in answer.figures
        if row.server == "vllm" and row.rate is None and row.scenario in ("200/500", "batch")
    ]  # fmt: skip
    # The device alone would complete 37 and 81 requests/s.
    assert [row.is_met for row in rows] == [True] * 2


def test_what_has_no_prediction_says_why(tmp_path: Path) -> None:
    data = json.loads(WINDOWS.read_text())
    data["points"] = [{**data["points"][0], "scenario": "turns"}]
    file = tmp_path / "windows.json"
    file.write_text(json.dumps(data))
    refused = compare_windows(file)
    assert not refused.figures
    assert "prefixes" in refused.refused[0][1]
    file.write_text("[]")
    with pytest.raises(InputError, match="expected a file of assay bench serving"):
        compare_windows(file)


def test_random_weights_that_choose_few_experts_are_said() -> None:
    """12 tokens touch 128 (1 - (15/16)^12) = 69 experts of a layer: 31 GB of 48 layers, 6.8 ms at 4.6 TB/s."""
    notes = compare_windows(WINDOWS.with_name("serving-moe-h200.json")).notes
    (said,) = [note for note in notes if "choose fewer" in note]
    assert said.startswith("assay 1024/128 12/s: p50 tpot 7.72 ms is below the 8")
