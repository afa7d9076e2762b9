"""The loop end to end on an engine with planted effects, in simulated time."""

from __future__ import annotations

import json
import math
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from planted_engine import START, PlantedEngine, planted, planted_workload

from assay.errors import InputError, NoDataError, UnknownNameError
from assay.improve.engines.protocol import EngineDescription
from assay.improve.journal import journal as journals
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.progress import Silent
from assay.improve.loop.resuming import options_of, workload_of
from assay.load.workloads.measurement import Setting
from assay.report.run import write_run
from assay.report.verify import verify

pytestmark = pytest.mark.usefixtures("without_fsync")

SHARED_MEMORY = Path("/dev/shm")
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
  - name: batch
    mechanism: several requests share a step
    knobs: {max_batch: [2, 4, 8]}
    safety: may slow
    hot: true
    correctness: bitwise
    reference: a test
  - name: graphs
    mechanism: one launch replays a step
    knobs: {graphs: [true]}
    safety: safe
    hot: true
    correctness: rounding
    reference: a test
  - name: kv-fp8
    mechanism: fewer bytes of the KV cache
    knobs: {kv: [fp8]}
    safety: safe
    hot: true
    correctness: lossy
    reference: a test
"""


@pytest.fixture
def levers() -> Iterator[Path]:
    """A library for the planted engine, on a disk that is quick to flush where there is one."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as name:
        path = Path(name) / "levers.yaml"
        path.write_text(LEVERS)
        yield path


def run(engine: PlantedEngine, levers: Path, **options: object) -> Outcome:
    """A run in simulated time."""
    chosen = RunOptions(**{"budget_s": 240.0, "lever_files": (levers,), **options})  # type: ignore[arg-type]
    return run_loop(
        engine,
        planted_workload(),
        chosen,
        write_run,
        root=levers.parent / "runs",
        clock=engine.clock,
    )


def kinds(outcome: Outcome) -> list[str]:
    """The kinds of the journal's records, which verify."""
    return [one.kind for one in journals.verify(outcome.run).records]


def not_tried(outcome: Outcome) -> dict[str, str]:
    """What the report says was not tried, and why."""
    data = json.loads((outcome.run / "report.json").read_text())
    return dict(data["provenance"]["details"]["skipped"])


def test_planted_gains_are_found_and_confirmed(levers: Path) -> None:
    engine = PlantedEngine()
    outcome = run(engine, levers)
    assert outcome.verdict == "improved"
    assert outcome.ratio is not None
    assert outcome.ratio.lo <= 2.0 <= outcome.ratio.hi
    assert engine.settings() == {**START, "threads": 2, "max_batch": 4}
    assert outcome.settings == engine.settings()
    names = {name for one in outcome.kept for name in one.candidate.levers}
    assert names == {"threads", "batch"}
    assert outcome.problem is None
    assert "--threads 2 --max_batch 4" in outcome.launch_command
    files = {path.name for path in outcome.run.iterdir()}
    assert {"journal.jsonl", "plan.json", "experiments.parquet", "degradations.json",
            "report.md", "report.html", "state.parquet", "workload.jsonl"} <= files  # fmt: skip
    assert verify(outcome.run).is_verified
    assert kinds(outcome)[-1] == "finished"


def test_nothing_to_gain_leaves_the_engine_as_it_was(levers: Path) -> None:
    engine = PlantedEngine(effect=lambda settings: 1.0 if settings == START else 0.8)
    outcome = run(engine, levers)
    assert outcome.verdict == "nothing to gain"
    assert (outcome.kept, outcome.ratio, outcome.problem) == ((), None, None)
    assert engine.settings() == START
    assert outcome.baseline is not None


def test_a_dry_run_changes_nothing(levers: Path) -> None:
    engine = PlantedEngine()
    outcome = run(engine, levers, dry_run=True)
    assert outcome.verdict == "diagnosed only"
    assert engine.configured == []
    plan = json.loads((outcome.run / "plan.json").read_text())
    assert {one["levers"][0] for one in plan["candidates"]} == {"threads", "batch", "graphs"}
    assert "intend" not in kinds(outcome)
    untried = not_tried(outcome)
    assert untried["threads: threads=2"] == "not tried: a dry run: no setting was changed"
    # One row for each value that was ranked, and none for what the options leave out.
    assert {"graphs: graphs=true", "batch: max_batch=8"} <= untried.keys()


