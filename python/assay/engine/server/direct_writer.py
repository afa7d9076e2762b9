"""Writes the body of a streamed response straight to its connection.

A server with hundreds of streams writes tens of thousands of events a second. Through the layers of
ASGI each takes a wake-up of a task and a dozen calls; here it is one call, from the callback that
gets the outputs of a step. The beginning and the end of a response still go through ASGI.
"""

from __future__ import annotations

from typing import Any, Final, Self

from starlette.types import Scope

_EXTENSION: Final = "assay.connection"


def offer(cycle: Any) -> None:
    """Let the application find the connection of a request: uvicorn's cycle of request and response."""
    cycle.scope.setdefault("extensions", {})[_EXTENSION] = cycle


class DirectWriter:
    """The body of one response in chunked encoding, whose head has been sent."""

    __slots__ = ("_cycle", "_flow", "_transport")

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._flow, self._transport = cycle.flow, cycle.transport

    @classmethod
    def of(cls, scope: Scope) -> Self | None:
        """The writer of a request's response; None where the connection is not offered or has no chunks."""
        cycle = scope.get("extensions", {}).get(_EXTENSION)
        if cycle is None or scope["http_version"] != "1.1" or scope["method"] == "HEAD":
            return None
        return cls(cycle)

    @property
    def is_ready(self) -> bool:
        """Whether the client reads fast enough; what comes meanwhile is for ASGI, which waits."""
        # A transport knows that its client has gone before its protocol is told.
        gone = self._cycle.disconnected or self._transport.is_closing()
        return not (self._flow.write_paused or gone)

    def write(self, data: bytes) -> None:
        """Send a part of the body as one chunk (RFC 9112, section 7.1)."""
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
