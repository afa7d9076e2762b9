"""Windows of servers that were measured on an H200, beside what a plan says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import generate_score_table as page
from assay.errors import InputError
from assay.validate.served_windows import ServedWindows, compare_windows
from generated_pages import filled
from windows_tables import open_loop_table, windows_table

WINDOWS = page.WINDOWS["dense"]


@pytest.fixture(scope="module")
def answer() -> ServedWindows:
    return compare_windows(WINDOWS)


@pytest.fixture(scope="module")
def experts() -> ServedWindows:
    return compare_windows(page.WINDOWS["experts"])


def test_design_page_has_the_windows_of_today(
    answer: ServedWindows, experts: ServedWindows
) -> None:
    text = page.LOADED_PAGE.read_text(encoding="utf-8")
    windows = windows_table([("dense", answer), ("experts", experts)])
    found = filled(text, windows, page.WINDOWS_START)
    found = filled(found, open_loop_table(page.OPEN_LOOP), page.OPEN_LOOP_START)
    assert found == text, f"run {page.COMMAND}"


def test_every_saturated_rate_of_a_dense_model_is_within_its_bar(answer: ServedWindows) -> None:
    saturated = [row for row in answer.figures if row.figure == "rate"]
    assert len(saturated) == 10
    assert [row.scenario for row in saturated if not row.is_met] == []
    # Those of the own server, and rates beyond saturation, are in no fit.
    assert sum(not row.is_fitted for row in saturated) == 6


def test_windows_that_are_sent_too_much_are_replayed(answer: ServedWindows) -> None:
    rows = [row for row in answer.figures if row.scenario == "4900/128" and row.rate is not None]
    assert len(rows) == 14
    assert all((row.lo or 0) <= row.measured <= (row.hi or 0) for row in rows)


def test_figures_that_an_overloaded_window_has_not_are_left_out(tmp_path: Path) -> None:
    data = json.loads(WINDOWS.read_text())
    loaded = next(point for point in data["points"] if point["load"] == "120%")
    for level in ("p90", "p99"):
        del loaded["figures"][f"{level}_ttft_ms"]
    data["points"] = [loaded]
    file = tmp_path / "windows.json"
    file.write_text(json.dumps(data))
    compared = compare_windows(file)
    assert not compared.refused
    assert [row.figure for row in compared.figures] == (
        ["rate", "p50 ttft", "p50 tpot", "p90 tpot", "p99 tpot"]
    )


def test_most_measured_figures_are_within_their_bars(answer: ServedWindows) -> None:
    rows = [row for row in answer.figures if row.scenario in ("1024/128", "4900/128", "200/500")]
    assert len(rows) == 44
    assert sum(row.is_met for row in rows) >= 39
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


def test_random_weights_that_choose_few_experts_are_said(experts: ServedWindows) -> None:
    """12 tokens touch 128 (1 - (15/16)^12) = 69 experts of a layer: 31 GB of 48 layers, 6.8 ms at 4.6 TB/s."""
    (said,) = [note for note in experts.notes if "choose fewer" in note]
    assert said.startswith("assay 1024/128 12/s: p50 tpot 6.96 ms is below the 7")
