"""Git for tests: the same on every machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Run git as somebody, whatever the machine's configuration says."""
    who = {
        f"GIT_{role}_{part}": "a@b.c"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True,
        env={**os.environ, **who, **nothing},
    )  # fmt: skip
    return done.stdout
