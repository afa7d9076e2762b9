"""The loop: capture, predict, rank, experiment, soak, report; every way out leaves a safe state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay._native import build_info
from assay.answers import data_of
from assay.errors import NoDataError
from assay.improve.engines.protocol import Engine, EngineLostError
from assay.improve.journal import run_folder
from assay.improve.journal.chain import plain
from assay.improve.journal.guard import guarded
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine, RollbackError
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.budget import Budget
from assay.improve.loop.finishing import finish
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.phases.candidates import check_levers, choose_candidates
from assay.improve.loop.phases.capture import capture
from assay.improve.loop.phases.experiments import experiment
from assay.improve.loop.phases.predict import Calibrate, predict
from assay.improve.loop.phases.race import racing
from assay.improve.loop.phases.soak import soak
from assay.improve.loop.phases.watch import watch
from assay.improve.loop.progress import Progress, Silent
from assay.improve.loop.recording import Recording
from assay.improve.loop.resuming import WORKLOAD, restore
from assay.improve.loop.state import RunState, WriteReport, start_seconds
from assay.load.workloads.archive import save
from assay.load.workloads.workload import Workload


def run_loop(
    engine: Engine,
    workload: Workload,
    options: RunOptions,
    write_report: WriteReport,
    *,
    model: str | None = None,
    progress: Progress | None = None,
    calibrate: Calibrate | None = None,
    root: Path | None = None,
    command: str = "",
    subject: Mapping[str, Any] | None = None,
    resume: RunFolder | None = None,
    clock: Callable[[], float] = time.monotonic,
    prepared_s: float = 0.0,
) -> Outcome:
    """Improve an engine under a workload within a budget.

    Changes are journaled before they are made, and a watchdog takes them back if this process dies.
    Ctrl-C ends the search; what is known by then is reported. `resume` goes on with an earlier run,
    whose budget comes on top; `subject` says how its command named the engine. Of the budget,
    `prepared_s` went by while engine and workload were made ready.
    """
    check_levers(engine.describe().engine, options, engine.levers())
    if prepared_s >= options.budget_s and not options.dry_run:
        raise NoDataError(
            f"budget: expected more than the {prepared_s:.0f} s that preparing took, got "
            f"{options.budget_s:.0f} s",
            f"--budget {math.ceil((prepared_s + options.budget_s) / 60.0)}m leaves time for experiments",
        )
    folder = resume or run_folder.create(f"{engine.describe().engine} {workload.name}", root)
    outcome: Outcome | None = None
    try:
        with (
            _journal(folder, resume) as journal,
            _journaled(engine, folder, journal, options) as own,
        ):
            if resume is None:
                save(workload, folder.path / WORKLOAD)
            state = RunState(
                engine=own,
                workload=workload,
                options=options,
                budget=Budget(options.budget_s, clock=clock, spent_s=prepared_s),
                folder=folder,
                journal=journal,
                progress=progress or Silent(),
                description=engine.describe(),
                start=dict(engine.settings()),
                write_report=write_report,
                model=model,
                prepared_s=prepared_s,
            )
            state.restart_s = start_seconds(state.description)
            kind = "started" if resume is None else "resumed"
            journal.append(kind, **_facts(state, command), subject=dict(subject or {}))
            state.recording = Recording(folder, workload.name, engine.in_process())
            state.budget = Budget(options.budget_s, clock=clock, spent_s=prepared_s)
            outcome = _run(state, calibrate, is_resumed=resume is not None)
    except EngineLostError:
        # The report is written; the guard has restored from the records what can be restored.
        if outcome is None:
            raise
    assert outcome is not None
    return outcome


def _journal(folder: RunFolder, resume: RunFolder | None) -> Journal:
    return Journal.create(folder.path) if resume is None else Journal.open(folder.path)


@contextmanager
def _journaled(
    engine: Engine, folder: RunFolder, journal: Journal, options: RunOptions
) -> Iterator[JournaledEngine]:
    """The engine under guard; a dry run changes nothing, so that nobody need watch it."""
    if options.dry_run:
        yield JournaledEngine(engine, journal, folder)
        return
    with guarded(engine, folder, journal) as own:
        yield own


def _facts(state: RunState, command: str) -> dict[str, Any]:
    """What a run began with."""
    options, description = state.options, state.description
    return {
        "command": command,
        "assay": build_info()["version"],
        **data_of(options, "budget_s target seed dry_run"),
        **data_of(description, "engine release model device"),
        "workload": state.workload.name,
        "settings": dict(state.start),
        "options": plain(options),
    }


def _run(state: RunState, calibrate: Calibrate | None, *, is_resumed: bool) -> Outcome:
    """All phases; whatever ends them, the end is written down."""
    try:
        try:
            _phases(state, calibrate, is_resumed=is_resumed)
        except KeyboardInterrupt:
            state.interrupted = True
            state.notes.append("interrupted: the report says what was known by then")
            state.progress.say("interrupted: writing the report; ctrl-c again leaves at once")
        return finish(state)
    except EngineLostError as error:
        return _lost(state, error)
    except RollbackError as error:
        return finish(state, ("rolled back", error.message))


def _phases(state: RunState, calibrate: Calibrate | None, *, is_resumed: bool) -> None:
    is_ranked = restore(state) if is_resumed else False
    if not state.options.dry_run:
        state.engine.declare_safe("the configuration at the start")
    if not is_ranked:
        capture(state)
        predict(state, calibrate)
        choose_candidates(state)
    if state.chosen.stop:
        return
    # A trial of a resumed run brings the engine to what earlier parts kept: where none is left,
    # a server is spared a restart before the confirmation.
    race = racing(state)
    allotment = experiment(state) if race is None else race.run()
    soak(state, allotment, race)
    if race is not None and state.options.watch:
        race.end()
    watch(state)


def _lost(state: RunState, error: EngineLostError) -> Outcome:
    """The engine is gone: bring back the recorded configuration, and say whether that worked."""
    state.notes.append(error.message)
    try:
        state.engine.revert("the engine was lost", automatic=True)
        state.notes.append("the engine serves the configuration of the start again")
    except (EngineLostError, RollbackError) as again:
        state.notes.append(f"it could not be brought back: {again.message}")
    return finish(state, ("engine lost", error.message))
