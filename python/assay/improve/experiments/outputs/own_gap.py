"""How far an engine is from its own answers: what it differs from itself, in nats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from assay.improve.engines.protocol import Engine
from assay.improve.experiments.outputs.ledger import AnswerLedger
from assay.load.workloads.workload import is_greedy

LEAST_FOLLOWED: Final = 2
MOST_FOLLOWED: Final = 16
"""Own answers that the engine is led along, where all were equal."""


def largest_own_gap(
    engine: Engine, answers: AnswerLedger, has_time: Callable[[], bool] = lambda: True
) -> float | None:
    """The largest gap of an engine along answers that it gave itself; None where it tells none.

    The answers come from windows of the workload, in the batches of that load; led along one, the
    engine sees it alone, or many of its tokens at once: other batch sizes, other kernels. Those that
    differed between two windows come first. Sampled answers have no near ties.
    """
    largest, followed = None, 0
    answers.follow(engine, has_time)
    for answer in answers.differing:
        if answer.gap is not None and answer.kind == "near ties":
            largest = max(largest or 0.0, answer.gap)
    greedy = sorted(
        number for number in answers.known if is_greedy(answers.workload.requests[number])
    )
    step = max(len(greedy) // MOST_FOLLOWED, 1)
    for number in greedy[::step]:
        if followed >= LEAST_FOLLOWED and not has_time():
            break
        for output in sorted(answers.known[number], key=str)[:1]:
            own = engine.follow(answers.workload.requests[number], output, answers.tie)
            if own is None or not own.gaps:
                return largest
            followed += 1
            largest = max(largest or 0.0, *own.gaps)
    return largest
