"""Evidence from who was drawn: an e-value of a randomized assignment, exact whatever the noise is.

Which k of 2k replicas get the change is drawn, all draws alike. Under the hypothesis that the change
does nothing, a replica's figure does not depend on the draw, so that the difference between the
groups is one of those of all draws, each as likely, however replicas correlate with each other.
exp(bet times difference) over its mean over all draws then has the expectation 1: an e-value. Draws of
later rounds are independent of earlier rounds, so that the product over rounds is a test martingale and
may be looked at after each (Ville): it ever reaches 1/alpha with a chance of alpha at most.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from assay.array_types import Floats

BETS: Final = (0.5, 1.0, 2.0, 4.0)
"""Bets on a difference of so many standard errors each way; their e-values are averaged."""
NOT_BET: Final = 0.1
"""Part of the wealth that no round risks: one odd replica must not decide against all others."""
MOST_ENUMERATED: Final = 8
"""Replicas of a group up to which all draws are enumerated: 12,870 of 16."""
SAMPLED: Final = 20_000
"""Random draws in place of all where there are more; the one that was made is among them."""
_WIDEST: Final = 4.0
"""Logarithm of the largest ratio that is looked for when bounds are computed."""


@dataclass(frozen=True, slots=True)
class Round:
    """What replicas of both groups came to, against their own baselines; higher is better."""

    treatment: tuple[float, ...]
    control: tuple[float, ...]
    spread: float
    """Standard deviation of a replica's figure, from earlier rounds only."""

    @property
    def difference(self) -> float:
        """Mean of the treatment less mean of the control."""
        return _mean(self.treatment) - _mean(self.control)

    @property
    def size(self) -> int:
        """Replicas of each group."""
        return len(self.treatment)


@dataclass(slots=True)
class Evidence:
    """Rounds so far, and what they say of the change."""

    rounds: list[Round] = field(default_factory=list)
    for_better: float = 1.0
    """Wealth of bets that the change helps."""
    for_worse: float = 1.0

    def add(self, entry: Round) -> None:
        """Count a round."""
        self.rounds.append(entry)
        self.for_better *= e_value(entry.treatment, entry.control, entry.spread)
        self.for_worse *= e_value(entry.treatment, entry.control, entry.spread, -1.0)

    def wealth(self, shift: float, sign: float) -> float:
        """Evidence that the change adds more than `shift`; with the sign -1 that it adds less."""
        product = 1.0
        for entry in self.rounds:
            moved = tuple(value - shift for value in entry.treatment)
            product *= e_value(moved, entry.control, entry.spread, sign)
        return product

    @property
    def estimate(self) -> float:
        """What the change adds: the mean over rounds, each replica counted alike."""
        replicas = sum(entry.size for entry in self.rounds)
        total = math.fsum(entry.size * entry.difference for entry in self.rounds)
        return total / replicas if replicas else 0.0

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Lower and upper bound of what the change adds, each missed with a chance of alpha."""
        center = self.estimate
        return (
            self._bound(center, -_WIDEST, 1.0, 1.0 / alpha),
            self._bound(center, _WIDEST, -1.0, 1.0 / alpha),
        )

    def _bound(self, inside: float, outside: float, sign: float, limit: float) -> float:
        if not self.rounds or self.wealth(outside, sign) < limit:
            return math.copysign(math.inf, outside)
        for _ in range(24):
            middle = 0.5 * (inside + outside)
            if self.wealth(middle, sign) < limit:
                inside = middle
            else:
                outside = middle
        return outside


def e_value(
    treatment: Sequence[float], control: Sequence[float], spread: float, sign: float = 1.0
) -> float:
    """The e-value of a round against "the change does nothing", for it being better.

    >>> round(e_value([0.1] * 4, [0.0] * 4, 0.01)), e_value([0.0], [0.0], 0.01)
    (58, 1.0)
    """
    size = len(treatment)
    values = sign * np.array([*treatment, *control], dtype=np.float64)
    errors = _draws(size) @ values / (spread * math.sqrt(2.0 / size))
    exponents = np.outer(BETS, errors)
    highest = exponents.max(axis=1)
    means = highest + np.log(np.exp(exponents - highest[:, None]).mean(axis=1))
    gained = float(np.exp(exponents[:, 0] - means).mean())
    return NOT_BET + (1.0 - NOT_BET) * gained


@functools.cache
def _draws(size: int) -> Floats:
    """A row for each draw, the one that was made first: 1/size for its treatment, else -1/size."""
    if size <= MOST_ENUMERATED:
        chosen = np.array(list(itertools.combinations(range(2 * size), size)))
    else:
        generator = np.random.default_rng(0)
        drawn = [generator.permutation(2 * size)[:size] for _ in range(SAMPLED)]
        chosen = np.array([np.arange(size), *drawn])
    rows = np.full((len(chosen), 2 * size), -1.0 / size)
    np.put_along_axis(rows, chosen, 1.0 / size, axis=1)
    return rows


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
