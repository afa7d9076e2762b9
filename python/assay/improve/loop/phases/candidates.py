"""Causes and candidates: whether to experiment at all, with what, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from assay.errors import AssayError
from assay.improve.engines.protocol import FLOOR, NOT_IN_FLOOR
from assay.improve.levers import loading
from assay.improve.levers.applicability import candidates
from assay.improve.levers.facts import workload_facts
from assay.improve.levers.lever import SAFETY, Candidate, Lever
from assay.improve.levers.own_defaults import own_defaults
from assay.improve.loop.options import DRY_RUN, RunOptions
from assay.improve.loop.state import Chosen, RunState
from assay.improve.policy import history
from assay.improve.policy.constraints import Constraints
from assay.improve.policy.fingerprint import fingerprint
from assay.improve.policy.known import Known
from assay.improve.policy.ranking import TrialCost, rank, riskier
from assay.improve.policy.step_ratio import PLANNED_ENGINES

ENOUGH: Final = 0.9
"""Share of the floor above which no lever is tried: less than a tenth is left to gain."""


@dataclass(frozen=True, slots=True)
class Qualification:
    """Commit to experiments, or diagnose only."""

    commit: bool
    sentence: str
    floor_share: float | None = None
    """Time at the floor over time observed, at most 1; None where no floor is known."""
    source: str = ""
    """planner, waterfall of the traced step, or operations that were counted."""


def qualify(known: Known, enough: float = ENOUGH, *, may_speculate: bool = False) -> Qualification:
    """Compare what was observed with the floor of the workload, in its own format and model.

    The floor of a closed loop is that of a batch of all its requests: an engine that runs them one
    by one is far from it, however fast its steps are. It is a floor of steps that yield one token a
    request: where levers may speculate, it bounds nothing.
    """
    share, source, missing = _floor_share(known)
    if share is None:
        return Qualification(
            True, f"no floor is known ({missing}): levers are tried without one", None
        )
    percent = f"{share:.0%}"
    if may_speculate:
        return Qualification(
            True,
            f"the engine is at {percent} of the floor by the {source}: up to {1 / share:.2f} times "
            "is left at one token a step, and more where drafts are accepted",
            share,
            source,
        )
    if share >= enough:
        return Qualification(
            False,
            f"the engine is at {percent} of the floor by the {source}: less than "
            f"{1 - enough:.0%} is left to gain at this model and format, no lever is tried",
            share,
            source,
        )
    if left_out := known.description.details.get(NOT_IN_FLOOR):
        # A bound without what a program mostly waits for is no share to judge by, and no gain to hope for.
        return Qualification(
            True,
            f"the floor by the {source} is {percent} of the time, without {left_out}: less than "
            f"{1 / share:.3g} times can be left",
            share,
            source,
        )
    return Qualification(
        True,
        f"the engine is at {percent} of the floor by the {source}: up to {1 / share:.2f} times "
        "is left",
        share,
        source,
    )


def _floor_share(known: Known) -> tuple[float | None, str, str]:
    counted, rate = known.description.details.get(FLOOR), known.figure("request_throughput")
    if isinstance(counted, float) and rate is not None:
        return min(counted * rate, 1.0), "operations that were counted", ""
    planned, missing = _planned_share(known)
    if planned is not None:
        return min(planned, 1.0), "planner", ""
    if known.diagnosis is not None:
        waterfall = known.diagnosis.residuals.waterfall
        floor = next((term.ns for term in waterfall.terms if term.name == "floor"), 0.0)
        if floor > 0 and waterfall.observed_ns > 0:
            return min(floor / waterfall.observed_ns, 1.0), "waterfall of the traced step", ""
    return None, "", missing


def _planned_share(known: Known) -> tuple[float | None, str]:
    """The floor of serving each request of the loop once, over the time that it took."""
    from assay.planner.predict import predict_graph
    from assay.planner.specs import BatchConfig

    model, hardware, engine = known.model, known.hardware, known.description.engine
    if model is None:
        return None, "no shapes of the model"
    if hardware is None:
        return None, "no ceilings of the machine; the degradations say why"
    if engine not in PLANNED_ENGINES:
        return None, f"the planner does not know the kernels of {engine}"
    throughput = known.figure("output_throughput")
    if throughput is None:
        return None, "no throughput was measured"
    if known.workload.arrival != "closed":
        return None, "an open loop offers a load of its own"
    batch = known.at_once(None)
    outputs = known.mean_output()
    # A shared prefix need be computed once: the floor leaves it out.
    own_share = 1.0 - float(workload_facts(known.workload)["prefix_share"])
    prompt = max(round(known.mean_prompt() * own_share), 1)
    common = {"engine": engine, "weight_dtype": model.weight_dtype or "bf16"}
    try:
        step = (
            predict_graph(
                model,
                hardware,
                BatchConfig(sequences=batch, context=known.mean_context(), **common),  # type: ignore[arg-type]
            )
            .totals["floor"]
            .value
        )
        prefill = (
            predict_graph(
                model,
                hardware,
                BatchConfig(sequences=0, prefill_tokens=prompt, **common),  # type: ignore[arg-type]
            )
            .totals["floor"]
            .value
        )
    except (AssayError, KeyError) as error:
        return None, f"no prediction: {error}"
    floor_s = (batch * prefill + outputs * step) / 1e9
    return floor_s / (batch * outputs / throughput), ""


def check_levers(engine: str | None, options: RunOptions, own: Sequence[Lever] = ()) -> None:
    """Refuse a lever file, or a name that no lever of an engine (None: of any) has."""
    levers = [*loading.load(engine, options.lever_files), *own]
    for name in (*options.only, *options.skip):
        loading.find(levers, name)


def choose_candidates(state: RunState) -> None:
    """Qualify, list what applies, and rank it."""
    state.begin("candidates")
    state.progress.say("asking which levers apply")
    library = loading.load(state.description.engine, state.options.lever_files)
    levers = [*library, *state.engine.levers()]
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
    stop = _qualify(state, known, may_speculate=any(map(_speculates, applicable)))
    ranked = _rank(
        state, known, [candidate for candidate in applicable if _allowed(state, candidate)]
    )
    ranked = _defaults_first(state, ranked, levers)
    if state.options.dry_run:
        stop = stop or DRY_RUN
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


def _speculates(candidate: Candidate) -> bool:
    """Whether a candidate turns speculation on: steps may then yield several tokens."""
    return any(
        knob.startswith(_SPECULATION) and value not in (0, None, "none")
        for knob, value in candidate.changes.items()
    )


_SPECULATION: Final = ("speculation_depth", "spec_type", "speculative_config")


def _qualify(state: RunState, known: Known, *, may_speculate: bool) -> str:
    """Why an engine is diagnosed only, as it is near its floor; empty where it is not."""
    qualification = qualify(known, may_speculate=may_speculate)
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


def _defaults_first(state: RunState, ranked: Chosen, levers: list[Lever]) -> Chosen:
    """Where the engine was not found at its own defaults, those are tried before anything else."""
    defaults = own_defaults(levers, state.engine.knobs(), state.start)
    if defaults is None:
        return ranked
    if state.options.only:
        state.notes.append("not compared with the engine's own defaults: --only leaves them out")
        return ranked
    if not _allowed(state, defaults):
        return ranked
    return replace(
        ranked, candidates=(defaults, *ranked.candidates), ranked=(*ranked.ranked, defaults)
    )


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
