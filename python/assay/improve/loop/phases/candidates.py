"""Causes and candidates: whether to experiment at all, with what, and in which order."""

from __future__ import annotations

from dataclasses import asdict, replace

from assay.improve.levers import loading
from assay.improve.levers.applicability import candidates
from assay.improve.levers.lever import SAFETY, Candidate, Lever
from assay.improve.loop.options import RunOptions
from assay.improve.loop.state import Chosen, RunState
from assay.improve.policy import history
from assay.improve.policy.constraints import Constraints
from assay.improve.policy.fingerprint import fingerprint
from assay.improve.policy.known import Known
from assay.improve.policy.qualification import qualify
from assay.improve.policy.ranking import TrialCost, rank, riskier


def check_levers(engine: str | None, options: RunOptions) -> None:
    """Refuse a lever file, or a name that no lever of an engine (None: of any) has."""
    levers = loading.load(engine, options.lever_files)
    for name in (*options.only, *options.skip):
        loading.find(levers, name)


def choose_candidates(state: RunState) -> None:
    """Qualify, list what applies, and rank it."""
    state.begin("candidates")
    state.progress.say("asking which levers apply")
    levers = loading.load(state.description.engine, state.options.lever_files)
    applicable, skipped = candidates(
        _wanted(state, levers),
        state.description,
        state.engine.knobs(),
        state.start,
        state.workload,
        state.predicted.diagnosis,
    )
    state.skipped += [(lever.lever, lever.reason) for lever in skipped]
    known = _known(state, levers)
    stop = _qualify(state, known)
    ranked = _rank(
        state, known, [candidate for candidate in applicable if _allowed(state, candidate)]
    )
    if state.options.dry_run:
        stop = stop or "a dry run: no setting was changed"
    state.chosen = replace(ranked, stop=stop)
    state.plan |= {
        "candidates": [_data(candidate) for candidate in ranked.candidates],
        "skipped": [{"lever": lever, "reason": reason} for lever, reason in state.skipped],
    }
    state.folder.write_json(state.folder.plan.name, state.plan)
    state.journal.append(
        "candidates",
        candidates=[candidate.name for candidate in ranked.candidates],
        skipped=list(map(list, state.skipped)),
    )


def _known(state: RunState, levers: list[Lever]) -> Known:
    return Known(
        state.description,
        state.start,
        state.workload,
        {lever.name: lever for lever in levers},
        state.captured.baseline,
        state.predicted.diagnosis,
        state.predicted.trace,
        state.predicted.model,
        state.predicted.hardware,
        state.captured.samples,
    )


def _qualify(state: RunState, known: Known) -> str:
    """Why an engine is diagnosed only, as it is near its floor; empty where it is not."""
    qualification = qualify(known)
    state.plan["qualification"] = asdict(qualification)
    state.progress.result(qualification.sentence)
    state.notes.append(qualification.sentence)
    return "" if qualification.commit or state.options.force else qualification.sentence


def _rank(state: RunState, known: Known, allowed: list[Candidate]) -> Chosen:
    """Order candidates by what they should gain; past runs on the same fingerprint count."""
    past = history.History()
    if state.options.use_history:
        past = history.read(
            fingerprint(state.description, state.workload),
            root=state.folder.path.parent,
            leave_out=state.folder.id,
        )
        for note in past.notes:
            state.degrade(note)
    constraints = Constraints(riskier(known))
    state.progress.say(f"ranking {len(allowed)} candidates")
    ranked, skipped = rank(
        allowed,
        known,
        history=past,
        cost=TrialCost(restart_s=state.restart_s),
        constraints=constraints,
    )
    state.skipped += [(candidate.lever, candidate.reason) for candidate in skipped]
    return Chosen(tuple(ranked), tuple(ranked), known, past, constraints)


def _wanted(state: RunState, levers: list[Lever]) -> list[Lever]:
    """The levers that the options leave; names that no lever has are refused."""
    options = state.options
    only = {lever.name for name in options.only for lever in loading.find(levers, name)}
    skip = {lever.name for name in options.skip for lever in loading.find(levers, name)}
    wanted = []
    for lever in levers:
        if (only and lever.name not in only) or lever.name in skip:
            state.skipped.append((lever.name, "left out by --only or --skip"))
        else:
            wanted.append(lever)
    return wanted


def _allowed(state: RunState, candidate: Candidate) -> bool:
    """Whether risk and class of correctness are those that the user allows."""
    options = state.options
    reason = ""
    if SAFETY.index(candidate.safety) > SAFETY.index(options.max_risk):
        reason = f"{candidate.safety}: riskier than --max-risk {options.max_risk}"
    elif candidate.correctness == "changes sampling":
        reason = "it changes how tokens are sampled, which the loop never does"
    elif candidate.correctness == "lossy" and not options.allow_lossy:
        reason = "it changes outputs (lossy): only with --allow-lossy"
    if reason:
        state.skipped.append((candidate.name, reason))
    return not reason


def _data(candidate: Candidate) -> dict[str, object]:
    """A candidate as plan.json has it."""
    data = asdict(candidate)
    data["prediction"] = None if candidate.prediction is None else candidate.prediction._asdict()
    return data
