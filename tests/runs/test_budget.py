"""What a run does before its first phase is in its budget, and the end says what that went to."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from planted_engine import PlantedEngine, planted_workload

from assay.errors import NoDataError
from assay.improve.loop import finishing
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.progress import Silent
from assay.report.run import write_run
from assay.runs import calibrated, subject
from assay.runs.subject_options import SubjectOptions

pytestmark = pytest.mark.usefixtures("without_fsync")

BUDGET_S = 240.0
LEVERS = """\
format: assay.levers/1
engine: fake
levers:
  - name: threads
    mechanism: more cores share a step
    knobs: {threads: [2]}
    safety: safe
    hot: true
    correctness: bitwise
    reference: a test
"""


def run(folder: Path, prepared_s: float) -> tuple[Outcome, float]:
    """The outcome, and the seconds of the engine's clock that the loop took."""
    levers = folder / "levers.yaml"
    levers.write_text(LEVERS)
    engine = PlantedEngine()
    begun = engine.clock()
    outcome = run_loop(
        engine,
        planted_workload(),
        RunOptions(budget_s=BUDGET_S, lever_files=(levers,), use_history=False, force=True),
        write_run,
        root=folder / "runs",
        clock=engine.clock,
        prepared_s=prepared_s,
    )
    return outcome, engine.clock() - begun


def spending(outcome: Outcome) -> dict[str, int]:
    """The parts of the note at the end, in seconds."""
    [note] = [note for note in outcome.notes if note.startswith("the budget, 240 s: ")]
    parts = note.removeprefix("the budget, 240 s: ").split(", ")
    found = [re.fullmatch(r"(.+) (\d+) s", part) for part in parts]
    return {match[1]: int(match[2]) for match in found if match is not None}


def test_what_was_spent_before_the_loop_is_taken_from_its_time(tmp_path: Path) -> None:
    alone, alone_s = run(tmp_path, 0.0)
    assert "preparing" not in spending(alone)
    assert alone_s <= 1.05 * BUDGET_S
    prepared, loop_s = run(tmp_path, 100.0)
    assert prepared.verdict == "improved", prepared.notes
    assert loop_s <= 1.05 * BUDGET_S - 100.0
    parts = spending(prepared)
    assert list(parts) == [
        "preparing", "capture and fingerprint", "predict and residuals", "causes and candidates",
        "experiments", "soak and report",
    ]  # fmt: skip
    assert parts["preparing"] == 100
    # Each part is rounded to a second.
    assert sum(parts.values()) == pytest.approx(100.0 + loop_s, abs=4.0)


def test_opening_a_workload_on_arrays_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [50.0]

    def open_special(*_: object) -> tuple[PlantedEngine, object]:
        now_s[0] += 17.0
        return PlantedEngine(), planted_workload()

    monkeypatch.setattr(subject, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(subject, "_special", open_special)
    asked = SubjectOptions(engine="assay", workload="order-book", budget_s=BUDGET_S)
    with subject.opened(asked, Silent()) as opened:
        assert opened.prepared_s == 17.0


def test_pilots_of_the_highest_rate_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [50.0]

    def maximizing(engine: object, workload: object, *_: object) -> object:
        now_s[0] += 31.0
        return workload

    monkeypatch.setattr(subject, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(subject, "maximizing_rate", maximizing)
    given = {"engine": PlantedEngine(), "workload": "chat", "slo": "ttft=1s", "budget_s": BUDGET_S}
    with subject.opened(SubjectOptions(**given, maximize="rate"), Silent()) as opened:
        assert opened.prepared_s == 31.0
        assert opened.workload.name == "chat"
    with subject.opened(SubjectOptions(**given), Silent()) as opened:
        assert opened.prepared_s == 0.0


def test_a_budget_that_preparing_took_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoDataError) as caught:
        run(tmp_path, 300.0)
    assert caught.value.message == (
        "budget: expected more than the 300 s that preparing took, got 240 s"
    )
    assert caught.value.hint == "--budget 9m leaves time for experiments"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("prepared_s", "why"),
    [
        (0.0, "the machine was slower than planned"),
        (200.0, "preparing took 200 s of it, and the rest longer than planned"),
    ],
)
def test_a_late_run_says_what_took_its_time(prepared_s: float, why: str) -> None:
    state: Any = SimpleNamespace(
        budget=SimpleNamespace(spent=300.0, total_s=BUDGET_S),
        watched=SimpleNamespace(seconds=10.0),
        prepared_s=prepared_s,
    )
    assert finishing._time_taken(state) == [f"took 290 s of a budget of 240 s: {why}"]


def test_calibration_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("assay.bench.calibration.calibrate", lambda *_, budget_s, **more: budget_s)
    device = SimpleNamespace(name="cpu")
    assert calibrated.calibrated(device, said.append, ("f32",)) == calibrated.CALIBRATION_S
    assert said == ["calibrating cpu for this run, for about 8 s of its budget"]
