"""What a worker of the tests said when it crashed, at the end of the run, where a shortened log still has it."""

import faulthandler
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, TextIO

import pytest

_FOLDER = "ASSAY_TEST_CRASHES"
"""Names the folder of the crashing workers' stacks; the controller sets it, its workers inherit it."""
_downs: list[str] = []
_file: list[TextIO] = []


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let a worker write its stacks to a file of its own; pytest's own would be lost among the dots."""
    if not hasattr(config, "workerinput"):
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="assay-test-crashes-")
    elif (folder := os.environ.get(_FOLDER)) is not None:
        _file.append((Path(folder) / str(os.getpid())).open("w"))
        faulthandler.enable(_file[0], all_threads=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the files of workers that ended well."""
    if hasattr(config, "workerinput"):
        # Python's last words go to stderr again.
        faulthandler.enable()
        for file in _file:
            file.close()
        return
    folder = Path(os.environ.pop(_FOLDER))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Note how a worker ended that was not told to."""
    if error is None:
        return
    process = node.gateway._io.popen
    code = process.wait(10)
    end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    stacks = Path(os.environ[_FOLDER]) / str(process.pid)
    text = stacks.read_text() if stacks.exists() else ""
    _downs.append(f"{node.gateway.id}: {end}\n{text or 'no stack was written'}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A crash is no failed test, which might pass alone: end with another exit code."""
    if _downs:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say it after everything else."""
    for down in _downs:
        terminalreporter.section("a worker crashed", red=True)
        terminalreporter.write_line(down)
