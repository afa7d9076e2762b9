"""`assay rollback`: undo what a run changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import Answer, Progress, silent
from assay.cluster import current
from assay.errors import AssayError, InputError
from assay.improve.fleet.node import Node, start_agent
from assay.improve.journal import active, journal as journals, run_folder
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.runs.abandoned import end_abandoned

ROLLBACK_S: Final = 1800.0
"""How long a node may take to stop its server and start it with the former settings."""
AGENT_LOG: Final = "rollback.log"


@dataclass(frozen=True)
class Rollback(Answer):
    """What was done to restore the settings of before a run."""

    run: str
    action: str
    statement: str
    settings: dict[str, Any] | None
    """The configuration that is in force, or that a start would have."""
    hash: str | None
    journal_intact: bool
    problems: list[str]


def roll_back(run: str, note: Progress = silent, progress: Progress = silent) -> Rollback:
    """Restore the settings of before a run, by the inverses that its journal holds.

    A server is started again with the settings it had; one that does not start is stopped, which
    is a problem, and one whose command cannot be started at all is left as it runs, which is an
    error. A run under way is refused. Runs that were cut short are ended first.
    """
    end_abandoned(note, progress)
    folder = run_folder.find(run)
    if any(other.run.id == folder.id and other.is_attended for other in active.active_runs()):
        raise InputError(
            f"run {folder.id} is under way: expected one that has ended",
            "interrupt it with Ctrl-C, and it restores the configuration itself",
        )
    if replicas := journals.read(folder.path).of("replica"):
        return _roll_back_fleet(folder, [record.data for record in replicas], progress)
    done = recover(folder, "assay rollback", "asked for", to_start=True, progress=progress)
    intact = journals.read(folder.path).is_intact
    problem: AssayError | None = None
    if done.action == "stopped" and done.problems:
        problem = RollbackError(f"{done.sentence}: {done.problems[0]}")
    elif not intact:
        problem = RollbackError(f"journal of {folder.id} does not verify: {done.problems[0]}")
    settings = None if done.settings is None else dict(done.settings)
    return Rollback(
        run=folder.id,
        action=done.action,
        statement=done.sentence,
        settings=settings,
        hash=None if settings is None else configuration_hash(settings),
        journal_intact=intact,
        problems=list(done.problems),
        problem=problem,
        notes=() if problem else done.problems,
    )


def _roll_back_fleet(
    folder: RunFolder, replicas: Sequence[Mapping[str, Any]], progress: Progress
) -> Rollback:
    """Undo a promotion on every node, one after another, by the nodes' own journals."""
    problems, actions = [], []
    by_actors = bool(replicas[0].get("by_actors"))
    if by_actors and not current.is_job():
        raise InputError(
            f"{folder.id}: was promoted by a Ray cluster: expected --on http://HEAD:8265",
            f"assay rollback {folder.id} --on http://HEAD:8265",
        )
    for number, replica in enumerate(replicas):
        name = str(replica["url"])
        progress(f"going back: {name}")
        log = folder.path / AGENT_LOG
        node = Node(name, start_agent(name, number, replica["python"], by_actors, log), log)
        try:
            done = node.ask("rollback", ROLLBACK_S, run=replica["run"])
            actions.append(str(done["action"]))
            problems += [f"{name}: {problem}" for problem in done["problems"]]
        except AssayError as error:
            problems.append(error.message)
        finally:
            node.end()
            node.wait(ROLLBACK_S)
    settings = dict(replicas[0]["settings"])
    statement = f"{folder.id}: {len(actions)} of {len(replicas)} replicas as before the promotion"
    return Rollback(
        run=folder.id,
        action="restarted" if "restarted" in actions else (actions or ["stopped"])[0],
        statement=statement,
        settings=settings,
        hash=configuration_hash(settings),
        journal_intact=journals.read(folder.path).is_intact,
        problems=problems,
        problem=RollbackError(f"{statement}: {problems[0]}") if problems else None,
    )
