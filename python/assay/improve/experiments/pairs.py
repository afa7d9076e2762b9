"""Blocks to pairs, pairs to a ratio: pure functions over stored rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from assay.improve.experiments.confidence_sequence import (
    ALPHA,
    INDEPENDENT,
    ConfidenceSequence,
    Design,
)
from assay.improve.experiments.result import Block, Look
from assay.intervals import Interval
from assay.load.workloads.workload import Direction


class Pair(NamedTuple):
    """Control and treatment of one pair; several blocks of an arm by their geometric mean."""

    pair: int
    control: float
    treatment: float


def pairs_of(blocks: Iterable[Block]) -> list[Pair]:
    """The pairs that count, in order: those with a block of either arm that was not dropped.

    Blocks of a warm-up belong to no pair: their number is below zero.
    """
    values: dict[int, dict[str, list[float]]] = {}
    for block in blocks:
        if block.pair >= 0 and not block.dropped:
            arms = values.setdefault(block.pair, {"control": [], "treatment": []})
            arms[block.arm].append(block.value)
    return [
        Pair(pair, _mean(arms["control"]), _mean(arms["treatment"]))
        for pair, arms in sorted(values.items())
        if arms["control"] and arms["treatment"]
    ]


def log_ratio(pair: Pair, better: Direction) -> float:
    """Logarithm of treatment over control, above 0 better; NaN for values that have none."""
    if not (pair.control > 0.0 and pair.treatment > 0.0):
        return math.nan
    change = math.log(pair.treatment / pair.control)
    return change if better == "higher" else -change


def looks_of(
    blocks: Iterable[Block],
    better: Direction = "higher",
    alpha: float = ALPHA,
    design: Design = INDEPENDENT,
) -> list[Look]:
    """The confidence sequence over the pairs that count: one look a pair, from the second on."""
    sequence = ConfidenceSequence(alpha, design)
    intervals = [(pair.pair, sequence.add(log_ratio(pair, better))) for pair in pairs_of(blocks)]
    return [Look(pair, as_ratios(seen)) for pair, seen in intervals if math.isfinite(seen.hi)]


def as_ratios(log_ratios: Interval) -> Interval:
    """An interval of log-ratios as ratios."""
    return Interval(*(math.exp(min(value, _MOST_LOG)) for value in log_ratios))


_MOST_LOG: Final = 700.0


def _mean(values: list[float]) -> float:
    # Geometric, so that what the place in the order multiplies cancels in A B B A.
    if any(not value > 0.0 for value in values):
        return math.nan
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
