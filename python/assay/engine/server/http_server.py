"""Listening: one process, one address, and an orderly end."""

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

from assay.engine.server.guards import PatientProtocol

_GRACE_SECONDS: Final = 5
"""Time after the drain for clients to read what was sent to them."""


class DrainingServer(uvicorn.Server):
    """A server that answers what it has let in before it ends, and then ends with success.

    On SIGTERM or SIGINT it stops listening and lets nothing more in. What is still under way
    after `drain_seconds` is ended with an error that says so. A second SIGINT ends at once.
    """

    def __init__(self, app: FastAPI, config: uvicorn.Config, drain_seconds: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_seconds = drain_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; uvicorn's own would die of them once it has drained."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what is under way, and end what takes too long."""
        worker = self._app.state.service.frontend.worker
        finishing = asyncio.create_task(asyncio.to_thread(worker.finish, self._drain_seconds))
        await super().shutdown(sockets)
        await finishing


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Fails before the model is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def serve(app: FastAPI, listener: socket.socket, *, drain_seconds: float = 30.0) -> None:
    """Serve until a signal ends it."""
    _raise_file_limit()
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        # What is no HTTP is answered, not logged: who sends it could fill a disk.
        log_level="error",
        timeout_graceful_shutdown=int(drain_seconds) + _GRACE_SECONDS,
        server_header=False,
        date_header=False,
    )
    DrainingServer(app, config, drain_seconds).run([listener])


def _raise_file_limit() -> None:
    """Every connection is an open file, and the usual limit of 1,024 is soon reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
