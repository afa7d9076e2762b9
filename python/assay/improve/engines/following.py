"""A server led along a text that another configuration wrote: would it nearly have written it?

Only log-probabilities of generated tokens are needed. The server continues greedily from the prompt;
where its token is not the text's, the gap between the two is noted, and it continues from behind the
text's token, as often as the two part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from assay.improve.engines.probing import Position, Prober
from assay.improve.engines.protocol import Followed, Given
from assay.load.workloads.workload import PlannedRequest, is_constrained, is_greedy
from assay.openai_api.answers import PART

REPLACEMENT: Final = "\ufffd"
"""What servers write for a token that is a part of a character: no text leads behind it."""
_REPLACED: Final = REPLACEMENT.encode()
_SPELLED: Final = "bytes:\\x"

Ask = Callable[[str, int], Sequence[Position]]
"""A text and a number of tokens to the server's greedy continuation."""


class Server(Protocol):
    """What knows the tokens of texts: those of a chat are behind marks that no text has."""

    def rendered(self, request: PlannedRequest) -> Sequence[int] | None:
        """The tokens of a conversation; None where nobody says."""

    def continued(self, text: str) -> Sequence[int]:
        """The tokens of a text that stands behind others."""


def along(prober: Prober, server: Server, model: str, given: Given, tie: float) -> Followed | None:
    """Lead a server along an answer: token by token where it is greedy, else by one scored text.

    None where it cannot be led: behind thoughts and calls of tools, whose marks the answer does not
    have, and where fields constrain what comes next.
    """
    request, answer = given
    if not isinstance(answer, str) or PART in answer or is_constrained(request):
        return None
    if not request.messages:
        return _behind_text(prober, model, request, answer, tie)
    conversation = server.rendered(request)
    if conversation is None:
        return None

    def behind_it(text: str) -> Sequence[int]:
        return (*conversation, *server.continued(text)) if text else conversation

    return _behind_tokens(prober, model, request, answer, tie, behind_it)


def _behind_text(
    prober: Prober, model: str, request: PlannedRequest, answer: str, tie: float
) -> Followed | None:
    if is_greedy(request):
        return led(
            lambda text, tokens: prober.positions(model, text, tokens),
            request.prompt,
            answer,
            request.max_tokens,
            tie,
        )
    whole = _whole(answer)
    scored = prober.scored(model, request.prompt + whole) if whole else []
    return behind(scored, len(request.prompt))


def _behind_tokens(
    prober: Prober,
    model: str,
    request: PlannedRequest,
    answer: str,
    tie: float,
    tokens_to: Callable[[str], Sequence[int]],
) -> Followed | None:
    """Along an answer behind a conversation, whose tokens `tokens_to` puts before those of a text."""
    if is_greedy(request):
        return led(
            lambda text, tokens: prober.positions(model, tokens_to(text), tokens),
            "",
            answer,
            request.max_tokens,
            tie,
        )
    whole = _whole(answer)
    scored = prober.scored(model, tokens_to(whole)) if whole else []
    start = len(tokens_to(""))
    return _followed(scored[start:]) if len(scored) > start else None


def _whole(answer: str) -> str:
    """An answer that a server can score: cut before a part of a character at its end, "" with one inside."""
    whole = answer.rstrip(REPLACEMENT)
    return "" if REPLACEMENT in whole else whole


def led(ask: Ask, prompt: str, answer: str, max_tokens: int, tie: float) -> Followed | None:
    """Lead a server along an answer; None where it gives no log-probabilities.

    It ends at the first gap above `tie`, which is all that matters, and where the text's token is
    not among the alternatives: the gap is then at least that to the last of them. Texts are compared
    as bytes: a token may be a part of a character.
    """
    gaps: list[float] = []
    said = answer.encode("utf-8", "surrogatepass")
    at = 0
    while at < len(said):
        stands = _text(said[:at])
        positions = [] if stands is None else ask(prompt + stands, max(max_tokens - len(gaps), 1))
        if stands is None:
            # No text leads behind a part of a character.
            return Followed(tuple(gaps), is_whole=False)
        if not positions or not any(position.top for position in positions):
            return None
        before = at
        for position in positions:
            if REPLACEMENT in position.text or said.startswith(_REPLACED, at):
                return Followed(tuple(gaps), is_whole=False)
            step = _agrees(_bytes(position.text), said, at)
            if step is not None:
                gaps.append(0.0)
                at = step
                if at >= len(said):
                    break
                continue
            gap, taken = _gap(position, said, at)
            gaps.append(gap)
            if gap > tie or not taken:
                return Followed(tuple(gaps), is_whole=False)
            at += taken
            break
        if at == before:
            return Followed(tuple(gaps), is_whole=False)
    return Followed(tuple(gaps))


def _bytes(token: str) -> bytes:
    r"""The bytes of a token, as servers spell it; OpenAI spells parts of characters by their codes.

    >>> _bytes(" the"), _bytes("bytes:\\xe4\\xb8")
    (b' the', b'\xe4\xb8')
    """
    if token.startswith(_SPELLED):
        try:
            return bytes.fromhex(token.removeprefix("bytes:").replace("\\x", ""))
        except ValueError:
            pass
    return token.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str | None:
    """Bytes as a text; None where they end inside of a character."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _agrees(token: bytes, said: bytes, at: int) -> int | None:
    """Where the answer goes on behind a token; None where the token is another one.

    >>> _agrees(b" the", b"In the end", 2), _agrees(b" a", b"In the end", 2)
    (6, None)
    """
    if said.startswith(token, at):
        return at + len(token)
    if said.startswith(token[: len(said) - at], at) and len(said) - at < len(token):
        # The text ends inside of this token: a stop text, or the end of a character, was cut off.
        return len(said)
    return None


def _gap(position: Position, said: bytes, at: int) -> tuple[float, int]:
    """How far the text's token is behind the server's own, and how long it is; 0 where none fits."""
    most = max([position.logprob, *position.top.values()])
    fitting = {
        token: logprob
        for text, logprob in position.top.items()
        if (token := _bytes(text)) and said.startswith(token, at)
    }
    if not fitting:
        return most - min(position.top.values(), default=position.logprob), 0
    taken = max(fitting, key=lambda token: fitting[token])
    return most - fitting[taken], len(taken)


def behind(scored: Sequence[Position], start: int) -> Followed | None:
    """The log-probabilities of the tokens of a scored text that begin at `start` or behind it.

    None where the server scored less than the text: it does not echo.
    """
    offset = 0
    for at, position in enumerate(scored):
        if offset >= start:
            return _followed(scored[at:])
        offset += len(position.text)
    return None


def _followed(scored: Sequence[Position]) -> Followed:
    gaps = (
        max([position.logprob, *position.top.values()]) - position.logprob for position in scored
    )
    return Followed(tuple(gaps), tuple(position.logprob for position in scored))
