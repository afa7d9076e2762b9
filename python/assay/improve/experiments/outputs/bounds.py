"""How often answers are wrongly changed at most, however often one looks.

Clopper and Pearson's bound (1934) holds for a number of answers that was fixed before. An experiment
stops when it likes. With k wrong answers the bound excludes a rate once n_k answers were compared, and
that errs only if at most k of the first n_k were wrong: a chance of alpha_k. Levels alpha_k that sum to
alpha make the bound hold at every look, for every k.
"""

from __future__ import annotations

import math
from typing import Final

from assay.intervals import Interval
from assay.lazy_import import special

FIRST_SHARE: Final = 0.9
"""Part of alpha for no wrong answer; each further one gets a tenth of the one before. 1,400 answers
without a wrong one then exclude 1 in 200 at 99.9 %."""


def level_of(wrong: int, confidence: float) -> float:
    """The chance of an error that is spent on this number of wrong answers."""
    return (1.0 - confidence) * FIRST_SHARE * (1.0 - FIRST_SHARE) ** wrong


def changed_rate(wrong: int, compared: int, confidence: float) -> Interval:
    """The rate of wrongly changed answers with its upper bound.

    >>> changed_rate(0, 1400, 0.999).hi <= 1 / 200 < changed_rate(0, 1399, 0.999).hi
    True
    """
    if not compared:
        return Interval(0.0, 0.0, 1.0)
    share, alpha = wrong / compared, level_of(wrong, confidence)
    if wrong >= compared:
        return Interval(1.0, 0.0, 1.0)
    if not wrong:
        return Interval(0.0, 0.0, -math.expm1(math.log(alpha) / compared))
    upper = float(special.betaincinv(wrong + 1, compared - wrong, 1.0 - alpha))
    return Interval(share, 0.0, upper)


def answers_needed(most_changed: float, confidence: float) -> int:
    """Answers without a wrong one that exclude a rate above `most_changed`.

    >>> answers_needed(1 / 200, 0.999), answers_needed(1 / 50, 0.95)
    (1400, 154)
    """
    return math.ceil(math.log(level_of(0, confidence)) / math.log1p(-most_changed))


def one_in(rate: float) -> str:
    """A rate in words.

    >>> one_in(0.005), one_in(0.004998), one_in(1.0), one_in(4e-5)
    ('1 in 200', '1 in 200', '1 in 1', '1 in 25,000')
    """
    return f"1 in {1.0 / rate:,.0f}" if rate > 0.0 else "none"
