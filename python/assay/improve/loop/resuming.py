"""Going on with a run: what its journal says was measured, ranked and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.improve.experiments.confidence_sequence import Design
from assay.improve.experiments.pairs import looks_of
from assay.improve.experiments.result import Block, ComparedAnswers, ExperimentResult, GateResult
from assay.improve.journal import journal as journals
from assay.improve.journal.resume import ResumeState, resume_state
from assay.improve.journal.run_folder import RunFolder
from assay.improve.levers.lever import Candidate
from assay.improve.loop.options import DRY_RUN, RunOptions
from assay.improve.loop.state import Captured, Chosen, RunState
from assay.improve.loop.trials import adopt
from assay.intervals import Interval
from assay.load.workloads.reading import read_requests
from assay.load.workloads.workload import Direction, Workload

WORKLOAD = "workload.jsonl"
"""The requests of a run, kept so that it can be repeated."""


def subject_of(folder: RunFolder) -> dict[str, Any]:
    """Which engine a run tuned, as its command named it."""
    subject = resume_state(folder).started.get("subject")
    if not isinstance(subject, dict) or not subject:
        raise InputError(
            f"run {folder.id} cannot be resumed from the command line: a program started it",
            "resume it from that program: assay.optimize(engine, resume=...)",
        )
    return subject


def options_of(folder: RunFolder, budget_s: float) -> RunOptions:
    """The options of a run, with a budget of its own for what comes now."""
    started = resume_state(folder).started
    if started.get("kind") == "gate":
        raise InputError(
            f"run {folder.id}: expected a run of assay run, got a gate, which has nothing to go on with",
            "assay runs list shows all; --resume RUN names one",
        )
    stored = dict(started.get("options") or {})
    if stored.get("dry_run"):
        raise InputError(
            f"run {folder.id}: expected a run that tries changes, got a dry run, which has nothing to go on with",
            "assay run without --dry-run starts one",
        )
    stored |= {
        "budget_s": budget_s,
        "only": tuple(stored.get("only") or ()),
        "skip": tuple(stored.get("skip") or ()),
        "lever_files": tuple(Path(path) for path in stored.get("lever_files") or ()),
    }
    return RunOptions(**stored)


def workload_of(folder: RunFolder) -> Workload:
    """The requests of a run, as they were saved."""
    return read_requests(folder.path / WORKLOAD)


def restore(state: RunState) -> bool:
    """Take up what earlier parts of the run found; whether its candidates are ranked already."""
    past = resume_state(state.folder)
    _check(state, past)
    state.spent_before_s = past.elapsed_s
    state.degradations += [
        degradation for degradation in past.degradations if degradation not in state.degradations
    ]
    if past.start is not None:
        state.start = dict(past.start)
    better = state.workload.objective.better
    # Of a trial that went on, the last verdict.
    last = {
        str(data["experiment"]): data
        for data in past.verdicts
        if data.get("role", "trial") == "trial"
    }
    results = [
        _result(data, past.blocks_of(experiment), better) for experiment, data in last.items()
    ]
    kept = {str(record.get("experiment")): record for record in past.kept}
    for result in results:
        record = kept.get(result.experiment, {})
        adopt(
            state, result, is_kept=result.experiment in kept, is_raced=bool(record.get("is_raced"))
        )
    state.names |= {str(verdict["experiment"]) for verdict in past.verdicts}
    return _ranked(state)


def _check(state: RunState, past: ResumeState) -> None:
    """Refuse an engine that is not the run's."""
    description = state.description
    for name, now in (("engine", description.engine), ("model", description.model)):
        before = past.started.get(name)
        if before != now:
            raise InputError(
                f"run {past.run.id}: expected the {name} {before}, got {now}",
                "start a new run for another one",
            )


def _ranked(state: RunState) -> bool:
    """The candidates of the plan, less those that were decided."""
    reading = journals.read(state.folder.path)
    if reading.last("candidates") is None:
        return False
    state.plan = state.folder.read_json(state.folder.plan.name)
    fingerprint = reading.last("fingerprint")
    if fingerprint is not None:
        state.captured = Captured(fingerprint=dict(fingerprint.data))
    state.skipped = [
        (str(row["lever"]), str(row["reason"])) for row in state.plan.get("skipped", ())
    ]
    decided = {result.candidate.name for result in state.results if result.verdict != "undecided"}
    ranked = tuple(_candidate(row) for row in state.plan.get("candidates", ()))
    again = reading.last("ranking")
    last = [] if again is None else [_candidate(row) for row in again.data["candidates"]]
    # What was ranked again comes in that order; undecided trials of before, then, are tried again.
    names = {candidate.name for candidate in last}
    left = [*last, *(candidate for candidate in ranked if candidate.name not in names)]
    state.chosen = Chosen(
        tuple(candidate for candidate in left if candidate.name not in decided),
        ranked,
        stop=DRY_RUN if state.options.dry_run else "",
    )
    return True


def _result(
    data: Mapping[str, Any], blocks: Sequence[Block], better: Direction
) -> ExperimentResult:
    """A verdict of the journal with its blocks; looks follow from those."""
    design = Design(**data.get("design") or {})
    return ExperimentResult(
        experiment=str(data["experiment"]),
        candidate=_candidate(data["candidate"]),
        verdict=data["verdict"],
        ratio=_figure(data.get("ratio")),
        reason=str(data.get("reason", "")),
        blocks=tuple(blocks),
        looks=tuple(looks_of(blocks, better, design=design)),
        design=design,
        gates=tuple(GateResult(**gate) for gate in data.get("gates", ())),
        seconds=float(data.get("seconds", 0.0)),
        failure=str(data.get("failure", "")),
        futile=bool(data.get("futile", False)),
        answers=ComparedAnswers.from_data(data.get("answers")),
        notes=tuple(data.get("notes", ())),
    )


def _candidate(data: Mapping[str, Any]) -> Candidate:
    values = dict(data)
    values |= {
        "levers": tuple(values["levers"]),
        "notes": tuple(values.get("notes", ())),
        "prediction": _figure(values.get("prediction")),
    }
    return Candidate(**values)


def _figure(data: Any) -> Interval | None:
    """A figure as JSON has it; an end without a limit is null there."""
    if not isinstance(data, Mapping) or data.get("value") is None:
        return None
    lo, hi = data.get("lo"), data.get("hi")
    return Interval(
        float(data["value"]),
        0.0 if lo is None else float(lo),
        float("inf") if hi is None else float(hi),
    )
