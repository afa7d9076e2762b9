"""Listening, serving and graceful shutdown: one process, one address."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

import uvicorn
from fastapi import FastAPI

from assay.engine.core.device_sharing import SWITCH_SECONDS
from assay.engine.server.errors import LOGGER
from assay.engine.server.guards import TimeoutProtocol
from assay.engine.server.services import Services
from assay.errors import InputError

_GRACE_SECONDS: Final = 5
"""Time after the drain for clients to read their responses."""
KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection stays open: longer than clients keep one, 5 s in httpx and so in OpenAI's
client. With as short a time on both sides a request may meet a connection that is being closed."""
EXIT_AT_ONCE: Final = 128 + signal.SIGINT
"""Exit status after a second SIGINT, as shells report a process that it ended."""


class DrainingServer(uvicorn.Server):
    """A server that drains its requests on shutdown and then exits with success.

    After SIGTERM or SIGINT new requests and `/health` get status 503. Requests that are unfinished
    after `drain_seconds` end with an error. A second SIGINT ends the process at once.
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the drain; on a second SIGINT end the process."""
        if self.should_exit and sig == signal.SIGINT:
            end_at_once()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain running requests, abort those that take too long, then stop listening."""
        services: Services = self._app.state.services
        count = services.under_way()
        LOGGER.info(
            "draining, requests under way: %d; they have %g s; a second ctrl-c ends at once",
            count,
            self._drain_seconds,
        )
        # Clients can connect meanwhile: a load balancer reads from /health that it should not.
        unfinished = await services.finish(self._drain_seconds)
        LOGGER.info("drained, requests finished: %d, aborted: %d", count - unfinished, unfinished)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one. It fails before a model is loaded."""
    if not host.strip():
        # The empty address would be every interface.
        raise InputError(
            "--host: expected an address of this machine, got an empty one",
            "127.0.0.1 is the loopback, 0.0.0.0 every interface",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # `create_server` loses the type of this error.
        socket.getaddrinfo(host, port, family)
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise _refused(host, port, error) from None


def _refused(host: str, port: int, error: OSError) -> InputError:
    """Why a socket does not listen, in terms of the options."""
    if error.errno == errno.EADDRINUSE:
        return InputError(
            f"--port: expected a free port of {host}, got {port}, which is in use",
            "--port 0 picks a free one",
        )
    if error.errno == errno.EACCES:
        return InputError(
            f"--port: expected a port that this user may listen on, got {port}",
            "ports below 1024 need privileges",
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return InputError(
            f'--host: expected an address of this machine, got "{host}"',
            "127.0.0.1 is the loopback, 0.0.0.0 every interface",
        )
    return InputError(f"--host {host} --port {port}: {error.strerror or error}")


def end_at_once() -> NoReturn:
    """End this process: the engine's thread may be deep inside a step, and nothing is waited for."""
    os.write(2, b"ended at once: requests under way are lost\n")
    os._exit(EXIT_AT_ONCE)


def settle_garbage() -> None:
    """Take what has been loaded out of garbage collection for good.

    A full collection over it stops every thread for tens of milliseconds: several steps of an engine.
    """
    gc.collect()
    gc.freeze()


def serve(
    app: FastAPI,
    listener: socket.socket,
    *,
    drain_seconds: float = 30.0,
    begin: Callable[[DrainingServer], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; `begin` gets the server before it starts."""
    _raise_file_limit()
    # The thread that steps the engine must not wait for the event loop longer than this.
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        http=TimeoutProtocol,
        ws="none",
        lifespan="on",
        # Malformed HTTP is refused and not logged: its senders could fill a disk.
        log_level="error",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
        date_header=False,
    )
    settle_garbage()
    server = DrainingServer(app, config, drain_seconds)
    if begin is not None:
        begin(server)
    server.run([listener])


def _raise_file_limit() -> None:
    """Raise the limit of open files: each connection is one, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
