"""Serving the pages until ctrl-c."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from assay.ui.children import end_children

_GRACE_SECONDS: Final = 1
"""Time for answers under way; streams of events do not end by themselves."""


_WORKERS: Final = "AnyIO worker thread"
"""The name of the threads that compute answers."""


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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop serving; the server waits for answers that children compute, so those end first."""
        end_children()
        super().handle_exit(sig, frame)


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
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    try:
        QuietServer(config).run([listener])
    finally:
        end_children()


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record says more than that an answer was cut off by ctrl-c."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    return "timeout graceful shutdown exceeded" not in record.msg


def leave_busy_threads() -> None:
    """End the process where a thread still computes an answer that nobody waits for any more.

    Python would join the thread, so that ctrl-c took as long as the slowest answer.
    """
    workers = [thread for thread in threading.enumerate() if thread.name == _WORKERS]
    for worker in workers:
        worker.join(_GRACE_SECONDS / max(1, len(workers)))
    if any(worker.is_alive() for worker in workers):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
