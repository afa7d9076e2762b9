"""`scripts/record_vllm_grid.py` on servers that start in simulated time, one of which is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted_engine import planted_workload
from slow_start_engine import SlowStartEngine

import record_vllm_grid

pytestmark = pytest.mark.usefixtures("without_fsync")

POINTS = ({"a": 1}, {"b": 1}, {"c": 1})


def record(engine: SlowStartEngine, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_vllm_grid, "POINTS", POINTS)
    monkeypatch.setattr(record_vllm_grid, "open_engine", lambda *_, **more: engine)
    monkeypatch.setattr(record_vllm_grid, "workload_for", lambda *_, **more: planted_workload())
    monkeypatch.setattr("sys.argv", ["record", "model", str(out), "--run", "batch"])
    record_vllm_grid.main()


def engine(**more: object) -> SlowStartEngine:
    return SlowStartEngine(hot=False, noise=0.0, effect=lambda settings: 1.0, **more)  # type: ignore[arg-type]


def test_a_whole_grid_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(engine(), tmp_path / "grid.json", monkeypatch)
    data = json.loads((tmp_path / "grid.json").read_text())
    # Two waves: both defaults with two points, then the defaults with the third; four rounds of each.
    assert len(data["visits"]) == 4 * (4 + 2)
    assert "missing" not in data
    assert "not measured" not in capsys.readouterr().out


def test_blocks_before_a_server_is_lost_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = engine()
    # Prompts are counted once; of each wave a window that sizes blocks and a round that warms up come first. It
    # ends with the first window of the last round.
    planted.dies_at = 1 + (1 + 5 * 4) + (1 + 4 * 2) + 1
    with pytest.raises(SystemExit) as ended:
        record(planted, tmp_path / "grid.json", monkeypatch)
    assert ended.value.code == 4
    data = json.loads((tmp_path / "grid.json").read_text())
    assert len(data["visits"]) == 4 * 4 + 3 * 2
    assert [(row["wave"], row["point"], row["rounds"]) for row in data["missing"]] == [
        (1, "defaults", 1),
        (1, "c=1", 1),
    ]
    printed = capsys.readouterr()
    assert "a=1" in printed.out
    assert "c=1                                      not measured: 1 of 4 rounds" in printed.out
    assert printed.err.splitlines()[-1].startswith("error: ")


def test_a_server_that_does_not_start_lacks_its_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = engine(fails=lambda settings: "OOM" if settings["b"] else None)
    record(fails, tmp_path / "grid.json", monkeypatch)
    data = json.loads((tmp_path / "grid.json").read_text())
    assert [(row["point"], row["rounds"]) for row in data["missing"]] == [("b=1", 4)]
