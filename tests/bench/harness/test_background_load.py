"""Background load is told apart from our own CPU time."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.bench.harness import background_load
from assay.bench.harness.background_load import BackgroundLoad


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


STAT = """cpu  100 0 100 1000 50 0 0 0 0 0
cpu0 {user} 5 20 300 40 1 2 3 9 9
cpu1 10000 0 0 0 0 0 0 0 0 0
intr 12345
"""


def test_busy_seconds_count_usable_cores_without_idle_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(user=100))
    monkeypatch.setattr(background_load, "_STAT", stat)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("os.sysconf", lambda _: 100)
    # 100 + 5 + 20 + 1 + 2 + 3 ticks of a hundredth of a second.
    assert background_load._busy_seconds() == 1.31


def test_own_cpu_time_is_not_background_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is as busy as this process: no background load remains."""
    monkeypatch.setattr(background_load, "_busy_seconds", background_load._own_seconds)
    load = BackgroundLoad()
    spin(0.2)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert load.cores() == pytest.approx(0.0, abs=0.02)


def test_one_busy_core_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process keeps one core busy for the four seconds of the run, ours three of them."""
    clock, own = [100.0], [7.0]
    monkeypatch.setattr(background_load, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(background_load, "_own_seconds", lambda: own[0])
    monkeypatch.setattr(background_load, "_busy_seconds", lambda: clock[0] + own[0])
    load = BackgroundLoad()
    clock[0] += 4.0
    own[0] += 3.0
    assert load.cores() == pytest.approx(1.0)


def test_load_is_unknown_without_proc_stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_load, "_STAT", tmp_path / "none")
    assert BackgroundLoad().cores() is None
