"""Whether an answer that differs is a wrong one, by what the control makes of it.

Greedy: every token must be the control's own choice or a near tie with it. Sampled: the answer must
not be better explained by tokens drawn blindly than by the control's own distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from assay.improve.engines.protocol import Followed
from assay.improve.levers.lever import Correctness

Kind = Literal["near ties", "as drawn", "wrong", "not judged"]
"""As drawn: a sample that the control may well have drawn."""

LEAST_NEAR_TIE: Final = 0.0625
"""Nats: one step of bf16 between 8 and 16, where the largest logits lie. Rounding moves a logit by as
much in any engine, also in one that repeats itself exactly in every batch that was tried; such a token
has 94 % of the probability of the one chosen."""
MOST_NEAR_TIE: Final = 1.0
"""Nats. An engine that differs from itself by more than a factor of e has no near ties to go by."""
TIE_MARGIN: Final = 2.0
"""A near tie is up to this many times the largest gap of the engine along its own answers: two
configurations may each be that far from the exact one, on different sides."""
MOST_DISAGREEING: Final = 0.25
"""Share of an answer's tokens beyond near ties that a lossy lever may choose differently."""

VOCABULARY: Final = 1 << 18
"""Tokens to draw blindly from. More than a model has makes the test milder, not wrong."""
GARBLED: Final = (0.01, 0.1)
"""Chance at each token that garbling begins, and that it ends, in the alternative of the test."""
FALSE_ALARM: Final = 1e-6
"""Chance, at most, that a correctly sampled answer counts as wrong."""


class Judgment(NamedTuple):
    """One answer that differs."""

    kind: Kind
    gap: float
    """Greedy: the largest gap, in nats. Sampled: logarithm of the evidence against the answer."""
    token: int = -1
    """Where the largest gap is."""


def near_tie(largest_own_gap: float) -> float:
    """How large a gap may be, given the largest of the engine along its own answers.

    >>> near_tie(0.0), near_tie(0.2), near_tie(3.0)
    (0.0625, 0.4, 1.0)
    """
    return min(max(TIE_MARGIN * largest_own_gap, LEAST_NEAR_TIE), MOST_NEAR_TIE)


def judge(
    followed: Followed | None,
    tie: float,
    correctness: Correctness,
    *,
    greedy: bool,
    temperature: float = 0.0,
) -> Judgment:
    """Judge an answer that is not the control's."""
    if followed is None:
        return Judgment("not judged", math.nan)
    if not greedy:
        return _sampled(followed, temperature)
    if not followed.gaps:
        return Judgment("not judged", math.nan)
    token, gap = max(enumerate(followed.gaps), key=lambda pair: pair[1])
    if correctness == "lossy":
        if not followed.is_whole and gap <= tie:
            return Judgment("not judged", gap, token)
        beyond = sum(other > tie for other in followed.gaps)
        is_wrong = beyond > MOST_DISAGREEING * len(followed.gaps)
        return Judgment("wrong" if is_wrong else "near ties", gap, token)
    if gap > tie:
        return Judgment("wrong", gap, token)
    return Judgment("near ties" if followed.is_whole else "not judged", gap, token)


def _sampled(followed: Followed, temperature: float) -> Judgment:
    """A token that is drawn at a temperature above 1 may be one that no model would choose."""
    if not followed.logprobs or temperature > 1.0:
        return Judgment("not judged", math.nan)
    evidence = garbling_evidence(followed.logprobs)
    token = min(range(len(followed.logprobs)), key=lambda at: followed.logprobs[at])
    is_wrong = evidence >= -math.log(FALSE_ALARM)
    return Judgment("wrong" if is_wrong else "as drawn", evidence, token)


def garbling_evidence(logprobs: Sequence[float]) -> float:
    """Logarithm of an e-value against "the control drew these tokens".

    The alternative garbles stretches of the answer: tokens drawn blindly from a vocabulary, begun and
    ended at any token. The likelihood ratio has a mean of at most 1 where the control drew the tokens,
    so that it exceeds 1/a with a chance of at most a (Ville). Temperatures below 1 draw likelier
    tokens, for which it is smaller.

    >>> garbling_evidence([-0.5] * 40) < 0, garbling_evidence([-0.5] * 20 + [-19.0] * 6) > 14
    (True, True)
    """
    begin, end = GARBLED
    # Logarithms of the weight of being in a plain stretch, and in a garbled one.
    plain, garbled = 0.0, -math.inf
    for logprob in logprobs:
        blind = -math.log(VOCABULARY) - logprob
        plain, garbled = (
            _sum(plain + math.log1p(-begin), garbled + math.log(end)),
            _sum(plain + math.log(begin), garbled + math.log1p(-end)) + blind,
        )
    return _sum(plain, garbled)


def _sum(first: float, second: float) -> float:
    high, low = max(first, second), min(first, second)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
