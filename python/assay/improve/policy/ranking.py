"""The order of trying: what a candidate should gain, for each second that trying it takes.

A prediction comes from the first model that has one: a replay of the trace, the calibrated machine,
the workload's own text, a model of batches, or the time of the causes that the lever addresses. Past
outcomes on the same fingerprint are pooled with it. No figure of a lever file enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.improve.levers.applicability import Skipped
from assay.improve.levers.lever import SAFETY, Candidate, Riskier
from assay.improve.policy.constraints import Constraints
from assay.improve.policy.history import History
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, Unpredictable, between, log_error, pooled
from assay.improve.policy.predictors import (
    causes,
    formats,
    occupancy,
    padding,
    speculation,
    threads,
    whatif,
)
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

Predictor = Callable[[Candidate, Known], Prediction | Unpredictable | str]

PREDICTORS: Final[tuple[Predictor, ...]] = (
    threads.predict,
    speculation.predict,
    occupancy.predict,
    padding.predict,
    whatif.predict,
    formats.predict,
    causes.predict,
)
"""In the order of asking: the first that has an answer gives it."""
UNKNOWN_EFFECT: Final = 0.05
"""Gain or loss that is as likely as not where nothing predicts a candidate; a trial is sized to find
it. Without it a predicted loss would be tried before what nobody knows anything of."""
PAST_ERROR: Final = 0.03
"""Standard deviation of the logarithm of a ratio from one run to the next, at least."""


@dataclass(frozen=True, slots=True)
class TrialCost:
    """What a trial takes."""

    trial_s: float = 10.0
    """Seconds of the blocks of a trial."""
    restart_s: float = 0.0
    """Seconds until the engine serves again after a restart."""
    restarts: int = 4
    """Restarts of a trial whose knobs are not live: to the treatment and back, twice."""

    def seconds(self, candidate: Candidate) -> float:
        """Of one candidate."""
        return self.trial_s + (0.0 if candidate.hot else self.restarts * self.restart_s)


def rank(
    candidates: Sequence[Candidate],
    known: Known,
    *,
    history: History | None = None,
    cost: TrialCost | None = None,
    constraints: Constraints | None = None,
    predictors: Sequence[Predictor] = PREDICTORS,
) -> tuple[list[Candidate], list[Skipped]]:
    """Candidates with predictions in the order of trying, and those that failed in the past."""
    history, cost = history or History(), cost or TrialCost()
    constraints = constraints or Constraints(riskier(known))
    for failure in history.failures():
        constraints.add(failure)
    ranked: list[Candidate] = []
    skipped: list[Skipped] = []
    for candidate in candidates:
        reason = constraints.forbids({**known.settings, **candidate.changes})
        if reason:
            skipped.append(Skipped(candidate.name, reason))
            continue
        ranked.append(_ranked(candidate, known, history, cost, predictors))
    return _ordered(ranked, history), skipped


def riskier(known: Known) -> dict[str, tuple[Riskier, tuple[Setting, ...]]]:
    """Knobs whose larger (or smaller) values need more memory, as the levers declare it."""
    return {
        knob.knob: (knob.riskier, knob.values)
        for lever in known.levers.values()
        for knob in lever.knobs
        if knob.riskier is not None
    }


def predicted(
    candidate: Candidate, known: Known, predictors: Sequence[Predictor] = PREDICTORS
) -> Prediction | str:
    """The first prediction, or why there is none."""
    reasons: list[str] = []
    for predictor in predictors:
        answer = predictor(candidate, known)
        if isinstance(answer, Prediction):
            return answer
        if isinstance(answer, Unpredictable):
            return answer.reason
        reasons.append(answer)
    return "; ".join(
        dict.fromkeys(reason for reason in reasons if not reason.startswith("not a change of"))
    )


def _ranked(
    candidate: Candidate,
    known: Known,
    history: History,
    cost: TrialCost,
    predictors: Sequence[Predictor],
) -> Candidate:
    answer = predicted(candidate, known, predictors)
    past = history.outcomes(candidate.changes, known.settings)
    figure, by = (answer.ratio, answer.by) if isinstance(answer, Prediction) else (None, answer)
    if past:
        figure = pooled([*([figure] if figure is not None else []), *past], PAST_ERROR)
        runs = f"{len(past)} past {'trial' if len(past) == 1 else 'trials'} on this fingerprint"
        by = f"{by}; {runs}" if isinstance(answer, Prediction) else runs
    elif figure is None:
        by = f"no prediction: {by}"
    seconds = cost.seconds(candidate)
    works = 1.0 - max(_failure_share(lever, history) for lever in candidate.levers)
    gain = expected_gain(figure if figure is not None else _UNKNOWN)
    score = works * gain / max(seconds, 1e-9)
    return replace(candidate, prediction=figure, predicted_by=by, cost_s=seconds, score=score)


_UNKNOWN: Final = between(1.0 / (1.0 + UNKNOWN_EFFECT), 1.0 + UNKNOWN_EFFECT)


def expected_gain(figure: Interval) -> float:
    """The mean of the logarithm of the ratio above 1, where it is above: what is lost is undone."""
    mean, deviation = math.log(figure.value), max(log_error(figure), 1e-9)
    ahead = mean / deviation
    density = math.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    return mean * 0.5 * math.erfc(-ahead / math.sqrt(2)) + deviation * density


def _failure_share(lever: str, history: History) -> float:
    """How often a lever failed before: its failures and one success more than its trials."""
    failed, tried = history.failure_rate(lever)
    return failed / (tried + 1)


def _ordered(candidates: Sequence[Candidate], history: History) -> list[Candidate]:
    """By score, the best value of each lever before the second of any.

    Equal scores, as those without a prediction: levers that were never tried first, then the safest.
    """
    rounds: dict[tuple[str, ...], int] = {}
    keyed = []
    for place, candidate in sorted(
        enumerate(candidates), key=lambda pair: (-pair[1].score, pair[0])
    ):
        turn = rounds[candidate.levers] = rounds.get(candidate.levers, -1) + 1
        tried = sum(history.failure_rate(lever)[1] for lever in candidate.levers)
        keyed.append(
            (
                (
                    turn,
                    -candidate.score,
                    tried > 0,
                    SAFETY.index(candidate.safety),
                    candidate.cost_s,
                    place,
                ),
                candidate,
            )
        )
    return [candidate for _, candidate in sorted(keyed, key=lambda pair: pair[0])]