def test_interrupted_keeps_what_is_proven(levers: Path) -> None:
    engine = PlantedEngine()
    engine.disturb = InterruptAfter(engine)
    outcome = run(engine, levers)
    assert outcome.verdict == "undecided"
    assert any("interrupted" in note for note in outcome.notes)
    kept = {name: value for one in outcome.kept for name, value in one.candidate.changes.items()}
    assert kept
    assert engine.settings() == {**START, **kept}
    assert verify(outcome.run).is_verified


class InterruptAfter:
    """Presses Ctrl-C in a window after the first change was kept."""

    def __init__(self, engine: PlantedEngine) -> None:
        self._engine = engine
        self._pressed = False

    def __call__(self, window: int) -> str:
        settings = self._engine.settings()
        if not self._pressed and settings["threads"] == 2 and settings["max_batch"] != 1:
            self._pressed = True
            raise KeyboardInterrupt
        return ""


def test_an_engine_that_dies_is_exit_code_4(levers: Path) -> None:
    engine = PlantedEngine(dies_at=40)
    outcome = run(engine, levers)
    assert outcome.verdict == "engine lost"
    assert outcome.problem is not None
    assert outcome.problem.exit_code == 4
    assert outcome.settings is None
    assert journals.read(outcome.run).is_intact


def test_a_baseline_of_garbage_is_no_data(levers: Path) -> None:
    with pytest.raises(NoDataError, match="correctness gate") as raised:
        run(PlantedEngine(garbage="nan"), levers)
    assert raised.value.exit_code == 3


def test_wrong_answers_are_never_kept(levers: Path) -> None:
    engine = PlantedEngine(flips=lambda settings: 1.5 if settings["threads"] == 2 else None)
    outcome = run(engine, levers)
    assert engine.settings()["threads"] == 1
    [rejected] = [one for one in outcome.rejected if one.candidate.levers == ("threads",)]
    assert rejected.verdict == "invalid"


def test_failed_trials_constrain_the_search(levers: Path) -> None:
    engine = PlantedEngine(
        fails=lambda settings: "OOM" if int(settings["max_batch"] or 0) > 1 else None
    )
    outcome = run(engine, levers)
    assert engine.settings() == {**START, "threads": 2}
    assert any(one.failure == "OOM" for one in outcome.rejected)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"only": ("graphs",)}, {"graphs"}),
        ({"skip": ("graphs", "batch")}, {"threads"}),
        ({"max_risk": "safe"}, {"threads", "graphs"}),
        ({"allow_lossy": True}, {"threads", "batch", "graphs", "kv-fp8"}),
    ],
)
def test_options_choose_the_levers(
    levers: Path, options: dict[str, object], allowed: set[str]
) -> None:
    outcome = run(PlantedEngine(), levers, dry_run=True, **options)
    plan = json.loads((outcome.run / "plan.json").read_text())
    assert {one["levers"][0] for one in plan["candidates"]} == allowed


def test_top_n_limits_the_trials(levers: Path) -> None:
    outcome = run(PlantedEngine(), levers, top_n=1)
    tried = [*outcome.kept, *outcome.undecided, *outcome.rejected]
    assert len(tried) == 1


class MovingEngine(PlantedEngine):
    """Shrinks the format of its cache with a second thread, unasked."""

    def settings(self) -> Mapping[str, Setting]:
        """What it runs with."""
        now = super().settings()
        return {**now, "kv": "fp8"} if now["threads"] == 2 else now


def test_what_an_engine_changes_with_a_kept_lever_is_said(levers: Path) -> None:
    outcome = run(MovingEngine(), levers, only=("threads",))
    moved = "threads: threads=2: the engine changed with them: kv 'bf16' to 'fp8'"
    assert moved in outcome.notes
    assert not any("changed with them" in note for note in run(PlantedEngine(), levers).notes)


