"""What stands before the routes: the key, the size of a body, and patience with slow clients."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assay.engine.server.errors import ApiError, answer


class Guards:
    """Refuses a request without the key or with too large a body before anything reads it."""

    def __init__(self, app: ASGIApp, *, api_key: str | None, body_limit: int) -> None:
        self._app = app
        self._api_key = api_key.encode() if api_key else None
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its whole body read, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_key(scope)
            first = await self._whole_body(scope, receive)
        except ApiError as error:
            await answer(error)(scope, receive, send)
            return
        unread = [first]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)

    def _check_key(self, scope: Scope) -> None:
        if self._api_key is None or not scope["path"].startswith("/v1/"):
            return
        scheme, _, given = _header(scope, b"authorization").partition(b" ")
        # Comparing in constant time tells nothing of how much of a guess was right.
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._api_key):
            raise ApiError("the API key is missing or wrong", status=401, code="invalid_api_key")

    async def _whole_body(self, scope: Scope, receive: Receive) -> Message:
        declared = _header(scope, b"content-length")
        if declared.isdigit() and int(declared[:20]) > self._body_limit:
            raise self._too_large()
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._body_limit:
                raise self._too_large()
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(body), "more_body": False}

    def _too_large(self) -> ApiError:
        return ApiError(
            f"the request's body is larger than {self._body_limit:,} bytes",
            status=413,
            code="request_too_large",
        )


def _header(scope: Scope, name: bytes) -> bytes:
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found


class PatientProtocol(H11Protocol):
    """HTTP that hangs up on a client which neither finishes its request nor reads its answer.

    uvicorn waits for both without end: a thousand clients that say nothing would hold a thousand
    connections, and one that stops reading would keep a drain from ending.
    """

    request_seconds: Final = 30.0
    """Time for a whole request to arrive, from its first byte or the connection's start."""
    reading_seconds: Final = 60.0
    """Time for a client to read on when what was sent to it has filled the connection."""

    _arriving: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._arriving = self.loop.call_later(self.request_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the request is whole; start anew with the next one."""
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            if self._arriving is None:
                self._arriving = self.loop.call_later(self.request_seconds, self.transport.abort)
        else:
            _stop(self._arriving)
            self._arriving = None

    def pause_writing(self) -> None:
        """Wait for the client to read on."""
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(
            self.reading_seconds, self.transport.abort
        )

    def resume_writing(self) -> None:
        """The client read on."""
        super().resume_writing()
        _stop(self._stalled)
        self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any longer."""
        _stop(self._arriving)
        _stop(self._stalled)
        super().connection_lost(exc)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
