"""What differs from start to start: servers of equal settings, each measured while it runs.

Pairs between two servers that keep running never average out what their starts made different. Their
interval is widened by what other starts of the control show (Student's t over the levels of starts).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

from assay.improve.engines.protocol import Engine
from assay.improve.experiments.blocks import BlockMeter
from assay.improve.experiments.result import Arm, Block
from assay.improve.loop.state import RunState

NAME: Final = "starts"
"""The experiment that blocks of this measurement are written under."""
ROUNDS: Final = 2
ALPHA: Final = 0.05
_STEPS: Final = 400
"""Of Simpson's rule."""


def level_of(blocks: Sequence[Block]) -> float | None:
    """Mean logarithm of the values of one start; None where no block counts."""
    values = [math.log(block.value) for block in blocks if block.value > 0.0]
    return math.fsum(values) / len(values) if values else None


def half_width(levels: Sequence[float], comparisons: int = 1) -> float:
    """Half-width of a log-ratio between two starts, from the levels of starts of equal settings.

    Two starts differ by the square root of two of one's spread. The best of several comparisons is
    the one that had most luck: its quantile is that of all of them together (Bonferroni).

    >>> round(half_width([0.0, 0.002]), 4)
    0.0254
    """
    count = len(levels)
    if count < 2:
        return 0.0
    mean = math.fsum(levels) / count
    spread = math.sqrt(math.fsum((level - mean) ** 2 for level in levels) / (count - 1))
    tail = ALPHA / 2.0 / max(comparisons, 1)
    return student_quantile(tail, count - 1) * math.sqrt(2.0) * spread


@functools.cache
def student_quantile(tail: float, freedom: int) -> float:
    """The value that Student's t exceeds with the chance `tail`.

    With t = sqrt(freedom) tan(u) the density becomes cos(u) ** (freedom - 1), which is smooth and
    bounded.

    >>> round(student_quantile(0.025, 1), 3), round(student_quantile(0.025, 4), 3)
    (12.706, 2.776)
    """
    whole = _integral(0.0, math.pi / 2, freedom - 1)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond = 0.5 * _integral(middle, math.pi / 2, freedom - 1) / whole
        low, high = (middle, high) if beyond > tail else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _integral(low: float, high: float, power: int) -> float:
    step = (high - low) / _STEPS
    ordinates = [math.cos(low + at * step) ** power for at in range(_STEPS + 1)]
    inner = 4 * math.fsum(ordinates[1:-1:2]) + 2 * math.fsum(ordinates[2:-1:2])
    return step / 3 * (ordinates[0] + inner + ordinates[-1])


def measured_levels(
    state: RunState, requests: int, twin: Engine | None
) -> tuple[float | None, float | None]:
    """Levels of the server that serves now and of its twin, in turns on the same requests."""
    engines: list[Engine] = [state.engine] if twin is None else [state.engine, twin]
    blocks: list[list[Block]] = [[] for _ in engines]
    for round_number in range(ROUNDS):
        order = list(range(len(engines)))
        for place in order if round_number % 2 == 0 else order[::-1]:
            meter = BlockMeter(engines[place], state.workload, NAME, requests, state.keep_block)
            arm: Arm = "treatment" if place else "control"
            # The first block of a start warms it up.
            if not round_number:
                meter.measure(arm, -1, round_number, dropped="warm-up")
            block = meter.measure(arm, -1, round_number, dropped="level of a start").block
            blocks[place].append(block)
    levels = [level_of(measured) for measured in blocks]
    return levels[0], levels[1] if twin is not None else None
