"""One trial: a candidate on top of what is kept, journaled, and kept where it is proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.result import ExperimentResult, Look
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.starts import start_noise
from assay.improve.experiments.verdict import between, percent
from assay.improve.journal.chain import plain
from assay.improve.levers.lever import Candidate
from assay.improve.loop.state import KeptStack, RunState, Trial
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting


def current(state: RunState) -> dict[str, Setting]:
    """The settings that the loop holds the engine at: the start with the kept changes."""
    return {**state.start, **state.stack.changes}


def bring_to(state: RunState, wanted: Mapping[str, Setting]) -> None:
    """Give the engine these settings, if it has others; a restart is made only when it is needed.

    A server that was found may state less than the same one started by a run: what it did not state, and
    nobody has changed since, is no setting to go back to.
    """
    now = state.engine.settings()
    changed = {name for change in state.engine.stack for name in change.changes}
    changes = {
        name: value
        for name, value in wanted.items()
        if now.get(name) != value and (value is not None or name in changed)
    }
    if changes:
        shown = ", ".join(f"{name}={value}" for name, value in changes.items())
        state.progress.say(f"setting {shown}")
        state.engine.configure(changes)


def on_top(state: RunState, candidate: Candidate) -> Candidate | None:
    """The candidate's changes that are not in force; None where nothing would change."""
    now = current(state)
    changes = {name: value for name, value in candidate.changes.items() if now.get(name) != value}
    return replace(candidate, changes=changes) if changes else None


def trial(
    state: RunState, candidate: Candidate, settings: ExperimentSettings
) -> ExperimentResult | None:
    """Experiment with a candidate; None where it is in force already."""
    candidate_now = on_top(state, candidate)
    if candidate_now is None:
        return None
    bring_to(state, current(state))
    state.progress.say(f"trying {candidate_now.name}")
    result = measured(state, candidate_now, settings, name_of(state, candidate_now))
    record(state, result)
    adopt(state, result, is_kept=False)
    if result.verdict == "improved":
        keep(state, result)
    return result


def continued(state: RunState, before: Trial, settings: ExperimentSettings) -> ExperimentResult:
    """Go on with a trial that was not decided, on the same settings."""
    bring_to(state, current(state))
    earlier = before.result
    state.progress.say(f"going on with {earlier.candidate.name}")
    result = measured(state, earlier.candidate, settings, earlier.experiment, earlier)
    record(state, result)
    state.trials.remove(before)
    adopt(state, result, is_kept=False)
    if result.verdict == "improved":
        keep(state, result)
    return result


def measured(
    state: RunState,
    candidate: Candidate,
    settings: ExperimentSettings,
    name: str,
    earlier: ExperimentResult | None = None,
) -> ExperimentResult:
    """An experiment whose every block is on disk as it comes."""
    if earlier is None:
        name = unique(state, name)
    state.names.add(name)
    state.journal.append(
        "experiment",
        experiment=name,
        name=name,
        candidate=plain(candidate),
        budget_s=settings.budget_s,
        goes_on=earlier is not None,
        control=dict(state.engine.settings()),
    )
    restarted = (past.blocks for past in state.results if past.design.shares_starts)
    settings = replace(
        settings, first_request=state.asked, start_sd=start_noise(restarted).assumed_sd
    )
    result = run_experiment(
        state.engine,
        state.workload,
        candidate,
        settings,
        name=name,
        reference=state.control.reference,
        on_block=state.keep_block,
        on_look=lambda look: state.progress.say(_shown(candidate, look)),
        clock=state.budget.clock,
        known=state.answers_of_now(),
        earlier=earlier,
    )
    state.went_through(result.blocks[len(earlier.blocks) if earlier is not None else 0 :])
    return result


def _shown(candidate: Candidate, look: Look) -> str:
    ratio = look.ratio
    return f"{candidate.name}: {percent(ratio.value)} ({between(ratio)})"


def name_of(state: RunState, candidate: Candidate) -> str:
    """A name that no other experiment of the run has."""
    return f"{len(state.results) + 1:02d} {candidate.name}"


def unique(state: RunState, name: str) -> str:
    """A name with a number, where an earlier part of the run has had it."""
    number, free = 1, name
    while free in state.names:
        number += 1
        free = f"{name} ({number})"
    return free


def record(state: RunState, result: ExperimentResult, role: str = "trial") -> None:
    """Put a verdict on disk and on the screen."""
    elapsed = state.spent_before_s + state.budget.spent
    state.journal.append("verdict", role=role, elapsed_s=elapsed, **verdict_data(result))
    state.progress.result(sentence(result))


def verdict_data(result: ExperimentResult) -> dict[str, object]:
    """A result without its blocks, which have records of their own."""
    bare = replace(result, blocks=(), looks=())
    data: dict[str, object] = plain(bare)
    return {name: value for name, value in data.items() if name not in ("blocks", "looks")}


def adopt(
    state: RunState, result: ExperimentResult, *, is_kept: bool, is_raced: bool = False
) -> None:
    """Take a result into the state without touching the engine."""
    state.trials.append(Trial(result, state.stack))
    if is_kept:
        state.stack = _on_top_of(state.stack, result, state.start, is_raced=is_raced)


def _on_top_of(
    stack: KeptStack, result: ExperimentResult, start: Mapping[str, Setting], *, is_raced: bool
) -> KeptStack:
    """A proven change on top of what is kept."""
    changes = result.candidate.changes
    now = {**stack.changes, **changes}
    return KeptStack(
        (*_without(stack.results, changes), result),
        {name: value for name, value in now.items() if value != start[name]},
        stack.gained if result.ratio is None else product(stack.gained, result.ratio),
        is_raced or stack.is_raced,
    )


def keep(state: RunState, result: ExperimentResult, *, is_raced: bool = False) -> None:
    """Make a proven change part of the stack that later trials build on.

    The engine gets it with the next trial: one restart for several changes. `is_raced`: it is the best
    of several.
    """
    changes = result.candidate.changes
    state.stack = _on_top_of(state.stack, result, state.start, is_raced=is_raced)
    state.journal.append(
        "kept",
        experiment=result.experiment,
        levers=list(result.candidate.levers),
        changes=dict(changes),
        is_raced=is_raced,
    )
    if moved := followed(result):
        state.notes.append(f"{result.candidate.name}: {moved}")
    state.progress.best(state.stack.gained, state.budget.remaining)


def followed(result: ExperimentResult) -> str:
    """Knobs that nobody asked for and the engine changed with the candidate's; empty for none."""
    gates = [gate for gate in result.gates if gate.evidence.get("followed")]
    return gates[-1].statement.partition("; ")[2] if gates else ""


def _without(
    kept: Iterable[ExperimentResult], changes: Mapping[str, Setting]
) -> Iterator[ExperimentResult]:
    """What was kept before, without knobs that are set anew: one result owns each knob."""
    for result in kept:
        own = result.candidate
        left = {name: value for name, value in own.changes.items() if name not in changes}
        if left:
            yield replace(result, candidate=replace(own, changes=left))


def product(first: Interval, second: Interval) -> Interval:
    """The product of two ratios, ends with ends."""
    return Interval(first.value * second.value, first.lo * second.lo, first.hi * second.hi)


def sentence(result: ExperimentResult) -> str:
    """A result in one line."""
    return f"{result.verdict}: {result.candidate.name}, {result.reason}"
