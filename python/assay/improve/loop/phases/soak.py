"""Soak: each kept lever left out once, the whole stack measured again against the start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from assay.improve.experiments.holding import MOST_LATE
from assay.improve.experiments.outputs.bounds import answers_needed
from assay.improve.experiments.result import ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.journal.run_folder import configuration_hash
from assay.improve.levers.lever import Candidate, joined
from assay.improve.loop.allotment import SETTLING_BLOCKS, Allotment
from assay.improve.loop.state import RunState
from assay.improve.loop.trials import bring_to, current, measured, record
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Workload, is_greedy

REPORT_S: Final = 4.0
"""Seconds that are kept for writing the report."""
CONFIRMATION_MARGIN: Final = 1.5
"""Time for the confirmation over the least that a trial takes."""
MOST_PAIRS: Final = 30
"""Pairs of a confirmation, from which on its interval gets little narrower."""
MOST_OVERRUN: Final = 0.15
"""Part of the budget by which a run may be late to prove what it kept."""
PAIRS_SHARE: Final = 0.4
"""Part of the confirmation's time for its pairs; the treatment is held for the rest."""
MOST_HELD_S: Final = 1800.0
"""Seconds of soak, after which slow effects would show."""
FOLLOWING_SHARE: Final = 0.25
"""Time to lead the control along an answer, over the time to give it: prompt and answer are read at once."""
CONFIRMATION: Final = "confirmation"


class Racing(Protocol):
    """A race that candidates came from."""

    def proving(self, candidate: Candidate) -> Allotment:
        """Bring start and stack to where they are compared for good; the times of that."""


def soak(state: RunState, allotment: Allotment, race: Racing | None = None) -> None:
    """Give credit where it is due, and prove the whole; what is not proven is taken back."""
    state.begin("soak")
    if not state.stack.results or state.soaked.confirmation is not None:
        return
    seconds = state.budget.remaining - REPORT_S
    if race is None:
        _leave_each_out(state, allotment, seconds - _stack_s(state, allotment))
    elif len(_units(state)) > 1:
        state.degrade(
            "levers were not left out one by one: each would be a restart, so that each has the "
            "credit of its own trial"
        )
    if state.stack.results:
        candidate = stack_candidate(state)
        if race is not None:
            allotment = race.proving(candidate)
        left = state.budget.remaining - REPORT_S
        # A little late is better than a gain that is not proven.
        late = min(_stack_s(state, allotment), left + MOST_OVERRUN * state.budget.total_s)
        seconds = max(left, late, allotment.least_s(candidate))
        gained = max(state.stack.gained.value, 1.0)
        _confirm(state, proving(state, allotment, candidate, seconds, gained))


def proving(
    state: RunState, allotment: Allotment, candidate: Candidate, seconds: float, gained: float = 1.0
) -> ExperimentSettings:
    """Pairs for a part of the time, as the whole's interval is what the run states; then the soak.

    Where each pair costs a restart, the fewest pairs that decide must do.
    """
    settings = replace(
        allotment.settings,
        budget_s=seconds,
        hold_s=MOST_HELD_S,
        most_changed=state.options.most_changed,
        least_requests=_least_requests(state),
        answer_rows=answer_rows(state.workload),
    )
    if not candidate.hot:
        return settings
    pair_s = settings.block_s * (1.0 + 1.0 / gained)
    fitting = int(PAIRS_SHARE * seconds / max(pair_s, 1e-9)) - SETTLING_BLOCKS
    pairs = min(max(fitting, settings.least_pairs), MOST_PAIRS)
    return replace(settings, least_pairs=pairs)


def time_before_soak(state: RunState, allotment: Allotment) -> float:
    """Seconds until what is kept so far must be proven; without anything kept, no limit."""
    if not state.stack.results:
        return math.inf
    return state.budget.remaining - REPORT_S - _stack_s(state, allotment)


