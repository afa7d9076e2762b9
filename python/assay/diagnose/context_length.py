"""The context length that a trace does not state, from the time of its attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.planner.graph import Graph

GRID: Final = (1, 64, 256, 1024, 4096, 16_384, 65_536, 262_144)
"""Context lengths that are predicted first."""
REFINEMENTS: Final = 3


@dataclass(frozen=True, slots=True)
class ContextLength:
    """Tokens in the KV cache of a sequence, and the range that the prediction's interval allows."""

    tokens: int
    lo: int
    hi: int
    source: str = "attention"
    """attention: from its time, which it then does not test; trace: the tokens that it shows."""


def infer(observed_ns: float, predict: Callable[[int], Graph]) -> ContextLength | None:
    """The context at which attention is predicted to take as long as it did.

    None where the prediction has no attention. The longer the context, the longer attention takes:
    between two lengths it is close to a line.
    """
    times: dict[int, tuple[float, float, float]] = {}

    def at(tokens: int) -> tuple[float, float, float]:
        if tokens not in times:
            nodes = [
                node for node in predict(tokens).nodes if "attention" in node.operation.split("+")
            ]
            times[tokens] = (
                sum(node.expected_ns for node in nodes),
                sum(node.lo_ns for node in nodes),
                sum(node.hi_ns for node in nodes),
            )
        return times[tokens]

    for tokens in GRID:
        expected, lo, _ = at(tokens)
        if not expected:
            return None
        if lo > observed_ns:
            break
    for _ in range(REFINEMENTS):
        at(_solve(times, observed_ns, 0))
    context = _solve(times, observed_ns, 0)
    # The longest time at a length bounds the context from below.
    return ContextLength(
        context,
        min(_solve(times, observed_ns, 2), context),
        max(_solve(times, observed_ns, 1), context),
    )


def _solve(times: dict[int, tuple[float, float, float]], observed: float, which: int) -> int:
    """Where the line through the predicted times meets the observed one."""
    tokens = np.array(sorted(times), np.float64)
    values = np.maximum.accumulate([times[int(token)][which] for token in tokens])
    if observed <= values[0]:
        return int(tokens[0])
    return max(round(float(np.interp(observed, values, tokens))), 1)
