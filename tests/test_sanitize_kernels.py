"""The scripts that run kernels under compute-sanitizer: the parts that need no GPU."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import sanitizer_batches

    return sanitizer_batches


def test_stall_kills_the_tool_and_its_children(tmp_path: Path, batches: ModuleType) -> None:
    pid_file, progress = tmp_path / "child", tmp_path / "progress"
    program = (
        "import subprocess, sys; print('begun', flush=True);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid));"
        f"open({str(progress)!r}, 'w').write('started'); child.wait()"
    )
    limits = batches.Limits(1.0, time.monotonic() + 300)
    command = [sys.executable, "-c", program]
    assert batches.run_watched(command, dict(os.environ), progress, limits) == ("begun\n", None)
    status = Path(f"/proc/{pid_file.read_text()}/status")
    for _ in range(100):
        if not status.exists() or "zombie" in status.read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child goes on")
    command = [sys.executable, "-c", "print('done'); raise SystemExit(3)"]
    unused = tmp_path / "unused"
    assert batches.run_watched(command, dict(os.environ), unused, limits) == ("done\n", 3)
    late = batches.Limits(600.0, time.monotonic() - 1)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert batches.run_watched(command, dict(os.environ), progress, late) == ("", None)


def test_batches_deal_cases_of_every_size(batches: ModuleType) -> None:
    large, small = Path("large.py"), Path("small.py")
    made = batches.batches({large: list("abcdef"), small: ["x"], Path("none.py"): []}, 4)
    assert [(batch.file.name, "".join(batch.cases)) for batch in made] == [
        ("large.py", "ad"),
        ("large.py", "be"),
        ("large.py", "cf"),
        ("small.py", "x"),
    ]


FIRST = """
import time, few_cases, pytest
few_cases._compile = lambda *arguments: b""
@pytest.mark.parametrize("size", [4096, 8])
@pytest.mark.parametrize("element", ["float", "half"])
def test_first(size, element):
    assert size == 8, "a smaller case exists"
    few_cases._note("first.cu", "sm_90a", ())
def test_hangs():
    few_cases._note("hangs.cu", "sm_90a", ())
    time.sleep(600)
def test_later():
    few_cases._note("later.cu", "sm_90a", ())
"""
SECOND = """
def test_second():
    print("hazard")
"""


@pytest.fixture
def sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`sanitize_kernels.run_all` over two files, with a fake tool that runs the tests."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import sanitize_kernels

    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        "#!/bin/bash\n"
        'while [ "$1" != "$INTERPRETER" ]; do shift; done\n'
        '"$@"; status=$?\n'
        'case "$*" in *second*) found=1;; *) found=0;; esac\n'
        'for line in COMPUTE-SANITIZER "Error: Race reported"; do\n'
        '[ "$found" = 0 ] || echo "========= $line"; done\n'
        'echo "========= RACECHECK SUMMARY: $found hazards displayed"; exit $status\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("INTERPRETER", sys.executable)
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "test_first.py").write_text(FIRST)
    (folder / "test_second.py").write_text(SECOND)
    # The plugin imports the harness, and that PyTorch, of which nothing is used here.
    stub = "import sys, unittest.mock; sys.modules[__name__] = unittest.mock.MagicMock()"
    (tmp_path / "torch.py").write_text(stub)
    monkeypatch.setattr(sanitize_kernels.batches, "START_SECONDS", 60.0)

    def run(*names: str, case_seconds: float = 5.0, seconds: float = 120.0) -> Any:
        limits = sanitize_kernels.batches.Limits(case_seconds, time.monotonic() + seconds)
        files = [folder / name for name in names]
        return sanitize_kernels.run_all("racecheck", files, 2, 2, limits)

    return run


@pytest.mark.slow
def test_slow_cases_are_named_and_the_others_run(sanitizer: Callable[..., Any]) -> None:
    one = sanitizer("test_first.py", "test_second.py")
    assert (one["findings"], one["exit_status"], one["unstarted"]) == (1, 0, [])
    assert one["slow"] == ["test_first.py::test_hangs"]
    # A kernel counts as covered where a case that ran to its end compiled it.
    assert one["kernels"] == ["first.cu", "later.cu"]
    assert one["cases"] == 4
    assert any("Race reported" in line for line in one["report"])


def test_time_that_is_up_leaves_cases_and_says_so(sanitizer: Callable[..., Any]) -> None:
    one = sanitizer("test_first.py", seconds=-1.0)
    assert (one["cases"], len(one["unstarted"])) == (0, 4)
