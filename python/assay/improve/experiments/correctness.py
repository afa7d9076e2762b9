"""The correctness gate: a lever may change outputs only as its class allows.

bitwise: the same tokens. rounding: the first token that differs is a near tie. lossy: close
distributions and no lower task score, and only where the user allows it. changes sampling: off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from assay.improve.engines.protocol import Engine, ProbeAnswer
from assay.improve.experiments.outputs.judging import LEAST_NEAR_TIE, MOST_NEAR_TIE
from assay.improve.experiments.prompts import PROMPTS
from assay.improve.experiments.result import GateResult
from assay.improve.experiments.token_comparison import (
    Comparison,
    compare,
    divergence,
    length,
    task_score,
)
from assay.improve.levers.lever import Correctness
from assay.load.workloads.measurement import Setting

GATE: Final = "correctness"
BASELINE_GATE: Final = "baseline"
MOST_DIVERGENCE: Final = 0.05
"""Mean KL divergence in nats that a lossy lever may cause; 8-bit formats stay below 0.01."""
LEAST_AGREEMENT: Final = 0.9
"""Share of positions with the same context at which a lossy lever has to choose the same token."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The baseline's answers, and how much they differ from themselves."""

    answers: tuple[ProbeAnswer, ...]
    logprob_difference: float | None
    """Largest A/A difference of log-probabilities; None where the engine gives none."""
    repeats: bool
    """Whether tokens were equal in every batch."""
    synthetic: bool
    gate: GateResult
    settings: Mapping[str, Setting]
    """What the engine ran with."""


def baseline_reference(engine: Engine, max_tokens: int = 12) -> Reference:
    """Probe the baseline against itself: in order, in reverse, and one prompt alone."""
    texts = [prompt.text for prompt in PROMPTS]
    answers = engine.probe(texts, max_tokens)
    again = engine.probe(texts[::-1], max_tokens)[::-1]
    alone = engine.probe(texts[:1], max_tokens)
    synthetic = engine.describe().synthetic
    comparisons = [*map(compare, answers, again), *map(compare, answers, alone)]
    known = [
        comparison.logprob_difference
        for comparison in comparisons
        if comparison.logprob_difference is not None
    ]
    difference = max(known) if known else None
    repeats = all(comparison.first_difference is None for comparison in comparisons)
    gate = _baseline_gate(answers, comparisons, difference, synthetic)
    settings = dict(engine.settings())
    return Reference(tuple(answers), difference, repeats, synthetic, gate, settings)


def refreshed(reference: Reference, engine: Engine, max_tokens: int = 12) -> Reference:
    """The answers of another control; how much answers differ from themselves stays as it was.

    A kept lever that rounds differently may have changed tokens: the next one is not to blame.
    """
    answers = engine.probe([prompt.text for prompt in PROMPTS], max_tokens)
    problem = garbage(answers, reference.synthetic)
    gate = reference.gate
    if problem:
        gate = GateResult(BASELINE_GATE, False, f"the control gives garbage: {problem}")
    return replace(reference, answers=tuple(answers), gate=gate, settings=dict(engine.settings()))


def class_gate(correctness: Correctness, allow_lossy: bool) -> GateResult | None:
    """A class that is off is refused before the engine is touched."""
    if correctness == "changes sampling":
        return GateResult(GATE, False, "the lever changes sampling: off")
    if correctness == "lossy" and not allow_lossy:
        return GateResult(GATE, False, "the lever is lossy: not allowed (--allow-lossy)")
    return None


def correctness_gate(
    reference: Reference,
    answers: Sequence[ProbeAnswer],
    correctness: Correctness,
    allow_lossy: bool,
) -> GateResult:
    """Judge the treatment's answers by the class of its lever."""
    off = class_gate(correctness, allow_lossy)
    if off is not None:
        return off
    problem = garbage(answers, reference.synthetic)
    if problem:
        return GateResult(GATE, False, problem)
    comparisons = list(map(compare, reference.answers, answers))
    evidence = _evidence(reference, comparisons)
    if correctness == "lossy":
        return _lossy(reference, answers, comparisons, evidence)
    problem = _logprobs_problem(reference, answers, comparisons)
    if problem:
        return GateResult(GATE, False, problem, evidence)
    if correctness == "bitwise" and reference.repeats:
        return _bitwise(comparisons, evidence)
    return _rounding(reference, comparisons, correctness, evidence)


def garbage(answers: Sequence[ProbeAnswer], synthetic: bool) -> str:
    """Why answers are unusable; empty where they are not."""
    if len(answers) != len(PROMPTS):
        return f"{len(answers)} answers to {len(PROMPTS)} probes"
    for number, answer in enumerate(answers):
        if length(answer) == 0:
            return f"probe {number}: an empty answer"
        if any(not math.isfinite(value) for value in (*answer.logprobs, *answer.margins)):
            return f"probe {number}: a log-probability is not finite"
        pieces = answer.token_ids or answer.texts
        if not synthetic and len(pieces) >= 8 and len(set(pieces)) == 1:
            return f"probe {number}: one token, {len(pieces)} times"
    return ""


