"""Two greedy answers to the same prompt, token by token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.improve.engines.protocol import ProbeAnswer
from assay.improve.experiments.prompts import PROMPTS


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where two answers part. Positions up to and with that one have the same context."""

    first_difference: int | None
    """Position of the first token that differs; None where none does."""
    margin: float | None
    """The first answer's top-2 margin there."""
    positions: int
    """Positions with the same context."""
    agreeing: int
    logprob_difference: float | None
    """Largest difference of log-probabilities of the tokens before they part."""


def compare(before: ProbeAnswer, after: ProbeAnswer) -> Comparison:
    """Compare two answers: by token where both have numbers, else by text."""
    if before.token_ids and after.token_ids:
        left: Sequence[object] = before.token_ids
        right: Sequence[object] = after.token_ids
    else:
        left, right = before.texts, after.texts
    common = min(len(left), len(right))
    same = next((at for at in range(common) if left[at] != right[at]), common)
    # A shorter answer differs where it ends.
    differs = same < max(len(left), len(right))
    shared = min(same, len(before.logprobs), len(after.logprobs))
    changes = [abs(before.logprobs[at] - after.logprobs[at]) for at in range(shared)]
    margin = before.margins[same] if differs and same < len(before.margins) else None
    return Comparison(
        first_difference=same if differs else None,
        margin=margin,
        positions=same + differs,
        agreeing=same,
        logprob_difference=max(changes) if changes else None,
    )


def divergence(before: ProbeAnswer, after: ProbeAnswer) -> list[float]:
    """KL divergence of the second from the first at each position with the same context."""
    count = min(compare(before, after).positions, len(before.top_logprobs), len(after.top_logprobs))
    return [_kl(before.top_logprobs[at], after.top_logprobs[at]) for at in range(count)]


def _kl(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """KL divergence over the best tokens, all others as one.

    Lumping tokens together can only lower it. A token that the second list lacks is given the
    least probability of that list: no more than that is known of it.
    """
    if not before or not after:
        return 0.0
    least = min(after.values())
    total, rest_before, rest_after = 0.0, 1.0, 1.0
    for token, logprob in before.items():
        probability, other = math.exp(logprob), after.get(token, least)
        total += probability * (logprob - other)
        rest_before -= probability
        rest_after -= math.exp(other)
    if rest_before > 1e-9:
        total += rest_before * math.log(rest_before / max(rest_after, 1e-9))
    return max(total, 0.0)


def task_score(answers: Sequence[ProbeAnswer]) -> int:
    """Prompts whose known answer is in the text."""
    return sum(
        bool(prompt.answer) and prompt.answer.lower() in "".join(answer.texts).lower()
        for prompt, answer in zip(PROMPTS, answers, strict=False)
    )


def length(answer: ProbeAnswer) -> int:
    """Tokens of an answer."""
    return len(answer.token_ids) or len(answer.texts)
