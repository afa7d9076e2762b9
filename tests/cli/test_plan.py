"""`assay plan`: text, JSON, and what it refuses in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Cli

ASKED = ("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--tensor", "1")
LEVEL = ("--slo", "ttft=1s,tpot=50ms,p=99%")


def test_plan_says_gpus_cost_floor_and_risk(cli: Cli) -> None:
    done = cli(*ASKED, "--rate", "40", *LEVEL)
    for words in (
        "GPUs: ",
        "x h200_sxm TP1",
        "floor",
        "USD/h",
        "J/token",
        "% that the SLO is missed",
    ):
        assert words in done.out, words


def test_simulated_plan_is_in_the_json(cli: Cli) -> None:
    data = cli(*ASKED, "--rate", "40", *LEVEL, "--simulate", "--json").data
    assert data["best"]["gpus"] >= data["floors"][0]["gpus"]
    assert data["simulation"]["requests"] > 10_000
    assert data["best"]["latencies"]["first_token"]["p99"]["value"] < 1.0


@pytest.mark.slow
def test_a_mixed_fleet_keeps_the_gpus_that_there_are(cli: Cli) -> None:
    asked = ("plan", "--model", "llama-3.1-8b=0.5,qwen3-8b=50%", "--tensor", "1", "--rate", "60")
    text = cli(*asked, "--gpu", "h100:2,h200:9", *LEVEL).out
    assert "GPUs at the peak" in text
    used = {"h100_sxm": 0, "h200_sxm": 0}
    for number, gpu in re.findall(r"(\d+) x (h[12]00_sxm) TP1", text):
        used[gpu] += int(number)
    assert used["h100_sxm"] == 2
    assert 0 < used["h200_sxm"] <= 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LEVEL, "expected recorded requests or --rate, got neither"),
        (("--rate", "5"), "expected --slo, got none"),
        (("--rate", "5", "--slo", "tpot=1ms"), "tpot <= 1 ms is missed by 100 %"),
        (("--rate", "0", *LEVEL), "--rate: expected requests per second above 0"),
        (("--rate", "5", *LEVEL, "--risk", "0%"), "--risk: expected a share above 0"),
        (("--rate", "5", *LEVEL, "--minimize", "time"), 'unknown figure of --minimize "time"'),
        (("--rate", "5", *LEVEL, "--routing", "near"), "--routing: expected any or prefix"),
        (("--rate", "90", *LEVEL, "--max-gpus", "1"), "keeps the budgets"),
        (("--rate", "5", *LEVEL, "--tensor", "two"), "--tensor: expected numbers"),
        (("--rate", "5", *LEVEL, "--model", "llama-3.1-8b=0.5,qwen3-8b=0.4"), "add up to 100 %"),
        (("--rate", "5", *LEVEL, "--mixed", "--gpu", "h200:0"), "within the budgets"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_what_cannot_be_planned_is_one_line(
    cli: Cli, options: tuple[str, ...], message: str
) -> None:
    done = cli(*ASKED, *options)
    assert done.code == 2
    first, *rest = done.err.splitlines()
    assert message in first
    assert all(line.startswith("hint:") for line in rest)


def test_an_empty_trace_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    done = cli(*ASKED, str(tmp_path / "none.jsonl"), *LEVEL)
    assert done.code == 2
    assert "got an empty file" in done.err


@pytest.mark.slow
def test_a_training_run_says_what_is_unknown(cli: Cli) -> None:
    asked = ("plan", "--train", "llama-3.1-8b", "--tokens", "1T", "--gpu", "h100")
    text = cli(*asked, "--days", "30").out
    assert "x h100_sxm: tensor" in text
    assert "spares       UNKNOWN: needs how long a failed node is away" in text


def test_a_training_run_needs_its_days(cli: Cli) -> None:
    done = cli("plan", "--train", "llama-3.1-8b", "--tokens", "1T")
    assert done.code == 2
    assert "expected --days, got none" in done.err
