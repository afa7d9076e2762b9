"""Commands that keep their outputs on disk: the time of a cache is no figure."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from assay.bench.own.commands import CommandProgram
from assay.cli.app import run
from assay.workloads.contract import DataSet

CLAIM = """
name = "totals"
about = "the sum of numbers"
unit = "number"
metric = "ms"
[work]
command = ["{python}", "-S", "work.py"]
[reference]
function = "mine.py:total"
[data]
generator = "mine.py:text"
seeds = [1, 2, 3]
size = 20
"""

FUNCTIONS = """
import numpy as np

def text(seed, size):
    return "".join(f"{n}\\n" for n in np.random.default_rng(seed).integers(0, 10**6, size))

def total(given):
    return f"{sum(map(int, given.split()))}\\n"
"""

WORK = """
import hashlib, os, sys, time

def total(given):
    time.sleep(0.1)
    return sum(map(int, given.split()))

given = open(sys.argv[1]).read() if sys.argv[1:] else sys.stdin.read()
{body}
"""

HONEST = "print(total(given))"
# Starting the interpreter takes long enough that a kept output is not five times as fast.
KEEPING = """
time.sleep(0.02)
kept = "kept-" + hashlib.sha256(given.encode()).hexdigest()
if not os.path.exists(kept):
    with open(kept, "w") as file:
        file.write(str(total(given)))
print(open(kept).read())
"""


def measured(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, claim: str = CLAIM
) -> tuple[int, Any]:
    """The exit code of a run, and its figure."""
    (folder / "mine.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "work.py").write_text(WORK.replace("{body}", body), encoding="utf-8")
    (folder / "bench.toml").write_text(claim, encoding="utf-8")
    capsys.readouterr()
    code = run(["bench", "run", str(folder), "--quick", "--json"])
    (figure,) = json.loads(capsys.readouterr().out)["figures"]
    return code, figure


def test_a_command_that_keeps_its_outputs_on_disk_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second time, outputs of all seeds of the claim are there from the run before.
    for _ in range(2):
        code, figure = measured(tmp_path, capsys, KEEPING)
        assert (code, figure["check"]["passed"]) == (1, False)
        assert (
            "when it runs again on the same data: outputs are kept between runs" in figure["note"]
        )


@pytest.mark.parametrize(("seconds", "code"), [(0.010, 0), (0.009, 1)])
def test_a_tenth_that_a_kept_output_saves_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, code: int
) -> None:
    """Of the figure, which the command reports: what starting a process takes is not in it."""
    body = """
kept = "kept-" + hashlib.sha256(given.encode()).hexdigest()
seconds = %s if os.path.exists(kept) else 0.010
open(kept, "w").close()
print(total(given))
print('{"seconds": %%s}' %% seconds)
"""
    claim = CLAIM.replace("[reference]", 'value = "seconds"\n[reference]').replace('"ms"', '"s"')
    ended, figure = measured(tmp_path, capsys, body % seconds, claim)
    assert (ended, "outputs are kept between runs" in figure["note"]) == (code, bool(code))


def test_a_gate_says_that_such_work_is_refused_and_not_that_the_answer_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, capsys, KEEPING)
    assert run(["bench", "run", str(tmp_path), "--quick", "--save", str(tmp_path / "r.json")]) == 1
    capsys.readouterr()
    assert (
        run(["bench", "gate", str(tmp_path), "--result", str(tmp_path / "r.json"), "--json"]) == 1
    )
    check = json.loads(capsys.readouterr().out)["gates"][0]
    assert (check["gate"], check["verdict"]) == ("check", "failed")
    assert re.match(r"refused: \d+\.\d+ times as fast .*; no floor", check["reason"])


def test_an_honest_command_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, figure = measured(tmp_path, capsys, HONEST)
    assert (code, figure["check"]["error"]) == (0, 0.0)
    assert "kept" not in figure["note"]


def test_a_run_that_is_slow_after_its_input_was_written_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a process that has just computed waits longer for a core."""
    load, run_command = CommandProgram.load, CommandProgram._run
    waits: list[float] = []

    def loaded(self: CommandProgram, data: DataSet) -> None:
        waits[:] = [0.05]
        load(self, data)

    def delayed(self: CommandProgram, words: list[str], given: Any) -> Any:
        time.sleep(waits.pop() if waits else 0.0)
        return run_command(self, words, given)

    monkeypatch.setattr(CommandProgram, "load", loaded)
    monkeypatch.setattr(CommandProgram, "_run", delayed)
    code, figure = measured(tmp_path, capsys, HONEST)
    assert (code, "kept" in figure["note"]) == (0, False)


def test_a_command_that_changes_its_input_gets_all_of_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else every run but the first would be timed on what the one before it left."""
    claim = CLAIM.replace('"work.py"]', '"work.py", "{input}"]')
    body = """
open("sizes", "a").write(f"{len(given.split())} ")
open(sys.argv[1], "w").write("0")
print(sum(map(int, given.split())))
"""
    code, _ = measured(tmp_path, capsys, body, claim)
    assert code == 0
    assert set((tmp_path / "sizes").read_text().split()) == {"20"}


def test_checks_of_every_run_have_data_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else what an earlier run left on disk would pass for work in the next one."""
    body = "open('seen', 'a').write(given.replace(chr(10), ' ') + chr(10))\n" + HONEST
    measured(tmp_path, capsys, body)
    first = set((tmp_path / "seen").read_text().splitlines())
    (tmp_path / "seen").unlink()
    measured(tmp_path, capsys, body)
    second = set((tmp_path / "seen").read_text().splitlines())
    # Only the data of the claim's one seed of a smoke test are the same.
    assert len(first & second) == 1
    assert len(second) > 1


def test_a_wrong_answer_names_its_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, figure = measured(tmp_path, capsys, "print(0)")
    assert code == 1
    assert "mine.py:total (seed " in figure["note"]
