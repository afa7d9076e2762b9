"""Code of a claim that ends the process itself: no gate passes, and one line says what happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.bench.own.endings import refuse_endings

CLAIM = """
name = "sums"
about = "running sums"
unit = "number"
metric = "ns/number"
[work]
function = "{work}"
[reference]
function = "mine.py:reference"
[data]
generator = "{generator}"
seeds = [1, 2, 3]
size = 40
"""

FUNCTIONS = """
import itertools, os
import numpy as np

def numbers(seed, size):
    return np.random.default_rng(seed).integers(0, 1000, size)

def ours(values):
    return np.cumsum(values)

def reference(values):
    return list(itertools.accumulate(values.tolist()))

def ends(values):
    os._exit(0)

def ends_generator(seed, size):
    os._exit(0)

def becomes_another(values):
    os.execlp("true", "true")

def ends_a_child(values):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return np.cumsum(values)
"""


def gate(folder: Path, work: str, generator: str = "mine.py:numbers") -> tuple[int, str]:
    """The exit code of a gate in a process of its own, and what it said on stderr."""
    (folder / "mine.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "at_import.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")
    claim = CLAIM.format(work=work, generator=generator)
    (folder / "bench.toml").write_text(claim, encoding="utf-8")
    words = [sys.executable, "-m", "assay", "bench", "gate", "bench.toml", "--quick"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("work", "generator", "said"),
    [
        ("at_import.py:ours", "mine.py:numbers", "at_import.py: cannot be imported: SystemExit: os._exit(0)"),
        ("mine.py:ends", "mine.py:numbers", "mine.py:ends raised SystemExit: os._exit(0)"),
        ("mine.py:ours", "mine.py:ends_generator", "mine.py:ends_generator raised SystemExit: os._exit(0)"),
        ("mine.py:becomes_another", "mine.py:numbers", "mine.py:becomes_another raised SystemExit: os.execv"),
    ],
)  # fmt: skip
def test_code_that_ends_the_process_at_once_passes_no_gate(
    tmp_path: Path, work: str, generator: str, said: str
) -> None:
    code, err = gate(tmp_path, work, generator)
    assert (code, err.count("error"), said in err) == (2, 1, True), err
    assert "before anything is judged" in err


def test_an_end_that_was_put_off_does_not_change_the_exit_code(tmp_path: Path) -> None:
    program = "import atexit, os\natexit.register(lambda: os._exit(0))\nfrom mine import nothing\n"
    (tmp_path / "late.py").write_text(program, encoding="utf-8")
    code, _ = gate(tmp_path, "late.py:nothing")
    assert code == 2


def test_children_of_a_claim_may_end_so(tmp_path: Path) -> None:
    code, err = gate(tmp_path, "mine.py:ends_a_child")
    assert "raised" not in err
    assert code in (0, 3), err


def test_an_end_is_refused_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (os, sys.modules[os.name]):
        for name in ("_exit", "execv", "execve"):
            monkeypatch.setattr(module, name, getattr(module, name))
    refuse_endings()
    first = os._exit
    refuse_endings()
    assert os._exit is first
    with pytest.raises(SystemExit, match=r"os\._exit\(0\) would end the process"):
        os._exit(0)
    child = os.fork()
    if child == 0:
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
