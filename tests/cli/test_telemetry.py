"""`assay telemetry`: what it prints, its keys, its errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SINK = ("name", "offered", "acknowledged", "backlog", "dropped", "rejected", "retries", "error")
KEYS = [
    "run",
    "rate_hz",
    "fast_only",
    "samples",
    "missed_ticks",
    "devices",
    "sinks",
    "missing",
    "wall_seconds",
    "cpu_seconds",
    "core_share",
    "process_core_share",
    "cpu_seconds_by_field",
]


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that happen to run on this machine are not part of the tests."""
    monkeypatch.setattr("assay.observe.telemetry.sources.endpoint.LOCAL_PORTS", ())
    monkeypatch.setattr("assay.observe.telemetry.sources.discovery.find_endpoints", lambda gaps: [])


def test_record_reports_cost_sinks_and_what_is_missing(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = cli(
        "telemetry", "record", "--sink", f"jsonl:{path}", "--duration", "0.4", "--rate", "20",
        "--run", "r", "--workload", "w", "--phase", "decode", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    data = outcome.data
    assert [key for key in data if key != "notes"] == KEYS
    assert data["fast_only"]
    assert data["samples"] > 0
    (sink,) = data["sinks"]
    assert tuple(sink) == SINK
    assert sink["acknowledged"] == sink["offered"] == data["samples"]
    assert all(tuple(one) == ("source", "device", "field", "reason") for one in data["missing"])
    assert "host.cores" in data["cpu_seconds_by_field"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found = [row for row in rows if row["record"] == "sample"]
    assert {(row["run"], row["workload"], row["phase"]) for row in found} == {("r", "w", "decode")}


def test_record_in_words(cli: Any, tmp_path: Path) -> None:
    outcome = cli(
        "telemetry", "record", "--sink", f"jsonl:{tmp_path}/a", "--duration", "0.2", "--rate", "2"
    )
    assert outcome.code == 0, outcome.err
    assert "of a core" in outcome.out
    assert "acknowledged" in outcome.out


def test_watch_once_shows_every_device(cli: Any) -> None:
    outcome = cli("telemetry", "watch", "--once", "--rate", "2")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("host ")
    assert "busiest core" in outcome.out


def test_watch_json_is_a_line_a_sample(cli: Any) -> None:
    outcome = cli("telemetry", "watch", "--json", "--rate", "10", "--duration", "0.5")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert len(rows) >= 2
    assert all(row["source"] == "host" for row in rows)
    (last,) = cli("telemetry", "watch", "--json", "--once", "--rate", "2").out.splitlines()
    assert json.loads(last)["tick"] >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("record", "--sink", "pigeon"), 'unknown sink "pigeon"'),
        (("record", "--rate", "100"), "rate: expected more than 0 and at most 50 Hz, got 100"),
        (("record", "--sink", "prometheus:x"), 'sink prometheus: expected a port, got "x"'),
        (("record", "--endpoint", "nowhere"), 'endpoint "nowhere": expected a URL'),
        (("watch", "--rate", "0"), "rate: expected more than 0"),
    ],
)
def test_bad_input_is_one_line(cli: Any, words: tuple[str, ...], message: str) -> None:
    outcome = cli("telemetry", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err.splitlines()[0]


@pytest.mark.slow
def test_sigterm_ends_a_recording_with_everything_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = subprocess.Popen(
        [sys.executable, "-m", "assay", "telemetry", "record", "--sink", f"jsonl:{path}", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ASSAY_SCRATCH": str(tmp_path)},
    )
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text().count('"sample"') >= 2):
        assert time.monotonic() < end
        time.sleep(0.1)
    program.send_signal(signal.SIGTERM)
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    data = json.loads(out)
    rows = [json.loads(line)["record"] for line in path.read_text().splitlines()]
    assert rows.count("sample") == data["samples"]
    assert rows[-1] == "summary"
