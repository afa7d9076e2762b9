"""Causes of the time of a step, the one that explains most of it first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from assay.array_types import Flags
from assay.diagnose.critical_path.path import CriticalPath, critical_path
from assay.diagnose.hypothesis import Evidence, Hypothesis, RankedHypotheses
from assay.diagnose.mechanisms.catalog import MECHANISMS
from assay.diagnose.mechanisms.classes import ATTENTION, EXPERTS, GEMMS, SAMPLING
from assay.diagnose.mechanisms.findings import (
    MechanismClaim,
    MechanismEstimate,
    NotExamined,
    Refuted,
)
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.mechanisms.weighed import weighed
from assay.diagnose.residuals import Residuals
from assay.lazy_import import pl
from assay.observe.operations import parts
from assay.planner.graph import Graph

if TYPE_CHECKING:
    from assay.diagnose.delays.records import DelayExperiment

TOLD_APART: Final = 0.5
"""Two causes are not told apart when this share of one's time lies in the other's intervals."""
ROUNDING: Final = 1e-9
NOTED: Final = 0.001
"""Share of the step from which on time without a cause is worth a note."""

_SUBJECTS: Final[Mapping[str, Set[str]]] = {
    "small-batch GEMM inefficiency": GEMMS,
    "compute-bound GEMM inefficiency": GEMMS,
    "grouped GEMM inefficiency": EXPERTS,
    "KV cache reads": ATTENTION,
    "attention kernel latency": ATTENTION,
    "sampling": SAMPLING,
    "host launch": {"host.launch"},
    "host scheduling": {
        f"host.{section}"
        for section in ("schedule", "copy_blocks", "prepare", "build_inputs", "commit", "logprobs",
                        "append_tokens", "deliver")
    },
    "copy on the critical path": {"host.upload", "host.read_back"},
    "synchronization": {"host.wait"},
}  # fmt: skip
"""Causes, and the operations and sections of the host that an experiment on them may delay."""


class Claimed(NamedTuple):
    """What a mechanism has taken: a share of some intervals."""

    name: str
    intervals: Flags
    share: float


def attribute(
    residuals: Residuals,
    graph: Graph,
    *,
    path: CriticalPath | None = None,
    telemetry: pl.DataFrame | None = None,
    experiments: Sequence[DelayExperiment] = (),
    mechanisms: Sequence[Mechanism] = MECHANISMS,
) -> RankedHypotheses:
    """Name the causes of a step's time above its floor, with the time that each explains.

    Times are of the median decode step. A step makes one token for each of its sequences, so the
    time of the step is the time per token that each of them sees. Two causes count no nanosecond
    twice, unless one is `within` the other.
    """
    path = critical_path(residuals.trace) if path is None else path
    view = MechanismView(residuals, graph, path, telemetry)
    causes: list[Hypothesis] = []
    notes: list[str] = []
    claimed: list[Claimed] = []
    for mechanism in mechanisms:
        finding = weighed(view, mechanism.name, mechanism.find(view))
        if isinstance(finding, NotExamined):
            notes.append(f"{mechanism.name} not examined: needs {finding.needs}")
        elif isinstance(finding, Refuted):
            notes.append(f"not a cause: {finding.statement}")
        elif isinstance(finding, MechanismClaim):
            cause = _claimed(view, mechanism, finding, claimed)
            if cause is not None:
                causes.append(cause)
        elif isinstance(finding, MechanismEstimate):
            causes.append(_estimated(mechanism, finding))
    causes = [_tested(cause, experiments) for cause in causes]
    notes += _unclaimed(view, claimed)
    causes.sort(key=lambda cause: -cause.ns_per_token)
    return RankedHypotheses(tuple(causes), tuple(notes))


def _claimed(
    view: MechanismView, mechanism: Mechanism, claim: MechanismClaim, claimed: list[Claimed]
) -> Hypothesis | None:
    """The cause of some intervals; what an earlier one has taken is not counted again."""
    flags, rival = claim.intervals, claim.within
    for earlier in claimed:
        shared = flags & earlier.intervals
        if rival or not shared.any() or earlier.share + claim.share <= 1.0 + ROUNDING:
            continue
        if view.dur[shared].sum() < TOLD_APART * view.dur[flags].sum():
            flags = flags & ~earlier.intervals
        else:
            rival = earlier.name
    claimed.append(Claimed(mechanism.name, flags, 0.0 if rival else claim.share))
    lo, hi = (claim.share * np.quantile(view.per_step(flags), [0.05, 0.95])).tolist()
    ns = claim.share * view.in_step(flags)
    if not ns and hi <= NOTED * view.residuals.waterfall.observed_ns:
        return None
    rows = view.rows(flags)
    statements = claim.statements or (mechanism.reads,)
    evidence = tuple(
        Evidence(text, rows if number == 0 else (), claim.source)
        for number, text in enumerate(statements)
    )
    return Hypothesis(
        mechanism.name,
        mechanism.sentence,
        ns,
        min(lo, ns),
        max(hi, ns),
        f"cannot be told apart from {rival}" if rival else "supported",
        evidence,
        mechanism.fix,
        part_of=_terms(view, flags),
        within=rival,
    )


def _terms(view: MechanismView, flags: Flags) -> tuple[str, ...]:
    return tuple(view.intervals.filter(flags)["term"].cast(pl.String).unique(maintain_order=True))


def _estimated(mechanism: Mechanism, estimate: MechanismEstimate) -> Hypothesis:
    evidence = tuple(
        Evidence(text, estimate.rows if number == 0 else (), estimate.source)
        for number, text in enumerate(estimate.statements)
    )
    rival = estimate.within
    return Hypothesis(
        mechanism.name,
        mechanism.sentence,
        estimate.ns_per_token,
        estimate.lo,
        estimate.hi,
        f"cannot be told apart from {rival}" if rival else "supported",
        evidence,
        mechanism.fix,
        part_of=estimate.part_of,
        within=rival,
        beyond_step=estimate.beyond_step,
    )


def _tested(cause: Hypothesis, experiments: Sequence[DelayExperiment]) -> Hypothesis:
    """The cause with what experiments say of it: one that the step waits for is established."""
    subjects = _SUBJECTS.get(cause.name, frozenset())
    about = [
        experiment
        for experiment in experiments
        if any(part in subjects for part in parts(experiment.operation))
    ]
    if not about:
        return cause
    outcomes = [Evidence(_outcome(experiment), (), "experiment") for experiment in about]
    follows = any(experiment.verdict == "critical" for experiment in about)
    status = "established by experiment" if follows else cause.status
    return dataclasses.replace(cause, status=status, evidence=(*cause.evidence, *outcomes))


def _outcome(experiment: DelayExperiment) -> str:
    return (
        f"delays of up to {experiment.doses_ns[-1] / 1e3:,.1f} us before {experiment.name} in "
        f"{experiment.runs} runs: the step follows them with a slope of {experiment.slope:.2f} "
        f"({experiment.lo:.2f} to {experiment.hi:.2f}), {experiment.verdict}"
    )


def _unclaimed(view: MechanismView, claimed: Sequence[Claimed]) -> list[str]:
    """Time above the floor that no mechanism explains."""
    rest = ~view.of_terms("floor")
    for cause in claimed:
        rest &= ~cause.intervals
    ns = view.in_step(rest)
    whole = view.residuals.waterfall.observed_ns
    if ns <= NOTED * whole:
        return []
    shown = view.intervals.filter(rest & view.in_shown_step)
    terms = shown.group_by(pl.col("term").cast(pl.String)).agg(pl.col("dur_ns").sum())
    listed = ", ".join(f"{name} {took / 1e3:,.1f} us" for name, took in terms.sort("term").rows())
    return [f"{ns / 1e3:,.1f} us of the step ({100 * ns / whole:.1f} %) have no cause: {listed}"]
