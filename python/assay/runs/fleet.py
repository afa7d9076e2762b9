"""`assay run --replicas`: a staged promotion over a fleet, from options to report."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.answers import Answer, data_of, plain_data
from assay.cluster import current
from assay.engine.loading.user_knobs import read_knobs
from assay.errors import AssayError, InputError
from assay.improve.fleet.capacity import replicas_out
from assay.improve.fleet.promotion import Promotion, StagedPromotion
from assay.improve.fleet.protocol import ReplicaLostError, ReplicaRefusedError, Sample
from assay.improve.fleet.replicas import AgentFleet, FleetPlan, opened
from assay.improve.fleet.settings import PromotionSettings, most_out, stages
from assay.improve.fleet.watching import watch_fleet
from assay.improve.journal import journal as journals, run_folder
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.progress import Progress
from assay.intervals import Interval
from assay.load.metrics import limits_ms
from assay.load.workloads.archive import save
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Workload
from assay.report.fleet import FleetVerdict, write_fleet_report
from assay.runs.abandoned import end_abandoned
from assay.runs.sharing import push_ended, refuse_other_places

WINDOWS: Final = 30
"""Windows that a budget is divided into; rounds, restarts and going back take the rest."""
LEAST_WINDOW_S, MOST_WINDOW_S = 1.0, 60.0
UNKNOWN: Final = "not known: its agent was lost, and goes back by its own journal unless it had been told to keep"
GRACE: Final = 1.25
"""Times the budget after which agents go back that were not told to keep the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """What a user asks of a promotion."""

    urls: Sequence[str]
    restart: str | None
    promote: str | None = None
    """An earlier run of one engine, whose kept settings are promoted."""
    changes: Sequence[str] = ()
    """The change as NAME=VALUE, in place of a run."""
    adapter: str | None = None
    node_python: str | None = None
    max_out: int | None = None
    budget_s: float
    seed: int = 0
    watch: bool = False
    """Guard the fleet after promotion, until Ctrl-C or for `watch_s` seconds."""
    watch_s: float | None = None


class ReplicaEnd(NamedTuple):
    """How a replica was left."""

    run: str
    """The run of its agent on its node, which `assay rollback` there undoes."""
    state: str
    """With the change, as at the start, or not known."""


