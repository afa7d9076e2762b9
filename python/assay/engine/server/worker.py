"""The one thread that owns an engine: it takes requests in, steps, and hands what came out on.

An engine is not safe to share between threads. Everything that wants something from it from
outside (the HTTP server, a shell) goes through here: `submit`, `cancel`, and `call` for the rest.
What an engine gives out goes to one `sink`, once per step, so that a step that moves eight
requests on wakes the reader once.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.engine.core.outputs import StepOutput
    from assay.engine.core.sampling_params import SamplingParams

_LOGGER: Final = logging.getLogger("assay.engine")

T = TypeVar("T")


class SteppedEngine(Protocol):
    """What the worker needs of an engine."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""

    def add_request(
        self, prompt: Sequence[int], params: SamplingParams, request_id: str | None = None
    ) -> str:
        """Queue a prompt; refusing it raises and leaves nothing behind."""

    def step(self) -> Sequence[StepOutput]:
        """Compute once for everything that is running."""

    def abort(self, request_id: str) -> object:
        """Forget a request and free what it holds."""

    def statistics(self) -> Mapping[str, Any]:
        """How busy it is."""

    def close(self) -> None:
        """Give everything back."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that ends without an answer, and why."""

    request_id: str
    error: BaseException


def _event(output: StepOutput) -> StepOutput | Failure:
    """What a step gave a request, or the end of one that cannot go on."""
    return output if output.error is None else Failure(output.request_id, output.error)


Sink = Callable[[Sequence["StepOutput | Failure"]], None]


class OverloadedError(AssayError):
    """As many requests are under way as are let in; later there may be room."""


class StoppedError(AssayError):
    """The worker takes no more requests: it is draining, closed, or its engine failed."""


class EngineWorker:
    """Runs an engine in a thread of its own.

    `sink` is called from that thread with the outputs and failures of each step; it must hand
    them on and return. At most `limit` requests are under way, waiting ones included.
    """

    def __init__(self, engine: SteppedEngine, sink: Sink, *, limit: int = 1024) -> None:
        self._engine = engine
        self._sink = sink
        self.limit = limit
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._live: set[str] = set()
        """Requests let in that have not ended; the thread removes, everyone counts."""
        self._names = itertools.count(1)
        self._refusing: AssayError | None = None
        self._closing = False
        self._ended = False
        self._idle = threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="assay-engine", daemon=True)
        self._thread.start()

    @property
    def under_way(self) -> int:
        """Requests that were let in and have not ended."""
        return len(self._live)

    @property
    def refusing(self) -> AssayError | None:
        """Why no request is let in, if none is."""
        return self._refusing

    def submit(
        self, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams]
    ) -> list[str]:
        """Let requests in together, or none of them, and return their names."""
        with self._lock:
            if self._refusing is not None:
                raise StoppedError(self._refusing.message)
            if len(self._live) + len(prompts) > self.limit:
                raise OverloadedError(
                    f"{len(self._live)} requests are under way and {len(prompts)} more were asked "
                    f"for: at most {self.limit} are let in",
                    "try again later, or raise the limit",
                )
            names = [f"request-{next(self._names)}" for _ in prompts]
            self._live.update(names)
            self._idle.clear()
            for request in zip(names, prompts, params, strict=True):
                self._commands.put(partial(self._add, *request))
        return names

    def cancel(self, names: Sequence[str]) -> None:
        """End requests early; those that ended by themselves are passed over."""
        if names:
            self._commands.put(partial(self._abort, names))

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function in the engine's thread, between steps."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)

        with self._lock:
            if self._ended:
                raise StoppedError("the engine's thread has ended")
            self._commands.put(run)
        return future

    def finish(self, seconds: float) -> None:
        """Let nothing more in, wait this long for what is under way, and close."""
        with self._lock:
            self._refusing = self._refusing or StoppedError("the server is shutting down")
        self._idle.wait(seconds)
        self.close()

    def close(self) -> None:
        """End what is under way, stop the thread and close the engine."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._refusing = self._refusing or StoppedError("the engine is closed")
        self._commands.put(lambda: None)
        self._thread.join()
        self._engine.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                if not self._engine.has_work:
                    self._commands.get()()
                self._run_commands()
                if self._engine.has_work:
                    self._hand_on(self._engine.step())
            self._run_commands()
            for name in self._live:
                self._engine.abort(name)
            self._end_all(self._refusing or StoppedError("the engine is closed"))
        except Exception as error:
            # What a failure leaves behind cannot be trusted: nothing is let in again.
            _LOGGER.error("the engine failed", exc_info=error)
            self._end_all(StoppedError(f"the engine failed: {type(error).__name__}: {error}"))
        with self._lock:
            self._ended = True
        self._run_commands()

    def _run_commands(self) -> None:
        """Do what was asked since the last step, and not what is asked meanwhile."""
        for _ in range(self._commands.qsize()):
            self._commands.get()()

    def _add(self, name: str, prompt: Sequence[int], params: SamplingParams) -> None:
        if name not in self._live:
            return
        try:
            self._engine.add_request(prompt, params, request_id=name)
        except Exception as error:
            self._forget([name])
            self._sink([Failure(name, error)])

    def _abort(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._live:
                self._engine.abort(name)
                self._forget([name])

    def _hand_on(self, outputs: Sequence[StepOutput]) -> None:
        known = [output for output in outputs if output.request_id in self._live]
        self._forget([output.request_id for output in known if output.finished])
        if known:
            self._sink([_event(output) for output in known])

    def _forget(self, names: Sequence[str]) -> None:
        with self._lock:
            self._live.difference_update(names)
            if not self._live:
                self._idle.set()

    def _end_all(self, error: AssayError) -> None:
        with self._lock:
            self._refusing = error
            names = sorted(self._live)
        self._forget(names)
        if names:
            self._sink([Failure(name, error) for name in names])
