"""The process of the engines, where HTTP has one of its own: it starts that one and steps for it.

A step must not wait for Python's interpreter while clients are served. Here nothing but steps runs, besides
reading what the process of HTTP sends: requests, and not tokens.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, Final

from assay.engine.core.device_sharing import SWITCH_SECONDS, DeviceSharing
from assay.engine.core.worker import EngineWorker, Failure
from assay.engine.requests.outputs import StepOutput
from assay.engine.server.app import Profiler
from assay.engine.server.http_server import end_at_once, settle_garbage
from assay.engine.server.http_settings import HttpSettings
from assay.engine.server.messages import (
    Call,
    Cancellation,
    Drain,
    Outputs,
    Reply,
    Submission,
    Unpacking,
    outputs_of,
    pack,
)
from assay.engine.server.model_host import LoadedEngine
from assay.engine.server.remote_engine import ALL_MODELS
from assay.errors import AssayError
from assay.second_process import SIGNALS, SecondProcess

_READ_BYTES: Final = 1 << 20


class HttpProcessError(AssayError):
    """The process of HTTP has ended on its own."""

    exit_code = 1


def _ended(status: int) -> HttpProcessError:
    return HttpProcessError(
        "the process of HTTP: expected it to serve until SIGTERM or ctrl-c, got its end with "
        f"{status}",
        "what it said last stands above",
    )


class HttpProcess:
    """The process of HTTP, of which the engines' process is in charge."""

    def __init__(
        self, process: SecondProcess, listener: socket.socket, settings: HttpSettings
    ) -> None:
        """Tell a process that has started what to serve, and where it listens."""
        self._process = process
        try:
            socket.send_fds(process.link, [b"\0"], [listener.fileno()])
            process.link.sendall(pack(settings))
        except OSError:
            raise _ended(process.wait()) from None

    def serve(
        self,
        engines: Sequence[LoadedEngine],
        *,
        profiler: Profiler | None = None,
        sharing: DeviceSharing | None = None,
    ) -> None:
        """Step the engines until SIGTERM or SIGINT, and close them."""
        sys.setswitchinterval(SWITCH_SECONDS)
        settle_garbage()
        workers = Workers(self._process.link, engines, profiler, sharing)
        is_draining = False

        def end(number: int, frame: FrameType | None) -> None:
            nonlocal is_draining
            if is_draining and number == signal.SIGINT:
                self._process.kill()
                end_at_once()
            if not is_draining:
                is_draining = True
                # This thread may be in the middle of sending.
                threading.Thread(target=workers.send, args=(Drain(),), daemon=True).start()

        before = {number: signal.signal(number, end) for number in SIGNALS}
        try:
            workers.send([loaded.facts for loaded in engines])
            workers.run()
            status = self._process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            workers.close()
        if status or not is_draining:
            raise _ended(status)


class Workers:
    """The workers of the engines, as messages of the process of HTTP ask for them."""

    def __init__(
        self,
        link: socket.socket,
        engines: Sequence[LoadedEngine],
        profiler: Profiler | None,
        sharing: DeviceSharing | None,
    ) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._waiting = ThreadPoolExecutor(32, "assay-call")
        self._others: dict[str, Callable[[], Any]] = {}
        if profiler is not None:
            self._others |= {"start_profile": profiler.start, "stop_profile": profiler.stop}
        if sharing is not None:
            self._others["shares"] = sharing.statistics
        self._workers: list[EngineWorker] = []
        for model, loaded in enumerate(engines):
            sink = partial(self._sink, model)
            self._workers.append(EngineWorker(loaded.engine, sink, place=loaded.place))

    def run(self) -> None:
        """Do what messages ask for, until the process of HTTP ends."""
        unpacking = Unpacking()
        while data := self._read():
            for message in unpacking.push(data):
                self._take(message)

    def send(self, message: object) -> None:
        """Send a message; from any thread."""
        data = pack(message)
        try:
            with self._sending:
                self._link.sendall(data)
        except OSError:
            # The process has ended, which `run` notices.
            return

    def close(self) -> None:
        """Close the engines, and the calls that wait for them."""
        for worker in self._workers:
            worker.close()
        self._waiting.shutdown(wait=False, cancel_futures=True)

    def _read(self) -> bytes:
        try:
            return self._link.recv(_READ_BYTES)
        except ConnectionError:
            return b""

    def _sink(self, model: int, events: Sequence[StepOutput | Failure]) -> None:
        """One message for each step; in the thread of the engine."""
        self.send(outputs_of(model, events, self._workers[model].state))

    def _take(self, message: Any) -> None:
        if isinstance(message, Submission):
            self._submit(message)
        elif isinstance(message, Cancellation):
            self._workers[message.model].cancel(message.names)
        elif isinstance(message, Call):
            self._call(message)

    def _submit(self, given: Submission) -> None:
        worker = self._workers[given.model]
        try:
            worker.submit(given.prompts, given.params, given.adapter, given.names, given.priority)
        except AssayError as error:
            failures = [Failure(name, error) for name in given.names]
            self.send(Outputs(given.model, (), (), failures, worker.state))

    def _call(self, call: Call) -> None:
        try:
            if call.waits:
                future = self._waiting.submit(self._waited(call), *call.arguments)
            else:
                future = self._workers[call.model].ask(call.method, *call.arguments)
        except Exception as error:
            self._reply(call.number, None, error)
        else:
            future.add_done_callback(partial(self._finish, call.number))

    def _waited(self, call: Call) -> Callable[..., Any]:
        if call.model == ALL_MODELS:
            return self._others[call.method]
        method: Callable[..., Any] = getattr(self._workers[call.model], call.method)
        return method

    def _finish(self, number: int, future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        self._reply(number, None if error else future.result(), error)

    def _reply(self, number: int, value: Any, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, AssayError):
            # Its class may not be known to the other process, nor how to build it.
            error = RuntimeError(f"{type(error).__name__}: {error}")
        states = [worker.state for worker in self._workers]
        self.send(Reply(number, _plain(value), error, states))


def _plain(value: Any) -> Any:
    """A result that needs no library to be read: arrays as lists."""
    return value.tolist() if hasattr(value, "tolist") else value
