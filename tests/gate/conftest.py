"""Servers, repositories and command lines of gates."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gate_repositories import git

SCRIPT = Path(__file__).with_name("scripted_server.py")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs of these tests are stored for themselves."""
    folder = tmp_path / "scratch"
    monkeypatch.setenv("ASSAY_SCRATCH", str(folder))
    return folder


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Gets the process of every start of a server."""
    return tmp_path / "pids"


@pytest.fixture
def serve(pids: Path) -> Callable[[str], str]:
    """The command of a scripted server with options."""
    # Without site-packages: it starts in a tenth of a second.
    return lambda options="": (
        f"{sys.executable} -S -E {SCRIPT} --port {{port}} --pids {pids} {options}"
    )


@pytest.fixture
def none_left(pids: Path) -> Callable[[], bool]:
    """Whether every server that was started is gone."""

    def check() -> bool:
        started = [int(line) for line in pids.read_text().split()] if pids.exists() else []
        return not [pid for pid in started if Path(f"/proc/{pid}").exists()]

    return check


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., Path]:
    """Makes a repository with a commit for each speed, tagged v0, v1 ..."""

    def make(*speeds: str) -> Path:
        folder = tmp_path / "repository"
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=main")
        for number, speed in enumerate(speeds):
            (folder / "speed.txt").write_text(speed)
            git(folder, "add", "speed.txt")
            git(folder, "commit", "--quiet", "--allow-empty", "-m", f"Speed {speed}, step {number}")
            git(folder, "tag", f"v{number}")
        return folder

    return make