@dataclass(frozen=True)
class FleetOutcome(Answer):
    """What a promotion over a fleet came to; `assay run --replicas --json` prints it."""

    run: Path
    verdict: FleetVerdict
    reason: str
    metric: str
    ratio: Interval | None
    changes: Mapping[str, Setting]
    replicas: Mapping[str, ReplicaEnd]
    """By address."""
    rounds: int = 0
    out: int = 0
    """Replicas that were out at once at most."""
    report: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The keys that scripts read."""
        return {
            "run": str(self.run),
            **data_of(self, "verdict reason metric ratio changes replicas rounds out"),
            "report": None if self.report is None else str(self.report),
            "notes": plain_data(self.notes),
        }


@dataclass(slots=True)
class _Session:
    """A promotion under way, with its journal."""

    options: FleetOptions
    workload: Workload
    changes: Mapping[str, Setting]
    folder: RunFolder
    journal: Journal
    progress: Progress
    deadline: float
    notes: list[str] = field(default_factory=list)
    out: int = 1

    def record(self, kind: str, data: Mapping[str, Any]) -> None:
        """Put what happened on disk before anything follows from it."""
        self.journal.append(kind, **data)


def promote_fleet(
    options: FleetOptions, workload: Workload, progress: Progress, command: str = ""
) -> FleetOutcome:
    """Promote a change over replicas in stages, or leave every replica as it was.

    Raises what a replica was refused or failed with, when all others are back; the journal of the
    run and of each node says what was done.
    """
    stages(len(options.urls))
    changes = changes_of(options)
    if options.restart is None:
        raise InputError(
            "--replicas: expected --restart with the command of a replica, got none",
            "--restart 'CMD --port {port} {settings}'",
        )
    if twice := [url for url in options.urls if list(options.urls).count(url) > 1]:
        raise InputError(f"--replicas: expected each address once, got {twice[0]} twice")
    refuse_other_places()
    end_abandoned(progress.note, progress.say)
    folder = run_folder.create(f"fleet {workload.name}")
    with Journal.create(folder.path) as journal:
        journal.append(
            "started",
            command=command,
            engine="fleet",
            workload=workload.name,
            budget_s=options.budget_s,
            options=options,
            changes=dict(changes),
        )
        deadline = time.monotonic() + options.budget_s
        session = _Session(options, workload, changes, folder, journal, progress, deadline)
        outcome = _run(session)
    return replace(outcome, notes=(*outcome.notes, *push_ended(outcome.run)))


def changes_of(options: FleetOptions) -> dict[str, Setting]:
    """What is promoted: the settings that a run kept, or those that are named."""
    if (options.promote is None) == (not options.changes):
        got = "both" if options.changes else "neither"
        raise InputError(
            f"--replicas: expected --promote RUN or --change NAME=VALUE, got {got}",
            "tune one replica first: assay run --engine URL ..., then --promote latest",
        )
    if options.promote is None:
        return dict(read_knobs(options.changes))
    run = run_folder.find(options.promote)
    reading = journals.verify(run.path)
    ended, safe = reading.last("finished"), reading.of("safe")
    verdict = None if ended is None else ended.data.get("verdict")
    if verdict != "improved" or not safe:
        raise InputError(
            f"--promote: expected a run that improved its engine, got {run.id}: {verdict}",
            "assay runs list shows verdicts",
        )
    start, now = safe[0].data["settings"], safe[-1].data["settings"]
    return {name: value for name, value in now.items() if start.get(name) != value}


def _run(session: _Session) -> FleetOutcome:
    runs: dict[str, str] = {}
    lost: list[str] = []
    promotion: Promotion | None = None
    problem: AssayError | None = None
    try:
        with opened(_plan(session), session.folder.logs, session.progress.say) as fleet:
            for name, node in fleet.nodes.items():
                runs[name] = node.run
                data = {**fleet.descriptions[name], "url": name}
                data["python"] = session.options.node_python
                session.journal.append("replica", **data, by_actors=fleet.plan.by_actors)
            try:
                promotion = _promoted(session, fleet)
            finally:
                left = fleet.close()
                session.notes += left
                lost += [name for name, node in fleet.nodes.items() if node.is_lost]
            if problems := (*promotion.problems, *left):
                raise ReplicaLostError(problems[0], f"assay runs show {session.folder.id}")
    except KeyboardInterrupt:
        promotion = promotion or Promotion("undecided", "interrupted before the first stage")
    except AssayError as error:
        # The hint is printed with the error.
        notes = getattr(error, "__notes__", ())
        session.notes += [note for note in notes if note != f"hint: {error.hint}"]
        problem = error
    is_promoted = promotion is not None and promotion.verdict == "promoted"
    state = "with the change" if is_promoted else "as at the start"
    ends = {name: ReplicaEnd(run, UNKNOWN if name in lost else state) for name, run in runs.items()}
    return _finished(session, ends, promotion, problem)


def _plan(session: _Session) -> FleetPlan:
    options = session.options
    window_s = min(max(options.budget_s / WINDOWS, LEAST_WINDOW_S), MOST_WINDOW_S)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.jsonl"
        save(session.workload, path)
        requests = path.read_text("utf-8")
    assert options.restart is not None
    return FleetPlan(
        urls=list(options.urls),
        changes=session.changes,
        restart=options.restart,
        workload=requests,
        window_s=window_s,
        deadline_s=GRACE * options.budget_s,
        adapter=options.adapter,
        node_python=options.node_python,
        by_actors=options.node_python is None and current.is_job(),
        seed=options.seed,
    )


def _promoted(session: _Session, fleet: AgentFleet) -> Promotion:
    limits = limits_ms(session.workload.slo)
    settings = PromotionSettings(
        better=session.workload.objective.better,
        has_slo=bool(limits),
        judges_answers=session.options.promote is None,
        seed=session.options.seed,
    )
    progress = session.progress
    session.record("plan", {"settings": settings})
    promotion = StagedPromotion(
        fleet,
        settings,
        left_s=lambda: session.deadline - time.monotonic(),
        record=session.record,
        say=progress.result,
    )
    progress.phase("baseline of every replica", session.deadline - time.monotonic())
    promotion.baseline()
    fleet.out = session.out = _out(session, fleet, settings)
    shown = ", ".join(f"{name}={value}" for name, value in session.changes.items())
    progress.phase(f"stages of {shown}", session.deadline - time.monotonic())
    result = promotion.run()
    if promotion.answers.with_change:
        session.notes.append(promotion.answers.statement())
    elif result.rounds:
        session.notes.append("no answers were compared: none was greedy")
    if result.verdict == "promoted" and session.options.watch:
        progress.phase("watch", session.options.watch_s or 0.0)
        watched = watch_fleet(promotion, session.options.watch_s or math.inf)
        session.notes.append(watched.statement)
        if watched.reason:
            problems = tuple(watched.problems)
            return replace(result, verdict="regressed", reason=watched.reason, problems=problems)
    return result


def _out(session: _Session, fleet: AgentFleet, settings: PromotionSettings) -> int:
    """Replicas that may be out at once."""
    wanted = session.options.max_out or most_out(len(fleet.names))
    if not settings.has_slo:
        session.notes.append(
            f"no --slo: whether the fleet bears {wanted} of its replicas out was not measured"
        )
        return wanted

    def record(out: int, samples: Mapping[str, Sample]) -> None:
        bare = {name: replace(sample, answers={}) for name, sample in samples.items()}
        session.record("stage", {"stage": f"capacity with {out} out", "samples": bare})

    out = replicas_out(fleet, settings, wanted, record)
    session.progress.result(f"the SLO holds with {out} of {len(fleet.names)} replicas out")
    return out


def _finished(
    session: _Session,
    replicas: Mapping[str, ReplicaEnd],
    promotion: Promotion | None,
    problem: AssayError | None,
) -> FleetOutcome:
    verdict: FleetVerdict = "rolled back" if promotion is None else promotion.verdict
    reason = promotion.reason if promotion is not None else ""
    if problem is not None:
        reason = problem.message
        if isinstance(problem, ReplicaRefusedError):
            verdict = "refused"
    elif verdict == "regressed":
        problem = RollbackError(reason, f"assay runs show {session.folder.id}")
    outcome = FleetOutcome(
        run=session.folder.path,
        verdict=verdict,
        reason=reason,
        metric=session.workload.objective.metric,
        ratio=_printable(None if promotion is None else promotion.ratio),
        changes=session.changes,
        replicas=replicas,
        rounds=0 if promotion is None else promotion.rounds,
        out=session.out,
        report=session.folder.path / "report.md",
        notes=tuple(dict.fromkeys(session.notes)),
        problem=problem,
    )
    write_fleet_report(session.folder, outcome.to_json(), session.journal.read())
    session.journal.append("finished", **outcome.to_json())
    return outcome


def _printable(ratio: Interval | None) -> Interval | None:
    """None where a bound is infinite at both ends: nothing was told."""
    if ratio is None or (ratio.lo == 0.0 and math.isinf(ratio.hi)):
        return None
    return ratio
