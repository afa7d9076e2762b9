"""Experiments: the noise floor, single levers by rank, then all knobs together."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.improve.levers.lever import Candidate
from assay.improve.loop.allotment import Allotment
from assay.improve.loop.joint import JointSearch
from assay.improve.loop.noise import noise_floor
from assay.improve.loop.reranking import rerank
from assay.improve.loop.state import RunState
from assay.improve.loop.trials import on_top, trial

HOPELESS: Final = 1.0
"""A candidate whose predicted interval ends below this is not tried."""


def experiment(state: RunState) -> Allotment:
    """Try candidates until the budget ends, the target is proven, or nothing is left."""
    state.begin("experiments")
    allotment = noise_floor(state)
    search = JointSearch(state)
    pending = list(state.chosen.candidates)
    trials = 0
    while not _is_over(state, trials):
        candidate = pending.pop(0) if pending else search.next()
        if candidate is None:
            break
        if reason := search.forbids(candidate) or _pointless(state, candidate):
            state.skipped.append((candidate.name, reason))
            continue
        left = state.budget.left("experiments")
        if allotment.least_s(candidate) > left:
            _out_of_time(state, candidate, len(pending))
            break
        seconds = allotment.budget_s(candidate, left, others_wait=len(state.chosen.candidates) > 1)
        result = trial(state, candidate, replace(allotment.settings, budget_s=seconds))
        if result is not None:
            trials += 1
            search.learn(state.trials[-1])
            if pending and result.verdict == "improved":
                pending = rerank(state, pending)
    return allotment


def _pointless(state: RunState, candidate: Candidate) -> str:
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


def _out_of_time(state: RunState, candidate: Candidate, more: int) -> None:
    """Say what was not tried."""
    state.untried = more + 1
    state.skipped.append((candidate.name, "not tried: the budget ended before its turn"))
    if more:
        state.notes.append(f"{more} more candidates were not tried: the budget ended")


def _is_over(state: RunState, trials: int) -> bool:
    """Whether as many candidates were tried as are allowed, or the target is gained."""
    options = state.options
    if options.top_n is not None and trials >= options.top_n:
        return True
    return options.target is not None and state.stack.gained.lo >= 1.0 + options.target
