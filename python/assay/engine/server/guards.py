"""Checks before the routes: API key, body size and type, and timeouts of slow clients."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assay.engine.server import direct_writer
from assay.engine.server.errors import ApiError, error_response
from assay.errors import InputError

_WITH_KEY: Final = (
    *("/v1/", "/server_info", "/reset_prefix_cache"),
    *("/tokenize", "/detokenize", "/tokenizer_info", "/rerank", "/v2/rerank", "/score"),
)
"""Paths that need the key, where the server has one."""


class Guards:
    """Middleware that refuses requests without the API key or with too large a body."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        api_key: str | None,
        body_limit: int,
        larger_bodies: Mapping[str, int],
    ) -> None:
        self._app = app
        self._api_key = None if api_key is None else api_key.encode()
        self._body_limit = body_limit
        self._larger_bodies = larger_bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its full body, or respond with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_key(scope)
            first = await self._full_body(scope, receive)
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        unread = [first]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(_typed(scope), replay, send)

    def _check_key(self, scope: Scope) -> None:
        if self._api_key is None or not scope["path"].startswith(_WITH_KEY):
            return
        scheme, _, given = _header(scope, b"authorization").partition(b" ")
        # A constant-time comparison leaks nothing about a partly correct key.
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._api_key):
            raise ApiError("the API key is missing or wrong", status=401, code="invalid_api_key")

    async def _full_body(self, scope: Scope, receive: Receive) -> Message:
        limit = max(self._body_limit, self._larger_bodies.get(scope["path"], 0))
        declared = _header(scope, b"content-length")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise _too_large(limit)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > limit:
                raise _too_large(limit)
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(body), "more_body": False}


def _typed(scope: Scope) -> Scope:
    """The request with the type that its body has where nobody stated one: `curl -d` says that it is a form.

    Pages of other sites can send forms without being asked first, and browsers then name the page's origin:
    such a request keeps its type, and is refused.
    """
    kind = _header(scope, b"content-type")
    if kind != b"application/x-www-form-urlencoded" or _header(scope, b"origin"):
        return scope
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}


def _too_large(limit: int) -> ApiError:
    return ApiError(
        f"the request's body is larger than {limit:,} bytes", status=413, code="request_too_large"
    )


def check_key(key: str) -> None:
    """Refuse a key that no client can send; an empty one would open the server to everybody."""
    if not key:
        raise InputError(
            "the API key is empty",
            "set a key of at least one character, or none at all to serve without one",
        )
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise InputError(
            "the API key holds characters that an HTTP header cannot carry",
            "use printable ASCII without spaces at the ends",
        )


def _header(scope: Scope, name: bytes) -> bytes:
    header: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return header


class TimeoutProtocol(H11Protocol):
    """HTTP with timeouts for receiving a request and for a client that stops reading.

    uvicorn has neither: a thousand silent clients would hold a thousand connections, and one that
    stops reading would keep a drain from ending.
    """

    request_timeout_seconds: Final = 30.0
    """Time to receive a full request, from its first byte or the start of the connection."""
    read_timeout_seconds: Final = 60.0
    """Time for a client to resume reading once the send buffer is full."""

    _request_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._request_timer = self.loop.call_later(self.request_timeout_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Stop the timer once the request is complete; restart it with the next one."""
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is not None:
            # The task of the request starts in the next round of the loop.
            direct_writer.offer(cycle)
        if cycle is None or cycle.response_complete or cycle.more_body:
            if self._request_timer is None:
                self._request_timer = self.loop.call_later(
                    self.request_timeout_seconds, self.transport.abort
                )
        else:
            _cancel(self._request_timer)
            self._request_timer = None

    def pause_writing(self) -> None:
        """Start the timer of a client that stopped reading."""
        super().pause_writing()
        self._read_timer = self._read_timer or self.loop.call_later(
            self.read_timeout_seconds, self.transport.abort
        )

    def resume_writing(self) -> None:
        """The client reads again: stop the timer."""
        super().resume_writing()
        _cancel(self._read_timer)
        self._read_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers."""
        _cancel(self._request_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
