"""Listening, serving and graceful shutdown: one process, one address."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from fastapi import FastAPI

from assay.engine.server.guards import TimeoutProtocol

_GRACE_SECONDS: Final = 5
"""Time after the drain for clients to read their responses."""


class DrainingServer(uvicorn.Server):
    """A server that drains its requests on shutdown and then exits with success.

    On SIGTERM or SIGINT it stops listening and accepts no more requests. Requests that are
    unfinished after `drain_seconds` end with an error. A second SIGINT exits at once.
    """

    def __init__(self, app: FastAPI, config: uvicorn.Config, drain_seconds: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_seconds = drain_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; uvicorn would raise them again after the drain."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain running requests; abort those that take too long."""
        worker = self._app.state.service.async_engine.worker
        drain = asyncio.create_task(asyncio.to_thread(worker.finish, self._drain_seconds))
        await super().shutdown(sockets)
        await drain


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one. It fails before a model is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def serve(app: FastAPI, listener: socket.socket, *, drain_seconds: float = 30.0) -> None:
    """Serve until SIGTERM or SIGINT."""
    _raise_file_limit()
    config = uvicorn.Config(
        app,
        http=TimeoutProtocol,
        ws="none",
        lifespan="on",
        # Malformed HTTP is refused and not logged: its senders could fill a disk.
        log_level="error",
        timeout_graceful_shutdown=int(drain_seconds) + _GRACE_SECONDS,
        server_header=False,
        date_header=False,
    )
    DrainingServer(app, config, drain_seconds).run([listener])


def _raise_file_limit() -> None:
    """Raise the limit of open files: each connection is one, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
