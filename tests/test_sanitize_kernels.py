"""The script that runs kernels under compute-sanitizer: what does not need a GPU."""

import os
import sys
from pathlib import Path

import pytest


def test_a_tool_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    import sanitize_kernels

    noted = tmp_path / "child"
    program = (
        "import subprocess, sys; print('begun', flush=True);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(noted)!r}, 'w').write(str(child.pid)); child.wait()"
    )
    command = [sys.executable, "-c", program]
    assert sanitize_kernels._ended(command, 5.0, dict(os.environ)) == ("begun\n", None)
    status = Path(f"/proc/{noted.read_text()}/status")
    assert not status.exists() or "zombie" in status.read_text()
    command = [sys.executable, "-c", "print('done'); raise SystemExit(3)"]
    assert sanitize_kernels._ended(command, 60.0, dict(os.environ)) == ("done\n", 3)
