"""Engines of another process: what the process of HTTP knows of them, and how it talks to them."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self, cast

from assay.engine.core.admission import Admission, QueueLimits
from assay.engine.core.device_sharing import ShareStatistics
from assay.engine.core.worker import Failure, StoppedError, WorkerState
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.server.messages import (
    Call,
    Cancellation,
    Drain,
    Outputs,
    Reply,
    Submission,
    Unpacking,
    pack,
)
from assay.engine.server.model_host import Receiver, Worker
from assay.engine.server.served_model import ServedModel

ALL_MODELS = -1
"""The model of calls that are no model's: traces, shares of a device."""


class EngineLink(asyncio.Protocol):
    """The socket to the process of the engines; everything but `call` belongs to the event loop."""

    def __init__(self, link: socket.socket, unpacking: Unpacking) -> None:
        """Talk over this socket, from which something may have been read already."""
        self._socket = link
        self._unpacking = unpacking
        self._numbers = itertools.count(1)
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._workers: dict[int, RemoteWorker] = {}
        self._is_closing = False
        self._lost = asyncio.Event()
        self.on_drain: Callable[[], None] = lambda: None
        """Called when the process of the engines asks for the end."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when that process has ended."""

    async def __aenter__(self) -> Self:
        """Begin to talk, in the running loop."""
        self._loop = asyncio.get_running_loop()
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)
        self.data_received(b"")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, and with it the engines."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()
            await self._lost.wait()

    def add(self, worker: RemoteWorker, model: int) -> None:
        """Route the outputs of a model to its worker."""
        self._workers[model] = worker

    def send(self, message: object) -> None:
        """Send a message; in the event loop."""
        if self._transport is not None:
            self._transport.write(pack(message))

    def call(self, model: int, method: str, arguments: tuple[Any, ...], *, waits: bool) -> Any:
        """Call a method of an engine or of its worker; from any thread."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self._loop is None:
                raise StoppedError("the engine's process has ended")
            self._calls[number] = future
        message = Call(number, model, method, arguments, waits)
        self._loop.call_soon_threadsafe(self.send, message)
        return future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop is ready to write."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take all messages that have come: outputs of several steps are passed on together."""
        batches: dict[int, list[Outputs]] = {}
        for message in self._unpacking.push(data):
            if isinstance(message, Outputs):
                batches.setdefault(message.model, []).append(message)
            elif isinstance(message, Reply):
                for model, state in enumerate(message.states):
                    if model in self._workers:
                        self._workers[model].state = state
                self._answer(message)
            elif isinstance(message, Drain):
                self.on_drain()
        for model, batch in batches.items():
            self._workers[model].receive(batch)

    def connection_lost(self, exc: Exception | None) -> None:
        """End all that waits for the other process."""
        error = StoppedError("the engine's process has ended")
        with self._lock:
            self._loop, self._transport = None, None
            calls, self._calls = self._calls, {}
        for future in calls.values():
            future.set_exception(error)
        for worker in self._workers.values():
            worker.lose(error)
        self._lost.set()
        if not self._is_closing:
            self.on_lost()

    def _answer(self, reply: Reply) -> None:
        with self._lock:
            future = self._calls.pop(reply.number, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if reply.error is None:
            future.set_result(reply.value)
        else:
            future.set_exception(reply.error)


class RemoteWorker:
    """The worker of an engine in another process."""

    def __init__(
        self, link: EngineLink, model: int, receive: Receiver, limits: QueueLimits
    ) -> None:
        self._link = link
        self._model = model
        self._receive = receive
        self.limits = limits
        self._admission = Admission(limits)
        self.state = WorkerState()
        link.add(self, model)

    @property
    def under_way(self) -> int:
        """The number of unfinished requests."""
        return len(self._admission.unfinished)

    def submit(
        self,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        adapter: str | None = None,
        *,
        priority: int = 0,
    ) -> Sequence[str]:
        """Accept all of these requests or none, and return their IDs."""
        if (refusal := self.state.refusal or self.state.rest) is not None:
            raise StoppedError(refusal)
        names = self._admission.admit([len(prompt) for prompt in prompts])
        self._link.send(Submission(self._model, names, prompts, params, adapter, priority))
        return names

    def cancel(self, names: Sequence[str]) -> None:
        """Abort requests; finished ones are skipped."""
        if names:
            self._admission.forget(names)
            self._link.send(Cancellation(self._model, names))

    def receive(self, batch: Sequence[Outputs]) -> None:
        """Outputs of steps have come."""
        self.state = batch[-1].state
        for outputs in batch:
            ended = [
                event.request_id
                for event in outputs.others
                if isinstance(event, Failure) or event.finished
            ]
            self._admission.forget(ended)
        self._receive(batch)

    def lose(self, error: StoppedError) -> None:
        """The process has ended: so have all requests."""
        names = list(self._admission.unfinished)
        state = WorkerState(refusal=error.message)
        self.receive(
            [Outputs(self._model, (), (), [Failure(name, error) for name in names], state)]
        )

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the engine by its name, between steps."""
        future: Future[Any] = self._link.call(self._model, method, arguments, waits=False)
        return future

    def prepare(self, method: str, *arguments: Any) -> None:
        """Call a method of the engine that does not wait for its steps."""
        self._wait("prepare", method, *arguments)

    def sleep(self, seconds: float) -> None:
        """Let the engine sleep when its requests have ended; raises if that takes longer."""
        self._wait("sleep", seconds)

    def wake_up(self) -> None:
        """Wake the engine up."""
        self._wait("wake_up")

    def finish(self, seconds: float) -> int:
        """Accept no more requests, wait for the unfinished ones, close; returns how many were aborted."""
        self.state = self.state._replace(refusal="the server is shutting down")
        aborted: int = self._wait("finish", seconds)
        return aborted

    def close(self) -> None:
        """Nothing is held here: the other process closes its engines when this one ends."""

    def _wait(self, method: str, *arguments: Any) -> Any:
        return self._link.call(self._model, method, arguments, waits=True).result()


@dataclass(frozen=True)
class RemoteModel:
    """A model whose engine steps in another process."""

    link: EngineLink
    number: int
    model: ServedModel
    adapters: Sequence[str] = ()

    def start(
        self, loop: asyncio.AbstractEventLoop, receive: Receiver, limits: QueueLimits
    ) -> Worker:
        """The worker that talks to that process."""
        return RemoteWorker(self.link, self.number, receive, limits)


@dataclass(frozen=True)
class RemoteProfiler:
    """Captures traces where the engines are."""

    link: EngineLink

    def start(self) -> str:
        """Begin a trace; returns where it will be stored."""
        return self._call("start_profile")

    def stop(self) -> str:
        """End the trace and store it; returns where."""
        return self._call("stop_profile")

    def _call(self, method: str) -> str:
        path: str = self.link.call(ALL_MODELS, method, (), waits=True).result()
        return path


def read_shares(link: EngineLink) -> Sequence[ShareStatistics]:
    """What models that share a device got."""
    shares: Sequence[ShareStatistics] = link.call(ALL_MODELS, "shares", (), waits=True).result()
    return shares