def too_short_to_prove(state: RunState, allotment: Allotment) -> str:
    """Why no candidate can be proven in the time left; empty where the quickest one may be."""
    candidates = state.chosen.candidates
    if not candidates:
        return ""
    needed = min(confirmation_s(state, allotment, candidate) for candidate in candidates)
    left = state.budget.remaining - REPORT_S + MOST_OVERRUN * state.budget.total_s
    if needed <= left:
        return ""
    minutes = math.ceil((state.budget.total_s + needed - left) / 60.0) + 1
    return (
        f"the budget is likely too short to keep a change: to compare {answers_to_compare(state)} "
        f"answers and the start beside it takes about {needed:.0f} s, {max(left, 0.0):.0f} s are left; "
        f"--budget {minutes}m"
    )


def must_be_proven_at_once(state: RunState, allotment: Allotment, candidate: Candidate) -> bool:
    """Whether a trial and a confirmation after it do not both fit into the time left.

    The trial is then made as a confirmation is, soak and all, and is one.
    """
    if state.stack.results:
        return False
    left = state.budget.remaining - REPORT_S
    apart = allotment.least_s(candidate) + confirmation_s(state, allotment, candidate)
    return left < apart


def _stack_s(state: RunState, allotment: Allotment) -> float:
    gained = max(state.stack.gained.lo, 1.0)
    return confirmation_s(state, allotment, stack_candidate(state), gained)


def confirmation_s(
    state: RunState, allotment: Allotment, candidate: Candidate, gained: float = 1.0
) -> float:
    """Seconds that proving a candidate takes at least.

    Its pairs, the answers to compare and to lead the control along, the control beside the soak's
    end, and in production the control's answers to all requests.
    """
    pairs_s = CONFIRMATION_MARGIN * allotment.least_s(candidate)
    if not candidate.hot and gained > 1.0:
        pairs_s = max(allotment.finding_s(candidate, gained - 1.0), allotment.least_s(candidate))
    settings = allotment.settings
    needed = answers_to_compare(state)
    start = state.known_answers.get(configuration_hash(state.start), {})
    unknown = max(_least_requests(state) - len(start), 0)
    request_s = settings.block_s / max(settings.block_requests or 1, 1)
    return (
        pairs_s
        + MOST_LATE * settings.block_s
        + request_s * (unknown + needed / gained + FOLLOWING_SHARE * needed * _sampled_share(state))
    )


def _sampled_share(state: RunState) -> float:
    """Share of requests whose answers differ from run to run; greedy ones are mostly equal."""
    requests = state.workload.requests
    return sum(not is_greedy(request) for request in requests) / max(len(requests), 1)


def answer_rows(workload: Workload) -> int:
    """Rows of an answer that the bound on wrongly changed ones counts; an answer of a model is one."""
    return 1 if workload.data_set is None else max(workload.data_set.rows, 1)


def answers_to_compare(state: RunState) -> int:
    """Answers that a promotion has to compare, all equal, before it may be kept."""
    options = state.options
    rows = answers_needed(options.most_changed, options.answer_confidence)
    return max(math.ceil(rows / answer_rows(state.workload)), _least_requests(state))


def _least_requests(state: RunState) -> int:
    """Different requests that must be compared: in production all, up to the answers needed.

    Of data sets all, since none of them tells of another.
    """
    options = state.options
    if state.workload.data_set is not None:
        return len(state.workload.requests)
    if not options.production:
        return 0
    needed = answers_needed(options.most_changed, options.answer_confidence)
    return min(len(state.workload.requests), needed)


class _Unit(NamedTuple):
    """A lever of the stack: a kept result, or the part of a joint one that is this lever's."""

    kept: ExperimentResult
    lever: str
    changes: Mapping[str, Setting]


