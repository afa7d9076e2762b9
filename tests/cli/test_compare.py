"""`assay diff` and `assay sensitivity` on built-in scenarios."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from assay.cli.app import run

PRESET = "llama3_8b_8_h100_training"
COST = "econ.cost.per_token"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_contributions_of_another_accelerator_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys,
        "diff",
        PRESET,
        PRESET,
        "--with",
        "accelerators/h200_sxm",
        "--target",
        COST,
        "--json",
    )
    assert code == 0
    data = json.loads(out)
    total = math.fsum(item["amount"] for item in data["contributions"])
    assert total == pytest.approx(data["after"] - data["before"], rel=1e-9)
    labels = {item["label"] for item in data["contributions"]}
    assert "accelerators/h100_sxm -> h200_sxm" in labels
    assert "prices/h100_sxm -> h200_sxm" in labels


def test_result_file_against_its_scenario_differs_in_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, out, _ = call(capsys, "resolve", COST, "--preset", PRESET, "--json")
    result = tmp_path / "before.json"
    result.write_text(out)
    code, out, _ = call(capsys, "diff", str(result), PRESET, "--target", COST)
    assert code == 0
    assert "no input that it depends on differs" in out


def test_no_shared_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "diff", "llama3_8b_h200_serving", "dense_training_cost_fixture")
    assert code == 2
    assert "hint: name one with --target" in err


def test_other_json_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    code, _, err = call(capsys, "diff", str(other), PRESET)
    assert code == 2
    assert "expected the keys target and trace" in err


def test_sensitivity_lists_the_largest_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "sensitivity", COST, "--preset", PRESET, "--json")
    assert code == 0
    data = json.loads(out)
    swings = [abs(i["target_at_range"][1] - i["target_at_range"][0]) for i in data["inputs"]]
    assert swings == sorted(swings, reverse=True)
    named = {item["input"]: item["elasticity"] for item in data["inputs"]}
    # Electricity is a small part of the cost, and the whole of it scales with the price.
    assert 0 < named["econ.gpu.price"] < 1


def test_sensitivity_says_how_many_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "sensitivity", COST, "--preset", PRESET, "--limit", "3")
    assert code == 0
    assert "3 of " in out


def test_sensitivity_without_inputs_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "sensitivity", COST)
    assert code == 3
    assert "missing input" in out


def test_scenario_that_does_not_fit_is_named_beside_the_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("diff", PRESET, PRESET, "--with", "models/llama-3.1-70b", "--target", COST)
    code, out, _ = call(capsys, *words, "--json")
    assert code == 0
    data = json.loads(out)
    assert data["violated_before"] == []
    assert data["violated_after"] == ["parallelism.fits_memory"]
    _, _, err = call(capsys, *words)
    assert "B: violated: parallelism.fits_memory" in err


def test_both_scenarios_may_take_entries_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    # One of two values that A and B share is changed: it alone carries the difference.
    entry = "accelerators/h200_sxm"
    words = ("diff", PRESET, PRESET, "--with", entry, "--with-first", entry, "--target", COST)
    name = "econ.gpu.price"
    values = ("--assign-first", f"{name}=30000 USD/GPU", "--assign", f"{name}=15000 USD/GPU")
    code, out, _ = call(capsys, *words, *values, "--json")
    assert code == 0
    [carried] = json.loads(out)["contributions"]
    assert carried["label"] == name
    assert carried["amount"] < 0


def test_sensitivity_of_a_job_that_does_not_fit_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sensitivity", COST, "--preset", PRESET, "--with", "models/llama-3.1-70b")
    _, out, _ = call(capsys, *words, "--json")
    assert json.loads(out)["violated"] == ["parallelism.fits_memory"]


def test_answers_are_figures_and_json_has_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("diff", PRESET, PRESET, "--with", "accelerators/h200_sxm", "--target", COST)
    _, out, _ = call(capsys, *words, "--by", "input")
    assert re.match(r"econ.cost.per_token: \$0\.0\d+ to \$0\.0\d+ per million tokens \(", out)
    numbers = re.findall(r"(?<![\w.])[\d.]{2,}(?![\w])", out)
    assert max(len(number.replace(".", "").lstrip("0")) for number in numbers) <= 5
    _, out, _ = call(capsys, "sensitivity", COST, "--preset", PRESET)
    assert "e+" not in out
    _, out, _ = call(capsys, *words, "--json")
    assert len(repr(json.loads(out)["before"])) > 12
