"""The script that runs kernels under compute-sanitizer: the parts that need no GPU."""

import os
import sys
from pathlib import Path

import pytest


def test_timeout_kills_the_tool_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    import sanitize_kernels

    pid_file = tmp_path / "child"
    program = (
        "import subprocess, sys; print('begun', flush=True);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); child.wait()"
    )
    command = [sys.executable, "-c", program]
    assert sanitize_kernels._run_until(command, 5.0, dict(os.environ)) == ("begun\n", None)
    status = Path(f"/proc/{pid_file.read_text()}/status")
    assert not status.exists() or "zombie" in status.read_text()
    command = [sys.executable, "-c", "print('done'); raise SystemExit(3)"]
    assert sanitize_kernels._run_until(command, 60.0, dict(os.environ)) == ("done\n", 3)


def test_run_all_combines_the_results_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    import sanitize_kernels

    # A fake sanitizer with one finding in b.py that hangs on c.py.
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        "#!/bin/sh\nfor file; do :; done\n"
        'case "$file" in *c.py) exec sleep 600;; *b.py) found=1;; *) found=0;; esac\n'
        'echo "${file##*/}.cu" > "$FEW_CASES_KERNELS"; echo "2 passed in 1s"\n'
        'echo "========= ERROR SUMMARY: $found errors"; exit $found\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    files = [tmp_path / "gpu" / name for name in ("a.py", "b.py")]
    one = sanitize_kernels.run_all("memcheck", files, 4, 30.0)
    assert (one["findings"], one["cases"], one["exit_status"]) == (1, 4, 1)
    assert (one["kernels"], one["unfinished"]) == (["a.py.cu", "b.py.cu"], [])
    late = sanitize_kernels.run_all("memcheck", [*files, tmp_path / "gpu" / "c.py"], 4, 3.0)
    assert (late["findings"], late["unfinished"]) == (None, ["c.py"])
