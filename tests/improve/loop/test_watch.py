"""`--watch`: a change that is faster first and slower later is taken back after its promotion."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from planted_judging import LEVER
from planted_levers import ALL, Planted
from scripted_engine import ScriptedEngine, workload

from assay.improve.journal import journal
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import Window, Workload

pytestmark = pytest.mark.usefixtures("without_fsync")

BUDGET_S = 240.0


class LaterEngine(ScriptedEngine):
    """Does something once the run's budget is over, which is when the watch goes on."""

    def __init__(self, planted: Planted, happening: str) -> None:
        super().__init__(planted)
        self.happening = happening

    def measure(self, workload: Workload, window: Window) -> Measurement:
        measured = super().measure(workload, window)
        if self.now < 2.0 * BUDGET_S or not self.is_on:
            return measured
        if self.happening == "ctrl-c":
            raise KeyboardInterrupt
        if self.happening == "slower":
            figures = {name: 0.5 * value for name, value in measured.figures.items()}
            return replace(measured, figures=figures)
        return measured


def run(folder: Path, happening: str, watch_s: float | None) -> tuple[Outcome, LaterEngine]:
    planted = next(lever for lever in ALL if lever.name == "good-1.12")
    path = folder / "levers.yaml"
    hot = str(planted.hot).lower()
    path.write_text(LEVER.format(name=planted.name, hot=hot, correctness=planted.correctness))
    engine = LaterEngine(planted, happening)
    options = RunOptions(
        budget_s=BUDGET_S, lever_files=(path,), use_history=False, watch=True, watch_s=watch_s
    )
    root = folder / "runs"
    outcome = run_loop(
        engine, workload(planted), options, lambda *_: None, root=root, clock=engine.clock
    )
    return outcome, engine


def test_a_regression_after_promotion_is_taken_back(tmp_path: Path) -> None:
    outcome, engine = run(tmp_path, "slower", 3000.0)
    assert outcome.verdict == "rolled back"
    assert outcome.problem is not None
    assert outcome.problem.exit_code == 5
    assert "faster first, slower later" in outcome.notes[0]
    assert not engine.is_on
    assert outcome.kept == ()
    reading = journal.verify(outcome.run)
    assert [record.data["why"] for record in reading.of("safe")][-2:] == [
        "the stack of kept levers, confirmed against the start",
        "the start: the watch saw a regression",
    ]
    # Seen soon after it began, not at the end of the watch.
    assert engine.now < 2.0 * BUDGET_S + 600.0


@pytest.mark.parametrize(("happening", "watch_s"), [("", 120.0), ("ctrl-c", None)])
def test_a_watch_that_sees_nothing_keeps_the_change(
    tmp_path: Path, happening: str, watch_s: float | None
) -> None:
    outcome, engine = run(tmp_path, happening, watch_s)
    assert (outcome.verdict, outcome.problem) == ("improved", None)
    assert engine.is_on
    (note,) = [note for note in outcome.notes if "no regression was shown" in note]
    # A watch that ends too soon to prove anything says what it saw last.
    assert re.search(r"; the last \d+ are at \+1\d\.\d % to the start$", note), note
    assert not any("of a budget of" in note for note in outcome.notes)
    assert journal.verify(outcome.run).is_finished
