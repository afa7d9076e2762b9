"""`assay.optimize` and `assay run`: the loop, from what a user asks to the report of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from assay.errors import AssayError, InputError, unknown_name
from assay.improve.journal import run_folder
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.budget import LEAST_S, Budget
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.phases.candidates import check_levers
from assay.improve.loop.progress import Progress, Silent
from assay.improve.loop.record import RunRecord
from assay.improve.loop.resuming import options_of, subject_of, workload_of
from assay.load.workloads.spec import parse_duration, parse_share
from assay.report.price import Price, read_price
from assay.report.run import write_run
from assay.report.signing import read_private_key
from assay.report.stored import sign_report
from assay.runs.abandoned import end_abandoned
from assay.runs.calibrated import calibrated
from assay.runs.sharing import push_ended, refuse_other_places
from assay.runs.subject import opened
from assay.runs.subject_options import SubjectOptions
from assay.workloads.registry import WORKLOADS


def optimize(
    engine: Any = None,
    budget: str | float = "3m",
    target: str | float | None = None,
    *,
    resume: str | RunFolder | None = None,
    price: str | Price | None = None,
    sign: str | Path | None = None,
    progress: Progress | None = None,
    root: Path | None = None,
    command: str = "optimize",
    **options: Any,
) -> Outcome:
    """Improve an engine: an `assay.Engine`, a `vllm.LLM`, assay, vllm, or the URL of a server.

    Proven changes stay in force when it returns; everything else is undone. `budget` is a duration
    such as "24h" or seconds, `target` a gain such as 0.15 or "15%", `resume` an earlier run to go
    on with, `sign` a file with an Ed25519 private key to sign the report with. The
    other options are those of `assay run`, the fields of `SubjectOptions` (model,
    workload, slo, metric, concurrency, knobs ...) and `RunOptions` (only, skip, dry_run ...).

        outcome = assay.optimize(engine, budget="24h", target=0.15)
        print(outcome.verdict, outcome.ratio, outcome.launch_command)
    """
    _check_names(options)
    progress = progress or Silent()
    folder = run_folder.find(resume) if isinstance(resume, str) else resume
    seconds = parse_duration("--budget", budget)
    Budget(seconds, least_s=LEAST_S)
    if folder is not None:
        given = engine if isinstance(engine, str) else None
        _say_unused({**options, "engine": given, "target": target}, progress)
        chosen = options_of(folder, seconds)
        is_open = not isinstance(engine, str | None)
        named = {"engine": engine} if is_open else subject_of(folder)
        asked = SubjectOptions(**{**named, "budget_s": seconds})
    else:
        gain = None if target is None else parse_share("--target", target)
        chosen = RunOptions(budget_s=seconds, target=gain, **_of(RunOptions, options))
        asked = SubjectOptions(
            engine="assay" if engine is None else engine,
            budget_s=seconds,
            **_of(SubjectOptions, options),
        )
        if not (isinstance(asked.workload, str) and asked.workload in WORKLOADS):
            # Those of a workload on arrays are its settings, known once it is open.
            check_levers(None, chosen)
    # Before anything is measured: a key that cannot be read is bad input, not the end of a run.
    key = None if sign is None else read_private_key(Path(sign).expanduser())
    cost = read_price(price) if isinstance(price, str) else price
    planned = None if folder is None else workload_of(folder)
    refuse_other_places()
    end_abandoned(progress.note, progress.say)

    def write_report(path: Path, record: RunRecord, journal: Journal) -> None:
        write_run(path, record, journal, cost)

    with opened(asked, progress, planned) as subject:
        outcome = run_loop(
            subject.engine,
            subject.workload,
            chosen,
            write_report,
            model=subject.model,
            progress=progress,
            calibrate=_calibrate,
            root=root,
            command=command,
            subject=asked.to_record(),
            resume=folder,
            prepared_s=subject.prepared_s,
        )
    return _shared(outcome if key is None else _signed(outcome, key), progress)


def _say_unused(options: dict[str, Any], progress: Progress) -> None:
    """A run goes on with the options it began with: others are named, and a dry run is refused."""
    usual = {
        field.name: field.default for kind in (SubjectOptions, RunOptions) for field in fields(kind)
    }
    usual["engine"] = None
    unused = [name for name, value in options.items() if value != usual[name]]
    if "dry_run" in unused:
        raise InputError(
            "--dry-run: expected it without --resume, got both",
            "a run goes on by trying changes; assay run --dry-run starts one that tries none",
        )
    if unused:
        progress.note(
            f"{', '.join(unused)}: not used, as a run goes on with the options it began with"
        )


def _of(kind: type[RunOptions | SubjectOptions], options: dict[str, Any]) -> dict[str, Any]:
    """The options that are fields of a class."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}


def _check_names(options: dict[str, Any]) -> None:
    known = [field.name for kind in (SubjectOptions, RunOptions) for field in fields(kind)]
    for name in options:
        if name not in known:
            raise unknown_name("option", name, known)


def _calibrate(
    device: str, formats: Collection[str], path: Path, say: Callable[[str], None]
) -> None:
    """Measure what predicting one model needs, in seconds; `assay calibrate` measures all."""
    from assay.planner.calibrate import save
    from assay.runtime.hardware import Device

    save(calibrated(Device(device), say, formats), path)


def _signed(outcome: Outcome, key: Any) -> Outcome:
    """Sign the report; a run without one that holds is left without a signature, and says so."""
    try:
        note = f"signed by key {sign_report(outcome.run, key)}"
    except AssayError as error:
        note = f"the run is not signed: {error.message}"
    return replace(outcome, notes=(*outcome.notes, note))


def _shared(outcome: Outcome, progress: Progress) -> Outcome:
    """Push the run into the team's store, where there is one, and say where it went."""
    notes = push_ended(outcome.run)
    for note in notes:
        progress.note(note)
    return replace(outcome, notes=(*outcome.notes, *notes))
