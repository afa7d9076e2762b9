"""`assay run`: keys, exit codes, bad options, a run that is resumed."""

from pathlib import Path

import pytest

from assay.cli.output import Canvas, unstyled
from assay.cli.run import text
from assay.improve.experiments.result import ExperimentResult
from assay.improve.journal import run_folder
from assay.improve.levers.lever import Candidate
from assay.improve.loop.outcome import Outcome as RunOutcome
from assay.intervals import Interval
from assay.load.workloads.workload import DataSetShape

from .conftest import Cli

KEYS = [
    "run", "verdict", "metric", "baseline", "final", "ratio", "target", "target_met", "kept",
    "undecided", "rejected", "unconfirmed", "data_set", "settings", "launch_command", "report",
    "notes",
]  # fmt: skip
SMALL = ("--model", "synthetic", "--budget", "60s", "--workload", "decode", "--input-tokens", "8",
         "--output-tokens", "8")  # fmt: skip


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs of these tests go to a folder of their own; calibrations are not made here."""
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    monkeypatch.setattr("assay.runs.optimize._calibrate", _uncalibrated)
    return tmp_path


def _uncalibrated(*_: object) -> None:
    from assay.errors import InputError

    raise InputError("cpu of this machine is not calibrated")


def test_a_dry_run_says_what_it_would_try(cli: Cli, scratch: Path) -> None:
    outcome = cli("run", *SMALL, "--from", "plain", "--dry-run", "--json")
    assert outcome.code == 0
    data = outcome.data
    assert list(data) == KEYS
    assert data["verdict"] == "diagnosed only"
    assert Path(data["run"]).parent == scratch / "runs"
    assert data["settings"]["threads"] == 1
    assert data["launch_command"].startswith("assay serve synthetic")
    assert "from a plain configuration (threads 1, graph_buckets 0, max_batch 1)" in outcome.err
    assert Path(data["report"]).is_file()
    assert cli("verify-report", data["run"]).code == 0


def test_the_verdict_is_the_first_word(cli: Cli) -> None:
    outcome = cli("run", *SMALL, "--dry-run")
    assert outcome.out.startswith("diagnosed only: output_throughput\n")
    assert "assay verify-report " in outcome.out


def test_a_gain_that_was_not_confirmed_stands_under_a_heading_of_its_own() -> None:
    events = DataSetShape("a data set of 20,000 events", "events", 20_000, "ns/event", 5e4, True)
    wins, fails = (
        ExperimentResult(
            name, Candidate(name, (name,), {name: 2}, "bitwise", "safe", True), verdict,
            Interval(ratio, ratio - 0.1, ratio + 0.1), "slower",
        )
        for name, verdict, ratio in (("levels", "improved", 2.2), ("lookup", "regressed", 0.7))
    )  # fmt: skip
    outcome = RunOutcome(
        Path("run"), "undecided", "request_throughput", Interval(500.0, 400.0, 600.0), None, None,
        rejected=(fails,), unconfirmed=(wins,), data_set=events, notes=("said before", "new"),
    )  # fmt: skip
    lines = [unstyled(line).rstrip() for line in text(outcome, Canvas(100), said=["said before"])]
    assert "before     500 requests/s (400 to 600), 100 ns/event" in lines
    assert "a request  a data set of 20,000 events" in lines
    assert any(line.startswith("unproven   levels: 2.20x") for line in lines), lines
    assert any(line.startswith("rejected   lookup: slower") for line in lines), lines
    # What has been said on stderr is not said again.
    assert "  new" in lines
    assert not any("said before" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget", "10s"), "budget: expected at least 60 s, got 10 s"),
        (("--budget", "soon"), "--budget: expected a duration, got 'soon'"),
        (("--target", "0%"), "--target: expected a share above 0"),
        (("--target", "15"), "--target: expected a percentage, or a number of at most 1, got '15'"),
        (("--concurrency", "0"), "concurrency: expected at least 1, got 0"),
        (("--slo", "ttft=1parsec"), "--slo ttft: expected a duration, got '1parsec'"),
        (("--knob", "threads"), "--knob: expected NAME=VALUE, got 'threads'"),
        (("--max-out", "2"), "--max-out: expected it with --replicas URL,URL,..., got it without"),
        (("--replicas", "http://a,http://b"), "--model: expected it without --replicas, got both"),
        (("--from", "scratch"), 'unknown start "scratch"'),
        (("--max-risk", "any"), 'unknown risk "any"'),
        (("--workload", "chats"), "workload: expected a name or a file of requests, got 'chats'"),
        (("--workload", "chat", "--load", "x.jsonl"), "expected --workload or --load, got both"),
        (("--restart", "serve {settings}"), "--restart: expected it with --engine URL"),
        (("--engine", "http://127.0.0.1:9", "--from", "plain"), "--from plain: expected --engine"),
        (("--only", "threads", "--skip", "threads"), "threads: expected it in only or in skip"),
        (("--top-n", "0"), "top-n: expected 1 or more, got 0"),
        (("--resume", "none-such"), 'unknown run "none-such"'),
        (("--resume", "STORED", "--dry-run"), "--dry-run: expected it without --resume, got both"),
        (("--price", "much"), "price: expected USD an hour"),
        (("--metric", "speed"), 'unknown metric of --metric "speed"'),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(
    cli: Cli, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("a model is loaded before its options are checked")

    monkeypatch.setattr("assay.engine.Engine.load", load)
    stored = run_folder.create("assay decode")
    outcome = cli(
        "run", "--model", "synthetic", *(word.replace("STORED", stored.id) for word in words)
    )
    assert outcome.code == 2
    assert outcome.out == ""
    lines = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert message in lines[0]


def test_an_unknown_lever_is_exit_code_2_and_leaves_no_run(cli: Cli, scratch: Path) -> None:
    outcome = cli("run", *SMALL, "--only", "treads", "--dry-run")
    assert outcome.code == 2
    assert 'error: unknown lever "treads"' in outcome.err
    assert not (scratch / "runs").exists()


@pytest.mark.slow
def test_a_run_is_kept_verified_resumed_and_rolled_back(cli: Cli) -> None:
    """Two threads, a batch and graphs beat one thread, one request and none on any machine."""
    outcome = cli("run", *SMALL, "--concurrency", "4", "--from", "plain", "--json")
    data = outcome.data
    assert (outcome.code, data["verdict"]) == (0, "improved")
    assert data["ratio"]["lo"] > 1.0
    assert data["settings"] != {}
    assert cli("verify-report", data["run"]).code == 0
    again = cli("run", "--resume", data["run"], "--budget", "60s", "--json").data
    assert again["run"] == data["run"]
    assert again["verdict"] == "improved"
    assert cli("verify-report", data["run"]).code == 0
    assert cli("rollback", data["run"]).code == 0


FLEET = ("run", "--replicas", "http://127.0.0.1:9,http://127.0.0.1:10", "--workload", "decode")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--replicas: expected --promote RUN or --change NAME=VALUE, got neither"),
        (("--change", "threads=2"), "--replicas: expected --restart with the command of a replica"),
        (("--change", "threads=2", "--max-out", "0"), "--max-out: expected 1 or more, got 0"),
        (("--promote", "latest"), 'unknown run "latest": no runs are stored'),
        (
            ("--change", "a=1", "--watch-for", "soon"),
            "--watch-for: expected a duration, got 'soon'",
        ),
        (("--change", "a=1", "--resume", "latest"), "--resume: expected it without --replicas"),
    ],
)
def test_bad_options_of_a_fleet(cli: Cli, words: tuple[str, ...], message: str) -> None:
    outcome = cli(*FLEET, *words)
    assert outcome.code == 2
    assert message in outcome.err


def test_replicas_that_do_not_answer_are_named(cli: Cli) -> None:
    words = ("--change", "threads=2", "--restart", "assay serve synthetic --port {port} {settings}")
    outcome = cli(*FLEET, *words, "--json")
    assert outcome.code == 2
    assert outcome.data["verdict"] == "refused"
    assert outcome.err.startswith("error: http://127.0.0.1:9: expected a server that answers")
    assert not any("hint:" in note for note in outcome.data["notes"])
    shown = cli("runs", "show", outcome.data["run"])
    assert shown.code == 0
    assert "refused" in shown.out
    assert "0 of 0" not in cli("rollback", outcome.data["run"]).out
