"""An exchange to a request record: when tokens arrived, how many, and what they said."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.load.connection import Exchange
from assay.load.workloads.measurement import RequestRecord
from assay.openai_api.address import shown
from assay.openai_api.answers import PART, event_finish, event_parts, token_counts


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent; times are seconds of the monotonic clock, from the window's start."""

    number: int
    sent_s: float
    ended_s: float
    scheduled_s: float | None
    exchange: Exchange | None
    """None where no whole answer came."""
    error: str | None = None


def to_record(sent: Sent, start_s: float) -> RequestRecord:
    """The record of a request; `start_s` is the window's start on the clock of the exchange."""
    if sent.exchange is None:
        return _failed(sent, sent.error or "no answer")
    if sent.exchange.status != 200:
        said = shown(sent.exchange.body.decode("utf-8", "replace"))
        return _failed(sent, f"HTTP {sent.exchange.status}: {said}")
    try:
        arrivals, text, usage, finish_reason, error = _stream(sent.exchange.pieces)
    # Deeply nested JSON ends in a RecursionError.
    except (ValueError, RecursionError) as broken:
        return _failed(sent, f"expected server-sent events of JSON, got: {shown(broken)}")
    counts = token_counts(usage)
    if error is None and not arrivals:
        error = "expected tokens, got none"
    if error is None and counts is None:
        error = f"expected the usage at the end of the stream, got {shown(usage)}"
    if error is not None or counts is None:
        return _failed(sent, error or "no usage")
    times = [arrival - start_s for arrival in arrivals]
    return RequestRecord(
        number=sent.number,
        sent_s=sent.sent_s,
        first_token_s=times[0],
        end_s=times[-1],
        prompt_tokens=counts[0],
        output_tokens=counts[1],
        itls_s=tuple(after - before for before, after in itertools.pairwise(times)),
        scheduled_s=sent.scheduled_s,
        digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        output=text,
        finish_reason=finish_reason,
    )


def _failed(sent: Sent, error: str) -> RequestRecord:
    return RequestRecord(
        sent.number,
        sent.sent_s,
        None,
        sent.ended_s,
        0,
        0,
        error=error,
        scheduled_s=sent.scheduled_s,
    )


def _stream(pieces: Sequence[tuple[float, bytes]]) -> tuple[list[float], str, Any, str, str | None]:
    """Arrivals of tokens, the whole text, the last usage, why it ended, and the server's error, if any.

    What arrives before anything is said is no first token, or to send an empty chunk would be fast.
    """
    arrivals: list[float] = []
    unsaid = 0
    texts: list[str] = []
    usage: Any = None
    finish_reason, kind = "", "text"
    for now_s, line in _lines(pieces):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if not isinstance(event, dict):
            continue
        if isinstance(event.get("error"), dict):
            return arrivals, "", usage, "", shown(event["error"].get("message"))
        if isinstance(event.get("usage"), dict):
            usage = event["usage"]
        finish_reason = event_finish(event) or finish_reason
        parts = list(event_parts(event))
        if parts and not texts:
            unsaid = len(arrivals)
        if parts or _is_silent_token(event):
            arrivals.append(now_s)
        for part, text in parts:
            texts.append(text if part == kind else PART + text)
            kind = part
    return arrivals[unsaid:], "".join(texts), usage, finish_reason, None


def _is_silent_token(event: dict[str, Any]) -> bool:
    """Whether a chunk without text stands for tokens: a part of a character, a special token.

    The opening chunk of a chat names the role, and a last chunk may only give the reason why the
    generation ended: neither is a token.
    """
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False
    if choices[0].get("finish_reason") is not None:
        return False
    delta = choices[0].get("delta")
    if isinstance(delta, dict):
        return "role" not in delta and "content" in delta
    return isinstance(choices[0].get("text"), str)


def _lines(pieces: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Lines with the time at which their end arrived."""
    parts: list[bytes] = []
    now_s = 0.0
    for now_s, piece in pieces:
        first, *others = piece.split(b"\n")
        parts.append(first)
        for other in others:
            yield now_s, b"".join(parts)
            parts = [other]
    if any(parts):
        yield now_s, b"".join(parts)
