"""Experiments: the noise floor, single levers by rank, then all knobs together."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.errors import NoDataError
from assay.improve.experiments.correctness import baseline_reference
from assay.improve.experiments.noise import measure_noise
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate
from assay.improve.loop.allotment import MOST_SHARE, Allotment
from assay.improve.loop.finishing import leaves_room
from assay.improve.loop.joint import JointSearch
from assay.improve.loop.phases.soak import (
    REPORT_S,
    must_be_proven_at_once,
    proving,
    time_before_soak,
    too_short_to_prove,
)
from assay.improve.loop.reranking import rerank
from assay.improve.loop.state import Control, RunState, start_seconds
from assay.improve.loop.trials import continued, on_top, trial, verdict_data
from assay.load.workloads.workload import is_greedy

SHARE: Final = 0.12
"""Part of the time for experiments that the noise floor takes."""
LEAST_S: Final = 2.0
BLOCK_SHARE: Final = 0.004
"""Length of a block as a part of the time for experiments, within the limits below."""
LEAST_BLOCK_S: Final = 0.3
MOST_BLOCK_S: Final = 10.0
ONE_START: Final = (
    "of one start: where the engine is restarted, what differs between starts comes on top"
)
EFFECT: Final = 0.03
"""The change that blocks are sized to find first."""


def noise_floor(state: RunState, share: float = SHARE) -> Allotment:
    """Probe the start against itself, measure it against itself; how long trials take here."""
    state.progress.say("probing the start: does it repeat its own answers?")
    reference = baseline_reference(state.engine)
    state.control = Control(reference)
    gate = reference.gate
    if not gate.passed:
        raise NoDataError(
            f"the engine as it was found does not pass the correctness gate: {gate.statement}",
            "a gain over wrong answers is worth nothing; mend the baseline first",
        )
    seconds = max(state.budget.left("experiments"), LEAST_S / SHARE)
    base = ExperimentSettings(
        budget_s=max(share * seconds, LEAST_S),
        block_s=min(max(BLOCK_SHARE * seconds, LEAST_BLOCK_S), MOST_BLOCK_S),
        practical_threshold=state.options.threshold,
        allow_lossy=state.options.allow_lossy,
        answer_confidence=state.options.answer_confidence,
        seed=state.options.seed,
    )
    state.progress.say("measuring the noise: the start against itself (A/A)")
    result, floor = measure_noise(
        state.engine,
        state.workload,
        base,
        on_block=state.keep_block,
        clock=state.budget.clock,
        known=state.answers_of_now(),
    )
    state.went_through(result.blocks)
    if any(not candidate.hot for candidate in state.chosen.candidates):
        result = replace(result, reason=f"{result.reason}; {ONE_START}")
    state.control = replace(state.control, noise=result)
    state.journal.append("noise", **verdict_data(result))
    state.progress.result(result.reason)
    if result.verdict == "invalid":
        state.degrade(f"A/A: {result.reason}")
    if not floor.follows and all(map(is_greedy, state.workload.requests)):
        state.degrade(
            "the engine gives no log-probabilities of answers: one that differs cannot be told from a "
            "near tie, and counts as wrong"
        )
    settings = replace(floor.settings(base, EFFECT), switch_s=state.restart_s)
    return Allotment(floor, settings, state.restart_s)


HOPELESS: Final = 1.0
"""A candidate whose predicted interval ends below this is not tried."""


def experiment(state: RunState) -> Allotment:
    """Try candidates until the budget ends, the target is proven, or nothing is left."""
    state.begin("experiments")
    allotment = noise_floor(state)
    if short := too_short_to_prove(state, allotment):
        state.progress.note(short)
        state.notes.append(short)
    search = JointSearch(state)
    pending = list(state.chosen.candidates)
    trials = 0
    while not is_over(state, trials):
        candidate = pending.pop(0) if pending else search.next()
        if candidate is None:
            if not _go_on(state, allotment, search):
                break
            continue
        if reason := search.forbids(candidate) or pointless(state, candidate):
            state.skipped.append((candidate.name, reason))
            continue
        left = min(state.budget.left("experiments"), time_before_soak(state, allotment))
        at_once = must_be_proven_at_once(state, allotment, candidate)
        if at_once:
            left = state.budget.remaining - REPORT_S
        if allotment.least_s(candidate) > left:
            out_of_time(state, candidate, len(pending))
            break
        seconds = allotment.budget_s(candidate, left, others_wait=len(state.chosen.candidates) > 1)
        settings = replace(allotment.settings, budget_s=seconds)
        if at_once:
            settings = proving(state, allotment, candidate, left)
        result = trial(state, candidate, settings)
        if not candidate.hot:
            allotment = with_restarts(state, allotment)
        if result is not None:
            trials += 1
            if at_once and result.verdict == "improved":
                state.soaked = replace(state.soaked, confirmation=result)
                if pending:
                    out_of_time(state, pending[0], len(pending) - 1)
                break
            search.learn(state.trials[-1])
            if pending and result.verdict == "improved":
                pending = rerank(state, pending)
    return allotment


def with_restarts(state: RunState, allotment: Allotment) -> Allotment:
    """Times of trials with that of a restart, which the first one showed of a server that was found."""
    if not state.restart_s:
        state.restart_s = start_seconds(state.engine.describe())
        settings = replace(allotment.settings, switch_s=state.restart_s)
        allotment = replace(allotment, settings=settings, restart_s=state.restart_s)
    return allotment


def _go_on(state: RunState, allotment: Allotment, search: JointSearch) -> bool:
    """Spend what is left on the undecided trial that should gain most; whether there was one."""
    left = min(state.budget.left("experiments"), time_before_soak(state, allotment))
    undecided = [
        trial
        for trial in state.trials
        if leaves_room(trial.result, state.options.threshold)
        and trial.before.changes == state.stack.changes
        and trial.result.blocks
        and allotment.least_s(trial.result.candidate) <= left
    ]
    if not undecided:
        return False
    best = max(undecided, key=lambda trial: trial.result.ratio.value if trial.result.ratio else 0.0)
    most = left if len(undecided) == 1 else MOST_SHARE * left
    seconds = max(most, allotment.least_s(best.result.candidate))
    continued(state, best, replace(allotment.settings, budget_s=seconds))
    search.learn(state.trials[-1])
    return True


def pointless(state: RunState, candidate: Candidate) -> str:
    """Why a candidate is not worth its time; empty where it is."""
    if on_top(state, candidate) is None:
        return "in force already"
    prediction = candidate.prediction
    if prediction is not None and prediction.hi < HOPELESS:
        return f"predicted to lose: {prediction.value:.2f}x, at most {prediction.hi:.2f}x"
    # Of values of one lever those of the start compare: each is one change of it.
    of_start = {ranked.name: ranked.prediction for ranked in state.chosen.ranked}
    own = of_start.get(candidate.name)
    for result in state.stack.results:
        other = of_start.get(result.candidate.name)
        if result.candidate.levers != candidate.levers or other is None or own is None:
            continue
        if own.value <= other.value:
            return f"{result.candidate.name} is kept, which was predicted to gain as much or more"
    return ""


def out_of_time(state: RunState, candidate: Candidate, more: int) -> None:
    """Say what was not tried."""
    state.untried = more + 1
    state.skipped.append((candidate.name, "not tried: the budget ended before its turn"))
    others = f" and {more} more candidates" if more else ""
    verb = "were" if more else "was"
    state.notes.append(
        f"{candidate.name}{others} {verb} not tried: the budget ended; assay run --resume "
        f"{state.folder.id} goes on with what is left"
    )


def is_over(state: RunState, trials: int) -> bool:
    """Whether as many candidates were tried as are allowed, or the target is gained."""
    most = state.options.top_n
    return (most is not None and trials >= most) or target_met(state)


def target_met(state: RunState) -> bool:
    """Whether what is kept gains what the user asked for."""
    target = state.options.target
    return target is not None and state.stack.gained.lo >= 1.0 + target
