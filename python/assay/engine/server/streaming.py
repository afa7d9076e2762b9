"""Answers that end when their client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assay.engine.server import errors

T = TypeVar("T")

DONE: Final = b"data: [DONE]\n\n"


class ClientLeftError(Exception):
    """The client closed its connection before its answer was whole."""


async def unless_left(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, or stop it as soon as the client disconnects."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeftError
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


class EventStream(Response):
    """Server-sent events from a generator, which is closed however the answer ends.

    The first event is awaited before the answer starts, so that what goes wrong until then has
    an HTTP status of its own; later errors are an event, as OpenAI's clients expect.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client leaves."""
        async with aclosing(self._events):
            try:
                await unless_left(receive, self._send(scope, receive, send))
            except ClientLeftError:
                return

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._events)
        except Exception as error:
            await errors.answer(error)(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, first)
        try:
            async for data in self._events:
                await _body(send, data)
        except Exception as error:
            await _body(send, event(errors.body(errors.describe(error))))
        await _body(send, b"", more=False)


async def _body(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})
