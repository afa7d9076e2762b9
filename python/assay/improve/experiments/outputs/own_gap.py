"""How far an engine is from its own answers: what it differs from itself, in nats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from assay.improve.engines.protocol import Engine
from assay.improve.experiments.outputs.ledger import AnswerLedger, Clock
from assay.load.workloads.workload import is_greedy

LEAST_FOLLOWED: Final = 4
MOST_FOLLOWED: Final = 16
"""Own answers that the engine is led along, where all were equal."""


def largest_own_gap(
    engine: Engine, answers: AnswerLedger, left_s: Callable[[], float], clock: Clock
) -> float | None:
    """The largest gap of an engine along answers that it gave itself; None where it tells none.

    The answers come from windows of the workload, in the batches of that load; led along one, the
    engine sees it alone, or many of its tokens at once: other batch sizes, other kernels. Those that
    differed between two windows come first. Sampled answers have no near ties.
    """
    largest = None
    answers.follow(engine, left_s, clock)
    for answer in answers.differing:
        if answer.gap is not None and answer.kind == "near ties":
            largest = max(largest or 0.0, answer.gap)
    requests = answers.workload.requests
    # Nobody can be led along an answer that says nothing.
    said = {number: [answer for answer in answers.known[number] if answer] for number in answers.known}  # fmt: skip
    greedy = sorted(number for number in said if said[number] and is_greedy(requests[number]))
    step = max(len(greedy) // MOST_FOLLOWED, 1)
    own = [(requests[number], min(said[number], key=str)) for number in greedy[::step]]
    while own and (largest is None or left_s() > 0.0):
        now, own = own[:LEAST_FOLLOWED], own[LEAST_FOLLOWED:]
        for followed in engine.follow(now, answers.tie):
            if followed is None or not followed.gaps:
                return largest
            largest = max(largest or 0.0, *followed.gaps)
    return largest
