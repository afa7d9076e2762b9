"""assay runs list, show, compare; assay rollback; runs that were cut short."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from knob_engine import KnobEngine

from assay.improve.journal import active, run_folder
from assay.improve.journal.journal import NAME, Journal, verify
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.intervals import Interval

SUMMARY_KEYS = [
    "run", "path", "status", "started_at", "seconds", "command", "engine", "model", "device",
    "workload", "verdict", "metric", "baseline", "final", "ratio", "kept", "experiments", "blocks",
    "changes_in_force", "journal",
]  # fmt: skip


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    return tmp_path / "runs"


def finished(subject: str, gpu: str = "H200", threads: int = 2) -> RunFolder:
    run = run_folder.create(subject)
    with Journal.create(run.path) as journal:
        journal.append("started", command="assay run", engine="assay", workload="decode")
        journal.append("fingerprint", model="m", hardware={"gpu": gpu})
        engine = JournaledEngine(KnobEngine(threads=1, batch=8), journal, run)
        engine.configure({"threads": threads})
        journal.append(
            "verdict",
            experiment="01 threads",
            verdict="improved",
            ratio=Interval(1.5, 1.4, 1.6),
            reason="the interval lies above 1",
        )
        engine.declare_safe("confirmed")
        settings = dict(engine.settings())
        journal.append("degradation", text="no power was measured")
        journal.append(
            "finished",
            verdict="improved",
            metric="output_throughput",
            baseline=Interval(100.0, 99.0, 101.0),
            final=Interval(150.0, 149.0, 151.0),
            ratio=Interval(1.5, 1.4, 1.6),
            kept=[{"lever": ["threads"], "changes": {"threads": threads}}],
            settings=settings,
            hash=configuration_hash(settings),
        )
    return run


def interrupted() -> RunFolder:
    run = run_folder.create("cut")
    with Journal.create(run.path) as journal:
        journal.append("started", command="assay run")
        JournaledEngine(KnobEngine(threads=1), journal, run).configure({"threads": 2})
    return run


def test_no_runs(cli: Any) -> None:
    outcome = cli("runs", "list")
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "no stored runs")
    assert cli("runs", "list", "--json").data["runs"] == []
    for words in (("runs", "show", "latest"), ("rollback", "latest")):
        refused = cli(*words)
        assert refused.code == 2
        assert 'error: unknown run "latest": no runs are stored' in refused.err
        assert "hint: assay run makes one" in refused.err


def test_a_listing(cli: Any) -> None:
    run = finished("decode")
    cut = interrupted()
    outcome = cli("runs", "list")
    assert outcome.code == 0
    assert "2 stored" in outcome.out
    assert "1.500x (1.400 to 1.600)" in outcome.out
    rows = {row["run"]: row for row in cli("runs", "list", "--json").data["runs"]}
    assert list(rows[run.id]) == SUMMARY_KEYS
    assert (rows[run.id]["status"], rows[cut.id]["status"]) == ("finished", "interrupted")
    assert (rows[run.id]["changes_in_force"], rows[cut.id]["changes_in_force"]) == (0, 1)
    assert rows[run.id]["kept"] == ["threads=2"]
    assert rows[cut.id]["verdict"] is None


def test_one_run(cli: Any) -> None:
    run = finished("decode")
    outcome = cli("runs", "show", run.id)
    assert outcome.code == 0
    for text in (
        "01 threads  improved  1.500x (1.400 to 1.600)",
        "baseline  output throughput 100.0 tokens/s (99.00 to 101.0)",
        "threads  1      2",
        "degraded: no power was measured",
        "9 records, chain intact",
    ):
        assert text in outcome.out
    data = cli("runs", "show", run.id, "--json").data
    more = ["fingerprint", "start", "settings", "verdicts", "rollbacks", "degradations", "files"]
    assert list(data) == [*SUMMARY_KEYS, *more]
    assert data["settings"] == {"batch": 8, "threads": 2}
    assert "journal.jsonl" in data["files"]


def test_an_interrupted_run_says_how_to_go_on(cli: Any) -> None:
    run = interrupted()
    outcome = cli("runs", "show", run.id)
    assert outcome.code == 0
    assert f"assay run --resume {run.id}" in outcome.err


def test_an_edited_journal_is_named(cli: Any) -> None:
    run = finished("decode")
    path = run.path / NAME
    path.write_bytes(path.read_bytes().replace(b'"verdict":"improved"', b'"verdict":"improvee"', 1))
    outcome = cli("runs", "show", run.id)
    assert outcome.code == 2
    assert "does not verify: line 6: its hash is not that of its content" in outcome.err
    assert cli("runs", "list", "--json").data["runs"][0]["status"] == "damaged"


def test_two_runs(cli: Any) -> None:
    one, other = finished("one"), finished("other", gpu="H100", threads=4)
    outcome = cli("runs", "compare", one.id, other.id)
    assert outcome.code == 0
    assert "hardware.gpu" in outcome.err
    assert "not comparable" in outcome.err
    data = cli("runs", "compare", one.id, other.id, "--json").data
    assert list(data) == [
        "runs", "same_fingerprint", "fingerprint", "start", "settings", "metric", "figures",
        "verdict", "kept", "status", "notes",
    ]  # fmt: skip
    assert data["fingerprint"] == {"hardware.gpu": ["H200", "H100"]}
    assert (data["start"], data["settings"]) == ({}, {"threads": [2, 4]})
    same = cli("runs", "compare", one.id, finished("third").id, "--json").data
    assert same["same_fingerprint"] is True
    assert "notes" not in same


def test_rolling_back_a_finished_run(cli: Any) -> None:
    run = finished("decode")
    data = cli("rollback", run.id, "--json").data
    assert list(data) == [
        "run", "action", "statement", "settings", "hash", "journal_intact", "problems",
    ]  # fmt: skip
    assert (data["action"], data["settings"]) == ("stored", {"threads": 1, "batch": 8})
    assert data["hash"] == configuration_hash({"threads": 1, "batch": 8})
    assert run.read_json("configuration.json")["settings"] == {"threads": 1, "batch": 8}
    assert verify(run.path).records[-1].data["by"] == "assay rollback"
    assert cli("runs", "show", run.id, "--json").data["status"] == "rolled back"
    again = cli("rollback", run.id)
    assert again.code == 0
    assert "nothing was kept that could be undone" in again.out


def test_a_run_under_way_is_not_rolled_back(cli: Any) -> None:
    run = interrupted()
    active.mark(run, os.getpid(), None)
    outcome = cli("rollback", run.id)
    assert outcome.code == 2
    assert f"run {run.id} is under way" in outcome.err
    assert cli("runs", "list", "--json").data["runs"][0]["status"] == "under way"


def test_the_next_command_ends_a_run_that_nobody_attends(cli: Any, runs: Path) -> None:
    run = interrupted()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    active.mark(run, ended.pid, None)
    outcome = cli("rollback", run.id)
    assert outcome.code == 0
    assert "cut short together with its watchdog" in outcome.err
    assert not (runs / "active").exists()
    assert [one.kind for one in verify(run.path).records[-3:]] == [
        "reverting",
        "reverted",
        "recovered",
    ]


def test_without_runs_under_way_a_command_looks_once(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: looked.append(str(path)) or exists(path))
    monkeypatch.setitem(sys.modules, "assay.runs.abandoned", None)
    assert cli("runs", "list").code == 0
    assert [path for path in looked if path.endswith("runs/active")] == looked[:1]


def test_a_marker_that_is_none_is_left_alone(cli: Any, runs: Path) -> None:
    (runs / "active").mkdir(parents=True)
    (runs / "active" / "x.json").write_text(json.dumps({"other": 1}))
    assert cli("runs", "list").code == 0
    assert (runs / "active" / "x.json").exists()
