"""Server-sent events: JSON, one event a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi.responses import StreamingResponse

from assay.cli.output import to_json

QUIET_SECONDS: Final = 10.0
"""A comment is sent after so long without an event, so that a closed connection is noticed."""


def event(name: str, data: Any) -> str:
    """An event as text; JSON escapes every line break in the data.

    >>> event("tick", {"at": 1})
    'event: tick\\ndata: {"at": 1}\\n\\n'
    """
    import json

    # to_json makes every number finite; what it indents is written on one line again.
    return f"event: {name}\ndata: {json.dumps(json.loads(to_json(data)))}\n\n"


def stream(events: AsyncIterator[str]) -> StreamingResponse:
    """The response of a stream of events, with a comment now and then where none comes."""
    return StreamingResponse(_kept_alive(events), media_type="text/event-stream")


async def _kept_alive(events: AsyncIterator[str]) -> AsyncIterator[str]:
    source = events.__aiter__()
    waiting: asyncio.Future[str] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(_next(source))
            done, _ = await asyncio.wait({waiting}, timeout=QUIET_SECONDS)
            if not done:
                yield ": still here\n\n"
                continue
            found, waiting = waiting, None
            try:
                yield found.result()
            except _EndedError:
                return
    finally:
        if waiting is not None:
            waiting.cancel()
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def _next(source: AsyncIterator[str]) -> str:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        raise _EndedError from None


class _EndedError(Exception):
    """A future cannot hold StopAsyncIteration."""