def _baseline_gate(
    answers: Sequence[ProbeAnswer],
    comparisons: Sequence[Comparison],
    difference: float | None,
    synthetic: bool,
) -> GateResult:
    evidence: dict[str, Any] = {
        "probes": len(answers),
        "logprob_difference": difference,
        "task_score": None if synthetic else task_score(answers),
    }
    problem = garbage(answers, synthetic)
    if problem:
        return GateResult(BASELINE_GATE, False, f"the baseline gives garbage: {problem}", evidence)
    tie = max(difference or 0.0, LEAST_NEAR_TIE)
    for comparison in comparisons:
        if comparison.first_difference is not None and (
            comparison.margin is None or comparison.margin > tie
        ):
            margin = "unknown" if comparison.margin is None else f"{comparison.margin:.4f}"
            statement = (
                f"the baseline does not repeat itself: token {comparison.first_difference} differs with "
                f"a top-2 margin of {margin} nats, A/A difference {tie:.4f}"
            )
            return GateResult(BASELINE_GATE, False, statement, evidence)
    statement = f"{len(answers)} probes repeat themselves in other batches"
    if difference is not None:
        statement += f"; log-probabilities within {difference:.2g} nats"
    return GateResult(BASELINE_GATE, True, statement, evidence)


def _logprobs_problem(
    reference: Reference, answers: Sequence[ProbeAnswer], comparisons: Sequence[Comparison]
) -> str:
    """Why the log-probabilities of equal tokens are others; empty where they are not.

    Who asks for them gets those. They may move by rounding, and by less than a lossy lever may move them.
    """
    known = [
        comparison.logprob_difference
        for comparison in comparisons
        if comparison.logprob_difference is not None
    ]
    most = max(known, default=0.0)
    if most > MOST_NEAR_TIE:
        return f"log-probabilities of equal tokens differ by {most:.2f} nats"
    pairs = zip(reference.answers, answers, strict=True)
    values = [value for before, after in pairs for value in divergence(before, after)]
    mean = math.fsum(values) / len(values) if values else 0.0
    if mean > MOST_DIVERGENCE:
        return (
            f"log-probabilities of equal tokens differ: KL divergence {mean:.3f} nats, "
            f"{MOST_DIVERGENCE:g} at most"
        )
    return ""


def _bitwise(comparisons: Sequence[Comparison], evidence: Mapping[str, Any]) -> GateResult:
    for number, comparison in enumerate(comparisons):
        if comparison.first_difference is not None:
            statement = (
                f"probe {number}: token {comparison.first_difference} differs, lever is bitwise"
            )
            return GateResult(GATE, False, statement, evidence)
    return GateResult(GATE, True, f"{len(comparisons)} probes: equal tokens", evidence)


def _rounding(
    reference: Reference,
    comparisons: Sequence[Comparison],
    correctness: Correctness,
    evidence: Mapping[str, Any],
) -> GateResult:
    tie = max(reference.logprob_difference or 0.0, LEAST_NEAR_TIE)
    differing = 0
    for number, comparison in enumerate(comparisons):
        if comparison.first_difference is None:
            continue
        differing += 1
        if comparison.margin is None:
            statement = (
                f"probe {number}: token {comparison.first_difference} differs, and the engine gives no "
                "log-probabilities to tell a near tie"
            )
            return GateResult(GATE, False, statement, evidence)
        if comparison.margin > tie:
            statement = (
                f"probe {number}: token {comparison.first_difference} differs with a top-2 margin of "
                f"{comparison.margin:.4f} nats; a near tie is below {tie:.4f}"
            )
            return GateResult(GATE, False, statement, evidence)
    statement = f"{len(comparisons)} probes: equal tokens"
    if differing:
        statement = f"{len(comparisons)} probes: {differing} differ, first at near ties"
    if correctness == "bitwise":
        statement += " (the baseline does not repeat itself bitwise: judged as rounding)"
    return GateResult(GATE, True, statement, evidence)


def _lossy(
    reference: Reference,
    answers: Sequence[ProbeAnswer],
    comparisons: Sequence[Comparison],
    evidence: dict[str, Any],
) -> GateResult:
    positions = sum(comparison.positions for comparison in comparisons)
    agreeing = sum(comparison.agreeing for comparison in comparisons)
    agreement = agreeing / positions if positions else 0.0
    pairs = zip(reference.answers, answers, strict=False)
    values = [value for before, after in pairs for value in divergence(before, after)]
    score, new_score = task_score(reference.answers), task_score(answers)
    evidence |= {
        "agreement": agreement,
        "kl_divergence": math.fsum(values) / len(values) if values else None,
        "task_score": None if reference.synthetic else {"control": score, "treatment": new_score},
    }
    if not values:
        statement = "the engine gives no distributions: the KL divergence is unknown"
        return GateResult(GATE, False, statement, evidence)
    mean = evidence["kl_divergence"]
    statement = f"KL divergence {mean:.4f} nats, same top token at {agreement:.1%} of positions"
    if not reference.synthetic:
        statement += f", task score {new_score} of {len(PROMPTS)} ({score} before)"
    passed = mean <= MOST_DIVERGENCE and agreement >= LEAST_AGREEMENT
    return GateResult(
        GATE, passed and (reference.synthetic or new_score >= score), statement, evidence
    )


def _evidence(reference: Reference, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "logprob_difference": reference.logprob_difference,
        "first_differences": [comparison.first_difference for comparison in comparisons],
        "margins": [comparison.margin for comparison in comparisons],
    }
