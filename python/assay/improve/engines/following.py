"""A server led along a text that another configuration wrote: would it nearly have written it?

Only log-probabilities of generated tokens are needed. The server continues greedily from the prompt;
where its token is not the text's, the gap between the two is noted, and it continues from behind the
text's token, as often as the two part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from assay.improve.engines.probing import Position, Prober
from assay.improve.engines.protocol import Followed, Given
from assay.load.workloads.workload import is_greedy

REPLACEMENT: Final = "\ufffd"
"""What servers write for a token that is a part of a character: no text leads behind it."""

Ask = Callable[[str, int], Sequence[Position]]
"""A text and a number of tokens to the server's greedy continuation."""


def along(prober: Prober, model: str, given: Given, tie: float) -> Followed | None:
    """Lead a server along an answer: token by token where it is greedy, else by one scored text."""
    request, answer = given
    if not isinstance(answer, str):
        return None
    if is_greedy(request):
        return led(
            lambda text, tokens: prober.positions(model, text, tokens),
            request.prompt,
            answer,
            request.max_tokens,
            tie,
        )
    return behind(prober.scored(model, request.prompt + answer), len(request.prompt))


def led(ask: Ask, prompt: str, answer: str, max_tokens: int, tie: float) -> Followed | None:
    """Lead a server along an answer; None where it gives no log-probabilities.

    It ends at the first gap above `tie`, which is all that matters, and where the text's token is
    not among the alternatives: the gap is then at least that to the last of them.
    """
    gaps: list[float] = []
    at = 0
    while at < len(answer):
        positions = ask(prompt + answer[:at], max(max_tokens - len(gaps), 1))
        if not positions or not any(position.top for position in positions):
            return None
        before = at
        for position in positions:
            if REPLACEMENT in position.text:
                return Followed(tuple(gaps), is_whole=False)
            step = _agrees(position.text, answer, at)
            if step is not None:
                gaps.append(0.0)
                at = step
                if at >= len(answer):
                    break
                continue
            gap, taken = _gap(position, answer, at)
            gaps.append(gap)
            if gap > tie or not taken:
                return Followed(tuple(gaps), is_whole=False)
            at += len(taken)
            break
        if at == before:
            return Followed(tuple(gaps), is_whole=False)
    return Followed(tuple(gaps))


def _agrees(text: str, answer: str, at: int) -> int | None:
    """Where the answer goes on behind a token; None where the token is another one.

    >>> _agrees(" the", "In the end", 2), _agrees(" a", "In the end", 2)
    (6, None)
    """
    if answer.startswith(text, at):
        return at + len(text)
    if answer.startswith(text[: len(answer) - at], at) and len(answer) - at < len(text):
        # The text ends inside of this token: a stop text, or the end of a character, was cut off.
        return len(answer)
    return None


def _gap(position: Position, answer: str, at: int) -> tuple[float, str]:
    """How far the text's token is behind the server's own, and which it is; "" where none fits."""
    most = max([position.logprob, *position.top.values()])
    fitting = {
        text: logprob
        for text, logprob in position.top.items()
        if text and answer.startswith(text, at)
    }
    if not fitting:
        return most - min(position.top.values(), default=position.logprob), ""
    taken = max(fitting, key=lambda text: fitting[text])
    return most - fitting[taken], taken


def behind(scored: Sequence[Position], start: int) -> Followed | None:
    """The log-probabilities of the tokens of a scored text that begin at `start` or behind it.

    None where the server scored less than the text: it does not echo.
    """
    offset, gaps, logprobs = 0, [], []
    for position in scored:
        if offset >= start:
            logprobs.append(position.logprob)
            most = max([position.logprob, *position.top.values()])
            gaps.append(most - position.logprob)
        offset += len(position.text)
    if not logprobs or offset <= start:
        return None
    return Followed(tuple(gaps), tuple(logprobs))
