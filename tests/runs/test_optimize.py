"""`assay.optimize` is `assay run`: the same engine, workload, plan and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.app import run
from assay.engine import Engine
from assay.errors import AssayError, InputError
from assay.improve.journal import active, journal as journals, run_folder
from assay.improve.loop.outcome import Outcome
from assay.load.workloads.builtin import workload
from assay.report.verify import verify

SMALL = {"workload": "decode", "input_tokens": 8, "output_tokens": 8, "dry_run": True}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs of these tests go to a folder of their own; calibrations are not made here."""
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))

    def uncalibrated(*_: object) -> None:
        raise InputError("cpu of this machine is not calibrated")

    monkeypatch.setattr("assay.runs.optimize._calibrate", uncalibrated)
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Path]:
    """The folder of a run that the command makes."""

    def run_folder_of(*words: str) -> Path:
        capsys.readouterr()
        assert run(("run", *words, "--json")) == 0
        return Path(json.loads(capsys.readouterr().out)["run"])

    return run_folder_of


def plan(run: Path) -> dict[str, Any]:
    """What a run planned, without what was measured."""
    data = json.loads((run / "plan.json").read_text())
    return {
        "objective": data["objective"],
        "candidates": sorted(candidate["name"] for candidate in data["candidates"]),
        "skipped": sorted(left["lever"] for left in data["skipped"]),
    }


def started(run: Path) -> dict[str, Any]:
    """What a run began with, without how it was called."""
    record = journals.read(run).of("started")[0].data
    return {name: value for name, value in record.items() if name != "command"}


def test_the_command_and_the_function_make_the_same_run(command: Callable[..., Path]) -> None:
    words = ("--model", "synthetic", "--budget", "60s", "--workload", "decode", "--input-tokens",
             "8", "--output-tokens", "8", "--knob", "threads=1", "--dry-run")  # fmt: skip
    by_command = command(*words)
    by_function = assay.optimize(
        budget="60s", model="synthetic", knobs={"threads": 1}, use_history=False, **SMALL
    ).run
    left, right = started(by_command), started(by_function)
    assert left.pop("options") != right.pop("options")  # The second leaves history out.
    assert left == right
    assert plan(by_command) == plan(by_function)
    requests = [(run / "workload.jsonl").read_bytes() for run in (by_command, by_function)]
    assert requests[0] == requests[1]
    assert verify(by_function).is_verified


def test_an_engine_of_the_program_gets_the_same_workload(command: Callable[..., Path]) -> None:
    words = ("--model", "synthetic", "--budget", "60s", "--workload", "chat", "--dry-run")
    by_command = command(*words)
    with Engine.load("synthetic") as engine:
        outcome: Outcome = assay.optimize(engine, budget=60, dry_run=True)
    requests = [(run / "workload.jsonl").read_bytes() for run in (by_command, outcome.run)]
    assert requests[0] == requests[1]
    assert plan(by_command)["objective"] == plan(outcome.run)["objective"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 10}, "budget: expected at least 60 s, got 10 s"),
        ({"dry_runs": True}, 'unknown option "dry_runs"'),
        ({"start": "scratch"}, 'unknown start "scratch"'),
        ({"only": ("treads",)}, 'unknown lever "treads"'),
        ({"price": "much"}, "price: expected USD an hour"),
        ({"workload": workload("decode"), "concurrency": 2}, "concurrency: expected it in the"),
    ],
)
def test_bad_options_are_refused_before_a_model_is_loaded(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("a model is loaded before its options are checked")

    monkeypatch.setattr("assay.engine.Engine.load", load)
    with pytest.raises(AssayError, match=message):
        assay.optimize(model="synthetic", **options)


def test_runs_that_were_cut_short_are_ended_first(scratch: Path) -> None:
    run = run_folder.create("cut short")
    active.mark(run, 2**22 + 1, None)
    with pytest.raises(InputError, match="expected a name or a file"):
        assay.optimize(model="synthetic", workload="chats")
    assert not (scratch / "runs" / "active").exists()
