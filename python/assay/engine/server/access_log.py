"""One line of log for each response: when, who, what, status and time. Never the text."""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS: Final = logging.getLogger("assay.access")

CLIENT_CLOSED_REQUEST: Final = 499
"""The status that web servers log for a client that disconnected; it is never sent."""


class AccessLog:
    """Middleware that logs every request to the logger `assay.access`.

    The query string and the headers, which may hold secrets, are not logged. The path is, as it
    was sent: percent-encoded, so that it cannot forge a line.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; log its status and duration when its response has ended."""
        if scope["type"] != "http" or not ACCESS.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        status, complete = CLIENT_CLOSED_REQUEST, False

        async def watching(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
            elif not message.get("more_body", False):
                complete = True
            await send(message)

        started = time.perf_counter()
        try:
            await self._app(scope, receive, watching)
        finally:
            path = scope.get("raw_path") or scope["path"].encode("ascii", "backslashreplace")
            ACCESS.info(
                '%s "%s %s" %d %.1f ms',
                (scope.get("client") or ("-",))[0],
                scope["method"],
                path.decode("ascii", "backslashreplace"),
                status if complete else CLIENT_CLOSED_REQUEST,
                1000 * (time.perf_counter() - started),
            )
