"""The end of a run: the safe state, the verdict, and everything written down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from assay.answers import data_of
from assay.errors import AssayError
from assay.improve.engines.protocol import EngineLostError
from assay.improve.experiments.levels import level
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.journal import block_table
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.rollback_check import check_rollback
from assay.improve.journal.run_folder import configuration_hash
from assay.improve.loop.budget import TITLES
from assay.improve.loop.outcome import Outcome, RunVerdict
from assay.improve.loop.record import RunRecord
from assay.improve.loop.state import RunState
from assay.improve.loop.trials import bring_to, current
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Window

USEFUL_BOUND: Final = 2.0
"""A bound of a gain above this, as two noisy pairs leave it, says nothing of the lever."""


def run_verdict(
    *,
    diagnosed_only: bool,
    confirmation: ExperimentResult | None,
    kept: Sequence[ExperimentResult],
    others: Sequence[ExperimentResult],
    threshold: float,
    untried: int = 0,
    interrupted: bool = False,
    raced: bool = False,
) -> tuple[RunVerdict, str]:
    """The verdict and why.

    Improved: the whole stack was measured again against the start, and is better. Nothing to gain:
    nothing was kept, and no trial leaves room for more than the practical threshold. Undecided:
    the budget ended, or the run was interrupted, before the trials told, or, of what was `raced`,
    before the confirmation.
    """
    if diagnosed_only:
        return "diagnosed only", "no experiment was made"
    if confirmation is not None and kept:
        if confirmation.verdict == "improved":
            return "improved", confirmation.reason
        return "undecided", f"the kept levers together are not proven: {confirmation.reason}"
    if kept and raced and interrupted:
        return "undecided", "interrupted before confirmation"
    if kept:
        return "undecided", "the kept levers were not measured again together"
    if interrupted:
        done = f"after {len(others)} trials" if others else "before the first trial ended"
        return "undecided", f"interrupted {done}"
    open_ones = [other for other in others if leaves_room(other, threshold)]
    if untried and not open_ones:
        return "undecided", f"the budget ended before {untried} candidates were tried"
    if not open_ones:
        count = len(others)
        tried = "no lever applies" if not count else f"none of {count} trials gains {threshold:.0%}"
        hidden = max((math.expm1(other.design.start_half) for other in others), default=0.0)
        if hidden > threshold:
            tried += f"; less than {hidden:.1%} cannot be told from what differs between starts"
        return "nothing to gain", tried
    most = max(open_ones, key=lambda result: result.ratio.hi if result.ratio is not None else 0.0)
    assert most.ratio is not None
    sentence = f"{len(open_ones)} of {len(others)} trials are undecided"
    if most.ratio.hi < USEFUL_BOUND:
        sentence += f"; {most.candidate.name} may still gain up to {most.ratio.hi - 1:.1%}"
    return "undecided", sentence


def leaves_room(result: ExperimentResult, threshold: float) -> bool:
    """Whether a trial that was not kept may still gain more than the threshold."""
    if result.verdict != "undecided" or result.ratio is None or result.futile:
        return False
    # More pairs do not tell a gain from what differs between starts; the verdict says how much that is.
    return result.ratio.hi > (1.0 + threshold) * math.exp(result.design.start_half)


def split(
    results: Sequence[ExperimentResult], kept: Sequence[ExperimentResult]
) -> tuple[tuple[ExperimentResult, ...], tuple[ExperimentResult, ...]]:
    """Undecided and rejected trials, without those that were kept."""
    kept_names = {result.experiment for result in kept}
    others = [result for result in results if result.experiment not in kept_names]
    undecided = tuple(other for other in others if other.verdict == "undecided")
    rejected = tuple(other for other in others if other.verdict != "undecided")
    return undecided, rejected


def finish(state: RunState, failure: tuple[RunVerdict, str] | None = None) -> Outcome:
    """Settle the engine, judge, write the files and the report."""
    state.end_phase()
    verdict, reason = failure or _judged(state)
    if failure is None and state.watched.reason:
        # The watch has brought the start back already.
        verdict, reason = "rolled back", state.watched.reason
    elif failure is None:
        verdict, reason = _settle(state, verdict, reason)
    outcome = _outcome(state, verdict, reason)
    _write_files(state)
    state.write_report(state.folder.path, _record(state, outcome), state.journal)
    state.journal.append(
        "finished",
        **outcome.to_json(),
        reason=reason,
        elapsed_s=state.spent_before_s + state.budget.spent,
        hash=None if outcome.settings is None else configuration_hash(outcome.settings),
    )
    return outcome


def _judged(state: RunState) -> tuple[RunVerdict, str]:
    kept = {result.experiment for result in state.stack.results}
    others = [result for result in state.results if result.experiment not in kept]
    verdict, reason = run_verdict(
        diagnosed_only=bool(state.chosen.stop),
        confirmation=state.soaked.confirmation,
        kept=state.stack.results,
        others=others,
        threshold=state.options.threshold,
        untried=state.untried,
        interrupted=state.interrupted,
        raced=state.stack.is_raced,
    )
    return verdict, state.chosen.stop or reason


def _stays(state: RunState, verdict: RunVerdict) -> bool:
    """Whether the kept levers stay in force.

    After an interruption each of them is proven on top of those before, and only their sum is not. The
    best of a race is not proven by itself: the luck of being the best counts in its confirmation alone.
    """
    if verdict == "improved":
        return True
    unconfirmed = state.interrupted and state.soaked.confirmation is None
    return verdict == "undecided" and unconfirmed and not state.stack.is_raced


def _settle(state: RunState, verdict: RunVerdict, reason: str) -> tuple[RunVerdict, str]:
    """Leave the engine with the proven stack, or as it was found."""
    confirmed = state.soaked.confirmation
    if not state.stack.results and verdict != "improved":
        return verdict, reason
    if _stays(state, verdict):
        why = "the kept levers at the interruption, each proven by itself"
        if verdict == "improved":
            why = "the stack of kept levers, confirmed against the start"
        bring_to(state, current(state))
        state.engine.declare_safe(why)
        return verdict, reason
    if state.interrupted and confirmed is None:
        names = ", ".join(result.candidate.name for result in state.stack.results)
        state.notes.append(
            f"{names} won a race and was taken back, as it was not confirmed; assay run --resume "
            f"{state.folder.id} goes on with its confirmation"
        )
    state.engine.revert("the kept levers together are not proven")
    _check_rollback(state)
    if confirmed is not None and confirmed.verdict in ("regressed", "invalid"):
        return "rolled back", confirmed.reason
    return verdict, reason


def _check_rollback(state: RunState) -> None:
    """Show that the metric is what it was before the changes (TOST)."""
    if state.control.noise is None:
        return
    before = state.control.noise.blocks
    window = Window(requests=max((block.requests for block in before), default=1))
    rollback = check_rollback(state.engine, state.workload, window, before, state.journal)
    if rollback is not None:
        state.notes.append(f"after the rollback: {rollback.statement}")


def _outcome(state: RunState, verdict: RunVerdict, reason: str) -> Outcome:
    undecided, rejected = split(state.results, state.stack.results)
    confirmed = state.soaked.confirmation
    is_kept = _stays(state, verdict)
    kept = tuple(state.stack.results) if is_kept else ()
    unconfirmed = () if is_kept else tuple(state.stack.results)
    if state.interrupted and confirmed is None:
        undecided, unconfirmed = (*undecided, *unconfirmed), ()
    settings = _read_back(state)
    ratio = confirmed.ratio if confirmed is not None else None
    baseline, final = _levels(state)
    target = state.options.target
    met = None
    if target is not None:
        met = verdict == "improved" and ratio is not None and ratio.lo >= 1.0 + target
    command = state.engine.launch_command(settings if settings is not None else current(state))
    notes = (reason, *state.notes, _spending(state), *_time_taken(state))
    return Outcome(
        run=state.folder.path,
        verdict=verdict,
        metric=state.workload.objective.metric,
        baseline=baseline,
        final=final,
        ratio=ratio,
        kept=kept,
        undecided=undecided,
        rejected=rejected,
        unconfirmed=unconfirmed,
        data_set=state.workload.data_set,
        target=target,
        target_met=met,
        settings=settings,
        launch_command=command,
        report=state.folder.report_html,
        notes=notes,
        problem=_problem(verdict, notes[0], state.folder.id),
    )


def _problem(verdict: RunVerdict, reason: str, run: str) -> AssayError | None:
    """What sets an exit code other than 0."""
    if verdict == "engine lost":
        return EngineLostError(reason, f"assay runs show {run}")
    if verdict == "rolled back":
        return RollbackError(reason, f"assay runs show {run}")
    return None


def _spending(state: RunState) -> str:
    """What the budget went to."""
    parts = [("preparing", state.prepared_s)] if state.prepared_s else []
    # The watch is on top of the budget.
    budgeted = [phase for phase in state.phases if phase[0] in TITLES.values()]
    parts += [(title, seconds) for title, _, seconds in budgeted]
    listed = ", ".join(f"{title} {seconds:.0f} s" for title, seconds in parts)
    return f"the budget, {state.budget.total_s:.0f} s: {listed or 'nothing'}"


def _time_taken(state: RunState) -> list[str]:
    """How long the run took, where that is beyond its budget."""
    spent, budget = state.budget.spent - state.watched.seconds, state.budget.total_s
    if spent <= 1.05 * budget:
        return []
    why = "the machine was slower than planned"
    if state.prepared_s:
        why = f"preparing took {state.prepared_s:.0f} s of it, and the rest longer than planned"
    return [f"took {spent:.0f} s of a budget of {budget:.0f} s: {why}"]


def _read_back(state: RunState) -> dict[str, Setting] | None:
    """The final configuration; None where the engine does not answer any more."""
    try:
        return dict(state.engine.settings())
    except AssayError as error:
        state.degrade(f"the final settings could not be read back: {error.message}")
        return None


def _levels(state: RunState) -> tuple[Interval | None, Interval | None]:
    """The metric at the start and at the end, from the confirmation or the A/A blocks."""
    if state.soaked.confirmation is not None:
        blocks = state.soaked.confirmation.blocks
        return level(_values(blocks, "control")), level(_values(blocks, "treatment"))
    if state.control.noise is not None:
        blocks = state.control.noise.blocks
        return level([*_values(blocks, "control"), *_values(blocks, "treatment")]), None
    return None, None


def _values(blocks: Iterable[Block], arm: str) -> list[float]:
    return [
        block.value
        for block in blocks
        if block.arm == arm and not block.dropped and block.pair >= 0
    ]


def _write_files(state: RunState) -> None:
    """Everything that claims rest on; complete before the report hashes it."""
    if state.recording is not None:
        state.recording.finish()
        if state.recording.gap:
            state.degrade(state.recording.gap)
    block_table.rebuild(state.folder)
    state.folder.write_json(state.folder.plan.name, state.plan)
    state.folder.write_degradations(state.degradations)


def _untried(state: RunState) -> Iterator[tuple[str, str]]:
    """Candidates whose turn never came, and why."""
    done = {name for name, _ in state.skipped}
    done |= {trial.result.candidate.name for trial in state.trials}
    why = state.chosen.stop or "the search ended before its turn"
    if state.interrupted:
        why = "the run was interrupted before its turn"
    for candidate in state.chosen.candidates:
        if candidate.name not in done:
            yield candidate.name, f"not tried: {why}"


def _record(state: RunState, outcome: Outcome) -> RunRecord:
    workload = state.workload
    return RunRecord(
        outcome=outcome,
        better=workload.objective.better,
        start=dict(state.start),
        fingerprint=state.captured.fingerprint,
        experiments=tuple(state.results),
        noise=state.control.noise,
        confirmation=state.soaked.confirmation,
        left_out=dict(state.soaked.left_out),
        skipped=(*state.skipped, *_untried(state)),
        machine=dict(state.description.hardware),
        workload={
            "name": workload.name,
            "description": workload.description,
            "requests": len(workload.requests),
            **data_of(workload, "arrival concurrency rate source"),
            "notes": list(workload.notes),
        },
        phases=tuple(state.phases),
        budget_s=state.budget.total_s,
        threshold=state.options.threshold,
        answer_confidence=state.options.answer_confidence,
        launch_start=state.engine.launch_command(state.start),
        degradations=tuple(state.degradations),
        seed=state.options.seed,
    )
