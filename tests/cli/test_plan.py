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


def test_what_was_not_said_is_said_as_assumed(cli: Cli) -> None:
    """The limits are those of MLPerf's loadgen/mlperf.conf: llama2-70b.Server, 2000 and 200 ms."""
    data = cli(*ASKED, "--users", "6000", "--every", "5m", "--json").data
    assert data["traffic"]["peak_rate"] == pytest.approx(20.0)
    assert data["objective"] == "ttft <= 2000 ms, tpot <= 200 ms for 99 % of the requests"
    assert data["assumed"][0].startswith("--slo ttft=2s,tpot=200ms,p=99%")
    assert data["assumed"][1:3] == ["--input-tokens 1024", "--output-tokens 128"]
    assert "rented at 4.59 USD/h a GPU" in data["best"]["terms"]


def test_the_most_within_a_budget_of_power_uses_it_up(cli: Cli) -> None:
    best = cli(*ASKED, "--rate", "max", "--max-power", "100", "--json").data["best"]
    each = best["rated_watts"] / best["replicas"]
    assert best["rated_watts"] <= 100e3 < best["rated_watts"] + each
    text = cli(*ASKED, "--rate", "max", "--max-power", "100").out
    assert "the most within the budgets" in " ".join(text.split())
    assert "second best: none" in text


def test_limits_have_a_cost_each(cli: Cli) -> None:
    text = cli(*ASKED, "--rate", "40", "--by-slo").out
    rows = [line.split() for line in text.splitlines() if re.match(r" *\d+ ms", line)]
    # One GPU at 4 ms a token is beyond what the memory of an H200 allows.
    assert rows[0][:3] == ["4", "ms", "-"]
    costs = [float(row[-2].lstrip("$")) for row in rows if row[-1] != "-"]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.slow
def test_a_mixed_fleet_keeps_the_gpus_that_there_are(cli: Cli) -> None:
    asked = ("plan", "--model", "llama-3.1-8b=0.5,qwen3-8b=50%", "--tensor", "1", "--rate", "60")
    text = cli(*asked, "--gpu", "h100:2,h200:9", *LEVEL).out
    assert "GPUs at the peak" in text
    assert "floor of qwen3-8b" in text
    assert "second best at the peak: " in text
    used = {"h100_sxm": 0, "h200_sxm": 0}
    best, _, _ = text.partition("second best")
    for number, gpu in re.findall(r"(\d+) x (h[12]00_sxm) TP1", best):
        used[gpu] += int(number)
    assert used["h100_sxm"] == 2
    assert 0 < used["h200_sxm"] <= 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LEVEL, "expected recorded requests, --rate or --users, got none of them"),
        (("--by-slo", *LEVEL), "--by-slo: expected --rate without"),
        (("--users", "5"), "expected --every beside the other of --users and --every"),
        (("--users", "5", "--every", "1m", "--rate", "3"), "expected it without --rate, got both"),
        (("--rate", "max"), "--rate max: expected a budget, got none"),
        (("--rate", "max", "--max-power", "0.5"), "within the budgets"),
        (("--rate", "5", "--input-tokens", "90000"), "99 % of the requests: "),
        (("--rate", "5", "--slo", "tpot=1ms"), "tpot <= 1 ms is missed by 100 %"),
        (("--rate", "0", *LEVEL), "--rate: expected requests per second above 0"),
        (("--rate", "5", *LEVEL, "--risk", "0%"), "--risk: expected a share above 0"),
        (("--rate", "5", *LEVEL, "--minimize", "time"), 'unknown figure of --minimize "time"'),
        (("--rate", "5", *LEVEL, "--routing", "near"), "--routing: expected any or prefix"),
        (("--rate", "90", *LEVEL, "--max-gpus", "1"), "keeps the budgets"),
        (("--rate", "5", *LEVEL, "--tensor", "two"), "--tensor: expected numbers"),
        (("--rate", "5", *LEVEL, "--model", "llama-3.1-8b=0.5,qwen3-8b=0.4"), "add up to 100 %"),
        (("--rate", "5", *LEVEL, "--mixed", "--gpu", "h200:0"), "within the budgets"),
        (("--rate", "5", *LEVEL, "--model", "llama-3.1-8b,qwen3-8b"), "expected MODEL=SHARE"),
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


def test_spares_are_paid_and_months_grow(cli: Cli) -> None:
    asked = (*ASKED, "--rate", "40", *LEVEL, "--json")
    without = cli(*asked).data["best"]
    data = cli(*asked, "--spare", "1", "--growth", "50%", "--months", "3").data
    best = data["best"]
    assert best["replicas"] == without["replicas"] + 1
    assert best["latencies"] == without["latencies"]
    each = without["usd_per_hour"] / without["replicas"]
    assert best["usd_per_hour"] == pytest.approx(without["usd_per_hour"] + each)
    # Three months of 50 % are 3.375 times the traffic.
    assert data["growth"][3]["peak_rate"] == pytest.approx(40 * 1.5**3)
    gpus = [row["gpus"] for row in data["growth"]]
    assert gpus == sorted(gpus)
    assert gpus[0] == best["gpus"] < gpus[-1]


def test_options_are_rows_of_a_spreadsheet(cli: Cli) -> None:
    done = cli(*ASKED, "--rate", "40", *LEVEL, "--csv", "options")
    header, row = done.out.splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert (cells["gpu"], cells["layout"]) == ("h200_sxm", "TP1")
    assert float(cells["ttft_p99_s"]) < 1.0
    for words in (("--csv", "growth"), ("--csv", "options", "--json")):
        assert cli(*ASKED, "--rate", "40", *LEVEL, *words).code == 2


def test_a_limit_without_a_unit_is_said_to_be_milliseconds(cli: Cli) -> None:
    done = cli(*ASKED, "--rate", "5", "--slo", "ttft=1,tpot=50ms")
    assert "hint: --slo ttft=1 is in milliseconds; ttft=1s is in seconds" in done.err
    text = cli(*ASKED, "--rate", "5", "--slo", "ttft=1000,tpot=50ms").out
    assert "--slo ttft=1000 in milliseconds" in text


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
    assert re.search(r"cost +\$\d\d,\d\d\d, \$\d\.\d\d a GPU-hour; owned: bought at ", text)
    assert "no run uses" in text
    (option, *_) = cli(*asked, "--days", "30", "--json").data["options"]
    figures = option["figures"]
    assert figures["gpu_hours"] >= figures["gpus"] * figures["seconds"] / 3600 * 0.999
    assert figures["gpu_hours"] <= figures["gpus"] * figures["seconds"] / 3600 * 1.2
    assert "spares       UNKNOWN: needs how long a failed node is away" in text


def test_a_training_run_needs_its_days(cli: Cli) -> None:
    done = cli("plan", "--train", "llama-3.1-8b", "--tokens", "1T")
    assert done.code == 2
    assert "expected --days, got none" in done.err