def test_a_target_ends_the_search_and_is_judged_by_the_confirmation(levers: Path) -> None:
    met = run(PlantedEngine(noise=0.002), levers, target=0.3)
    assert met.target_met is True
    assert len(met.kept) == 1
    missed = run(PlantedEngine(), levers, target=3.0)
    assert (missed.verdict, missed.target_met, missed.problem) == ("improved", False, None)


def test_an_unknown_lever_is_named(levers: Path) -> None:
    with pytest.raises(UnknownNameError, match='unknown lever "thread"'):
        run(PlantedEngine(), levers, only=("thread",))


def test_a_run_goes_on_where_it_was_left(levers: Path) -> None:
    engine = PlantedEngine()
    first = run(engine, levers, only=("threads", "batch", "graphs"), top_n=1)
    assert engine.settings() == {**START, "threads": 2}
    again = PlantedEngine(seed=1)
    chosen = RunOptions(budget_s=240.0, lever_files=(levers,))
    folder = RunFolder(first.run)
    begun = again.clock()
    outcome = run_loop(
        again, workload_of(folder), chosen, write_run, resume=folder, clock=again.clock
    )
    assert outcome.run == first.run
    assert outcome.verdict == "improved"
    assert again.settings() == {**START, "threads": 2, "max_batch": 4}
    assert {name for one in outcome.kept for name in one.candidate.levers} == {"threads", "batch"}
    # A trial may go on, but none is begun twice.
    trials = journals.verify(first.run).of("experiment")
    names = [one.data["experiment"] for one in trials if not one.data["goes_on"]]
    assert len(names) == len(set(names))
    names = [name for name in names if not name.startswith(("without", "confirmation"))]
    assert sum("threads=2" in name for name in names) == 1
    # The time of both parts counts.
    (before, after) = (one.data["elapsed_s"] for one in journals.verify(first.run).of("finished"))
    assert after - before == pytest.approx(again.clock() - begun, rel=0.05)
    assert verify(outcome.run).is_verified


def test_a_dry_run_that_goes_on_still_changes_nothing(levers: Path) -> None:
    """Nobody watches the engine of a dry run, so that a trial could not be taken back."""
    first = run(PlantedEngine(), levers, dry_run=True)
    engine, folder = PlantedEngine(), RunFolder(first.run)
    chosen = RunOptions(budget_s=240.0, lever_files=(levers,), dry_run=True)
    again = run_loop(
        engine, workload_of(folder), chosen, write_run, resume=folder, clock=engine.clock
    )
    assert (again.verdict, engine.configured) == ("diagnosed only", [])
    with pytest.raises(InputError, match="expected a run that tries changes, got a dry run"):
        options_of(folder, 240.0)


def test_another_engine_does_not_take_up_a_run(levers: Path) -> None:
    first = run(PlantedEngine(), levers, dry_run=True)

    class Other(PlantedEngine):
        def describe(self) -> EngineDescription:
            return replace(super().describe(), model="another")

    folder = RunFolder(first.run)
    with pytest.raises(InputError, match="expected the model planted, got another"):
        run_loop(Other(), workload_of(folder), RunOptions(), write_run, resume=folder)


def test_a_stack_that_is_not_confirmed_is_rolled_back(levers: Path) -> None:
    """Each lever gains by itself; the whole is slower once the search is over."""
    engine = PlantedEngine()
    late = {"after": False}

    def effect(settings: Mapping[str, Setting]) -> float:
        if late["after"] and settings != START:
            return 0.7
        return planted(settings)

    engine.effect = effect
    engine.disturb = lambda window: ""
    progress = EndOfSearch(lambda: late.update(after=True))
    chosen = RunOptions(budget_s=240.0, lever_files=(levers,), top_n=1)
    outcome = run_loop(
        engine,
        planted_workload(),
        chosen,
        write_run,
        progress=progress,
        root=levers.parent / "runs",
        clock=engine.clock,
    )
    assert outcome.verdict == "rolled back"
    assert outcome.problem is not None
    assert outcome.problem.exit_code == 5
    assert engine.settings() == START
    assert outcome.kept == ()
    # What improved by itself was not rejected: the confirmation took it back.
    [taken_back] = outcome.unconfirmed
    assert (taken_back.verdict, outcome.rejected) == ("improved", ())
    [said] = outcome.to_json()["unconfirmed"]
    assert said["lever"] == list(taken_back.candidate.levers)
    assert "equivalence" in kinds(outcome)


