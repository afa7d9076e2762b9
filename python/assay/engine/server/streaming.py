"""Server-sent events, and responses that stop when their client disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assay.engine.server import errors
from assay.engine.server.direct_writer import DirectWriter

T = TypeVar("T")

DONE: Final = b"data: [DONE]\n\n"


class ClientDisconnectedError(Exception):
    """The client disconnected before its response was complete."""


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await the work; cancel it as soon as the client disconnects."""
    working = asyncio.ensure_future(work)
    disconnecting = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnectedError
        return working.result()
    finally:
        working.cancel()
        disconnecting.cancel()
        await asyncio.gather(working, disconnecting, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def named_event(name: str, data: dict[str, Any]) -> bytes:
    """One server-sent event with its name on a line of its own."""
    return f"event: {name}\n".encode() + event(data)


class EventStream(Response):
    """Server-sent events from a generator, which is closed however the response ends.

    The first event is awaited before the response starts, so that an error before it has its own
    HTTP status; a later error is sent as an event, as OpenAI's clients expect. After the first one,
    `connect` gets the writer of the connection, where there is one: what is written there is left
    out by the generator.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        connect: Callable[[DirectWriter], None] | None = None,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._connect = connect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client disconnects."""
        async with aclosing(self._events):
            try:
                await cancel_on_disconnect(receive, self._send(scope, receive, send))
            except ClientDisconnectedError:
                return

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._events)
        except Exception as error:
            await errors.error_response(error)(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, first)
        if self._connect is not None and (writer := DirectWriter.of(scope)) is not None:
            self._connect(writer)
        try:
            async for data in self._events:
                await _body(send, data)
        except Exception as error:
            await _body(send, event(errors.error_body(errors.as_api_error(error))))
        await _body(send, b"", more=False)


async def _body(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})