def _units(state: RunState) -> list[_Unit]:
    """The levers of the stack one by one, also those that were found together."""
    owners: dict[str, str] = {}
    for candidate in state.chosen.ranked:
        for knob in candidate.changes:
            owners.setdefault(knob, ", ".join(candidate.levers))
    units = []
    for result in state.stack.results:
        candidate = result.candidate
        parts: dict[str, dict[str, Setting]] = {}
        for knob, value in candidate.changes.items():
            lever = ", ".join(candidate.levers)
            if len(candidate.levers) > 1:
                lever = owners.get(knob, lever)
            parts.setdefault(lever, {})[knob] = value
        units += [_Unit(result, lever, changes) for lever, changes in parts.items()]
    return units


def _leave_each_out(state: RunState, allotment: Allotment, seconds: float) -> None:
    """Measure the stack against the stack without each lever."""
    units = _units(state)
    if len(units) < 2:
        return
    # Blocks are as long as they were at the start; by now the engine is faster.
    faster = max(state.stack.gained.value, 1.0)
    least = max(allotment.least_s(unit.kept.candidate) for unit in units) / faster
    if seconds < least * len(units):
        state.degrade(
            f"levers were not left out one by one: {max(seconds, 0.0):.0f} s are too short for "
            f"{len(units)} of them at {least:.0f} s, so that each has the credit of its own trial"
        )
        return
    settings = replace(allotment.settings, budget_s=seconds / len(units))
    for unit in units:
        state.progress.say(f"leaving out {unit.lever} once")
        result = _left_out(state, unit, settings)
        left_out = {**state.soaked.left_out, unit.lever: result}
        state.soaked = replace(state.soaked, left_out=left_out)
        if _is_worthless(result, settings.practical_threshold):
            _drop(state, unit, result)


def _left_out(state: RunState, unit: _Unit, settings: ExperimentSettings) -> ExperimentResult:
    """Control: the stack without a lever. Treatment: the whole stack."""
    name = ", ".join(f"{knob}={value}" for knob, value in unit.changes.items())
    candidate = replace(
        unit.kept.candidate, name=name, levers=(unit.lever,), changes=dict(unit.changes)
    )
    bring_to(state, {**current(state), **{knob: state.start[knob] for knob in unit.changes}})
    result = measured(state, candidate, settings, f"without {name}")
    record(state, result, role="left out")
    return result


def _is_worthless(result: ExperimentResult, threshold: float) -> bool:
    """Whether the stack is as good without the lever."""
    if result.verdict == "regressed":
        return True
    return (
        result.verdict == "undecided"
        and result.ratio is not None
        and result.ratio.hi < 1.0 + threshold
    )


def _drop(state: RunState, unit: _Unit, result: ExperimentResult) -> None:
    """Take a lever out of the stack that gains nothing beside the others."""
    results = []
    for kept in state.stack.results:
        if kept.experiment != unit.kept.experiment:
            results.append(kept)
            continue
        candidate = kept.candidate
        left = {
            knob: value for knob, value in candidate.changes.items() if knob not in unit.changes
        }
        if left:
            levers = tuple(lever for lever in candidate.levers if lever != unit.lever)
            name = ", ".join(f"{knob}={value}" for knob, value in left.items())
            candidate = replace(candidate, name=name, levers=levers, changes=left)
            results.append(replace(kept, candidate=candidate))
    changes = {
        knob: value for knob, value in state.stack.changes.items() if knob not in unit.changes
    }
    state.stack = replace(state.stack, results=tuple(results), changes=changes)
    state.notes.append(
        f"{unit.lever} gains nothing beside the other levers and was taken back: {result.reason}"
    )


def stack_candidate(state: RunState) -> Candidate:
    """All kept changes as one candidate."""
    parts = [result.candidate for result in state.stack.results]
    return replace(
        joined(parts, state.stack.changes), cost_s=max((part.cost_s for part in parts), default=0.0)
    )


def _confirm(state: RunState, settings: ExperimentSettings) -> None:
    """Measure the start and the stack again, side by side."""
    state.progress.say("measuring the whole stack again, against the start")
    candidate = stack_candidate(state)
    bring_to(state, state.start)
    result = measured(state, candidate, settings, CONFIRMATION)
    state.soaked = replace(state.soaked, confirmation=result)
    record(state, result, role=CONFIRMATION)