def test_a_budget_too_short_to_compare_the_answers_is_said_at_the_start(levers: Path) -> None:
    slow = PlantedEngine(rate=5.0)
    outcome = run(slow, levers, budget_s=120.0)
    [said] = [note for note in outcome.notes if "too short" in note]
    assert said.startswith("the budget is likely too short to keep a change: to compare ")
    assert re.search(r"; --budget \d+m$", said)
    assert outcome.verdict != "improved"
    assert not any("too short" in note for note in run(PlantedEngine(), levers).notes)


class EndOfSearch(Silent):
    """Tells when the soak begins."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def phase(self, title: str, seconds: float) -> None:
        """Tell it."""
        if title.startswith("soak"):
            self._call()


def test_trials_of_a_server_that_was_found_get_time_for_the_restarts_that_were_seen(
    levers: Path,
) -> None:
    class Found(PlantedEngine):
        def describe(self) -> EngineDescription:
            details = {"start_seconds": self.restart_s} if self.configured else {}
            return replace(super().describe(), details=details)

    engine = Found(hot=False, restart_s=15.0, rate=1000.0, effect=lambda _: 1.0)
    path = levers.with_name("cold.yaml")
    path.write_text(LEVERS.replace("hot: true", "hot: false"))
    outcome = run(engine, path)
    first, *later = journals.verify(outcome.run).of("experiment")
    assert first.data["budget_s"] < 4 * 15.0
    # Four pairs, each of which is a restart.
    assert later
    assert all(trial.data["budget_s"] >= 4 * 15.0 for trial in later)


def test_the_noise_of_restarts_stands_beside_that_of_one_start(levers: Path) -> None:
    engine = PlantedEngine(hot=False, restart_s=2.0, rate=1000.0, noise=0.001)
    luck = random.Random(1)
    starts: list[float] = []

    def effect(settings: Mapping[str, Setting]) -> float:
        while len(starts) <= len(engine.configured):
            starts.append(math.exp(luck.gauss(0.0, 0.02)))
        return planted(settings) * starts[len(engine.configured)]

    engine.effect = effect
    path = levers.with_name("cold.yaml")
    path.write_text(LEVERS.replace("hot: true", "hot: false"))
    outcome = run(engine, path)
    claims = {
        claim["name"]: claim
        for claim in json.loads((outcome.run / "report.json").read_text())["claims"]
    }
    noise, restarts = claims["noise.ratio"], claims["noise.starts"]
    assert "without a restart (A/A)" in noise["statement"]
    assert "what differs between starts comes on top" in noise["details"]["reason"]
    assert noise["figure"]["hi"] - 1.0 < 0.01
    # 20 or so starts of 2 % each.
    assert 0.012 < restarts["figure"]["value"] < 0.028
    assert "| noise of restarts | " in (outcome.run / "report.md").read_text()
    assert verify(outcome.run).is_verified


def test_a_short_budget_proves_its_first_candidate_at_once(levers: Path) -> None:
    """Restarts of 25 s in a budget of four minutes: a trial and a confirmation do not both fit."""
    engine = PlantedEngine(hot=False, restart_s=25.0, rate=1000.0)
    path = levers.with_name("cold.yaml")
    path.write_text(LEVERS.replace("hot: true", "hot: false"))
    outcome = run(engine, path, only=("threads", "graphs"))
    assert outcome.verdict == "improved", outcome.notes
    assert engine.settings() == {**START, "threads": 2}
    assert (
        not_tried(outcome)["graphs: graphs=true"] == "not tried: the budget ended before its turn"
    )
    assert any("graphs=true was not tried: the budget ended" in note for note in outcome.notes)
    experiments = journals.verify(outcome.run).of("experiment")
    assert len(experiments) == 1
    gates = {gate.gate for gate in outcome.kept[0].gates}
    assert {"answers", "soak"} <= gates
    assert engine.clock() <= 1.2 * 240.0
    assert verify(outcome.run).is_verified
