"""Serving the pages until ctrl-c."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from fastapi import FastAPI

_GRACE_SECONDS: Final = 1
"""Time for answers under way; streams of events do not end by themselves."""


class QuietServer(uvicorn.Server):
    """A server that ends with success on ctrl-c, instead of raising the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
        date_header=False,
    )
    QuietServer(config).run([listener])
