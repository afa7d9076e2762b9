"""Work of others is told from our own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.bench.harness import background_load
from assay.bench.harness.background_load import Others


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


STAT = """cpu  100 0 100 1000 50 0 0 0 0 0
cpu0 {user} 5 20 300 40 1 2 3 9 9
cpu1 10000 0 0 0 0 0 0 0 0 0
intr 12345
"""


def test_only_cores_that_we_may_use_are_counted_and_no_idle_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(user=100))
    monkeypatch.setattr(background_load, "_STAT", stat)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("os.sysconf", lambda _: 100)
    # 100 + 5 + 20 + 1 + 2 + 3 ticks of a hundredth of a second.
    assert background_load._busy_seconds() == 1.31


def test_our_own_work_is_not_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is as busy as this process is: nothing is left for others."""
    monkeypatch.setattr(background_load, "_busy_seconds", background_load._own_seconds)
    watch = Others()
    spin(0.2)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert watch.cores() == pytest.approx(0.0, abs=0.02)


def test_what_others_do_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core besides ours is busy all the time."""
    monkeypatch.setattr(
        background_load,
        "_busy_seconds",
        lambda: background_load._own_seconds() + time.perf_counter(),
    )
    watch = Others()
    time.sleep(0.1)
    assert watch.cores() == pytest.approx(1.0, abs=0.05)


def test_a_system_that_does_not_tell_is_not_guessed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_load, "_STAT", tmp_path / "none")
    assert Others().cores() is None
