"""The order of arms: A B B A or B A A B by a coin, so that drift cancels and luck cannot repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator

from assay.improve.experiments.result import Arm

_FORWARD: tuple[Arm, Arm] = ("control", "treatment")
_BACKWARD: tuple[Arm, Arm] = ("treatment", "control")


def alternating(seed: int, batch: int = 1) -> Iterator[tuple[Arm, ...]]:
    """Arms of pair after pair.

    Two pairs in a row are mirror images (A B, B A), and a coin says which comes first: a linear
    drift cancels, and whatever repeats in the machine's noise meets both arms equally often. With
    a batch of 2 the mirror images are one pair, A B B A: an effect of the place cancels within it.

    >>> pairs = alternating(seed=0)
    >>> first, second = next(pairs), next(pairs)
    >>> first == second[::-1]
    True
    """
    coin = random.Random(seed)
    while True:
        first, second = (_FORWARD, _BACKWARD) if coin.random() < 0.5 else (_BACKWARD, _FORWARD)
        if batch == 2:
            yield (*first, *second)
        else:
            yield first
            yield second


def serial(visit_blocks: int) -> Iterator[tuple[Arm, ...]]:
    """Arms of pair after pair where each change is a restart: A..A B..B, B..B A..A, and again.

    Pairs that follow each other share a start, so n pairs cost n restarts, and an even number ends
    with the control. What differs from start to start is in the spread of the pairs: every other
    visit of an arm is a new start.
    """
    control: tuple[Arm, ...] = ("control",)
    treatment: tuple[Arm, ...] = ("treatment",)
    while True:
        yield visit_blocks * control + visit_blocks * treatment
        yield visit_blocks * treatment + visit_blocks * control
