"""The process of HTTP: it parses, tokenizes, formats and streams, while another one steps the engines.

`python -m assay.engine.server.http_process FD` is started by the process of the engines, whose socket FD is.
It ends when that process does.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from assay.engine.server.app import application
from assay.engine.server.errors import LOGGER
from assay.engine.server.http_server import DrainingServer, serve
from assay.engine.server.http_settings import Described, HttpSettings
from assay.engine.server.messages import Unpacking
from assay.engine.server.remote_engine import EngineLink, RemoteModel, RemoteProfiler, read_shares
from assay.engine.server.served_model import ModelFacts
from assay.errors import AssayError

LOST_SECONDS: Final = 0.2
"""Time for the clients of a lost engine to get their errors."""


def main(arguments: Sequence[str]) -> int:
    """Serve HTTP for the engines behind a socket, whose first message has the one that listens."""
    link = socket.socket(fileno=int(arguments[0]))
    unpacking = Unpacking()
    _, files, _, _ = socket.recv_fds(link, 1, 1)
    settings: HttpSettings | None = _receive(link, unpacking)
    if settings is None or not files:
        return 0
    listener = socket.socket(fileno=files[0])
    if settings.logs is not None:
        settings.logs.apply()
    error: AssayError | None = None
    described: list[Described] = []
    try:
        described = [source.open() for source in settings.sources]
    except AssayError as raised:
        # The other process has opened the same files, and says so if they are at fault.
        error = raised
    facts: Sequence[ModelFacts] | None = _receive(link, unpacking)
    if facts is None:
        return 0
    if error is not None:
        LOGGER.error("%s", error.message)
        return error.exit_code
    engines = EngineLink(link, unpacking)
    app = application(
        [
            RemoteModel(engines, number, describe(known), known.adapters)
            for number, (describe, known) in enumerate(zip(described, facts, strict=True))
        ],
        link=engines,
        shares=partial(read_shares, engines) if settings.shares_device else None,
        api_key=settings.api_key,
        limits=settings.limits,
        profiler=RemoteProfiler(engines) if settings.can_profile else None,
        allowed_origins=settings.allowed_origins,
        adapter_folder=settings.adapter_folder,
        sleep_mode=settings.sleep_mode,
        transcription_model=settings.transcription_model,
    )

    def begin(server: DrainingServer) -> None:
        def drain() -> None:
            server.should_exit = True

        def end() -> None:
            LOGGER.error("the engine's process has ended: so does HTTP")
            asyncio.get_running_loop().call_later(LOST_SECONDS, os._exit, 1)

        engines.on_drain, engines.on_lost = drain, end

    serve(app, listener, drain_seconds=settings.drain_seconds, begin=begin)
    return 0


def _receive(link: socket.socket, unpacking: Unpacking) -> Any:
    """The next message, or None if the other process has ended."""
    for message in unpacking.push(b""):
        return message
    while data := link.recv(1 << 20):
        for message in unpacking.push(data):
            return message
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
