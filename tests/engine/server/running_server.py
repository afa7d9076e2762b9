"""A real server on a free port, in a thread of the test process."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from fake_engine import FakeEngine, fake_model
from fastapi import FastAPI

from assay.engine import Engine
from assay.engine.server import (
    HostedModel,
    Limits,
    LoadedEngine,
    ModelFacts,
    ServedModel,
    application,
    create_app,
    listen,
    served_model,
)
from assay.engine.server.engine_process import Workers
from assay.engine.server.guards import TimeoutProtocol
from assay.engine.server.messages import Unpacking
from assay.engine.server.remote_engine import EngineLink, RemoteModel, RemoteProfiler, read_shares

APART = bool(os.environ.get("ASSAY_TEST_HTTP_APART"))
"""Whether servers talk to their engines as the process of HTTP does, over a socket."""


def app_apart(
    engine: Any,
    model: ServedModel,
    *,
    adapters: Sequence[str] = (),
    others: Sequence[HostedModel] = (),
    place: Any = None,
    sharing: Any = None,
    profiler: Any = None,
    **options: Any,
) -> FastAPI:
    """An application whose engines are at the other end of a socket, in threads of this process."""
    hosted = (HostedModel(engine, model, place, adapters), *others)
    ours, theirs = socket.socketpair()
    loaded = [
        LoadedEngine(host.model.name, host.engine, ModelFacts(0, 0), host.place) for host in hosted
    ]
    workers = Workers(ours, loaded, profiler, sharing)

    def run() -> None:
        with ours:
            workers.run()
            workers.close()

    link = EngineLink(theirs, Unpacking())
    threading.Thread(target=run, daemon=True).start()
    return application(
        [
            RemoteModel(link, number, host.model, host.adapters)
            for number, host in enumerate(hosted)
        ],
        link=link,
        shares=None if sharing is None else partial(read_shares, link),
        profiler=None if profiler is None else RemoteProfiler(link),
        **options,
    )


@dataclass
class Running:
    """A running server and its engine."""

    url: str
    port: int
    engine: Any

    def wait_idle(self, seconds: float = 5.0) -> bool:
        """Wait until no request is left; whether that happened in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.engine.has_work and self.engine.free == self.engine.blocks:
                return True
            time.sleep(0.01)
        return False


Serving = Callable[..., Running]


@contextmanager
def running(
    engine: Any,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
    with_template: bool = True,
    protocol: type[TimeoutProtocol] = TimeoutProtocol,
    model: ServedModel | None = None,
    make_app: Callable[..., FastAPI] | None = None,
    **options: Any,
) -> Iterator[Running]:
    model = model or fake_model(with_template=with_template)
    make_app = make_app or (app_apart if APART else create_app)
    app = make_app(engine, model, api_key=api_key, limits=limits, **options)
    listener = listen("127.0.0.1", 0)
    # A client that does not read is noticed when the send buffer is full: a small one fills sooner.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    port = listener.getsockname()[1]
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="on", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 10
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.005)
    try:
        yield Running(url, port, engine)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive(), "the server did not end"
        assert not isinstance(engine, FakeEngine) or _is_closed(engine)


def _is_closed(engine: FakeEngine) -> bool:
    """Whether the engine closes; at the other end of a socket it does so a little later."""
    deadline = time.monotonic() + 5
    while not engine.closed and time.monotonic() < deadline:
        time.sleep(0.005)
    return engine.closed


@contextmanager
def running_engine(engine: Engine, **options: Any) -> Iterator[Running]:
    """A server over a real engine, under the name "model"."""
    with running(engine, model=served_model(engine, "model"), **options) as served:
        yield served
