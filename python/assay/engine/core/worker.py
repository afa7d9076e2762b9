"""The worker thread that owns an engine: it accepts requests, runs steps and delivers outputs.

Calls of an engine wait for each other. Threads that must not wait (the HTTP server, a shell) use it
through `submit`, `cancel`, and `call` for the rest. Outputs go to one `sink`, once per step, so that a step of eight
requests wakes the reader once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from assay.engine.core.admission import Admission, OverloadedError, QueueLimits
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.engine.core.probing import PromptLogprobs
    from assay.engine.requests.outputs import StepOutput
    from assay.engine.requests.sampling_params import SamplingParams

_LOGGER: Final = logging.getLogger("assay.engine")

T = TypeVar("T")


class SteppedEngine(Protocol):
    """What the worker requires of an engine."""

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute or deliver."""

    def add_request(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        request_id: str | None = None,
        priority: int = 0,
        adapter: str | None = None,
    ) -> str:
        """Queue a prompt; raises without side effects if it is refused."""

    def step(self) -> Sequence[StepOutput]:
        """Run one step over all running requests."""

    def abort(self, request_id: str) -> object:
        """Abort a request and free its blocks."""

    def score(
        self, prompt: Sequence[int], top: int = 0, adapter: str | None = None
    ) -> PromptLogprobs:
        """The log-probability of each token of a prompt."""

    def embed(self, prompt: Sequence[int], adapter: str | None = None) -> Any:
        """The embedding of a prompt."""

    def statistics(self) -> Mapping[str, Any]:
        """Counts of requests, tokens and blocks."""

    def describe(self) -> Mapping[str, Any]:
        """The model, the device and the settings."""

    def reset_prefix_cache(self) -> object:
        """Forget the cached blocks that no request uses."""

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load a LoRA adapter."""

    def unload_adapter(self, name: str) -> None:
        """Unload a LoRA adapter that no request uses."""

    def sleep(self) -> object:
        """Move the weights to host memory and free the rest."""

    def wake_up(self) -> None:
        """Move the weights back; raises and stays asleep if memory is short."""

    def close(self) -> None:
        """Free the memory."""


class WorkerState(NamedTuple):
    """What a worker accepts now."""

    refusal: str | None = None
    """Why requests are refused, if they are."""
    rest: str | None = None
    """Why they are refused until the engine wakes up, if it sleeps or is about to."""
    asleep: bool = False


class Place(AbstractContextManager[object], Protocol):
    """Where an engine runs, entered by the worker thread: a share of a device, for example."""

    def stepped(self, *, has_work: bool) -> None:
        """A step has ended; `has_work` says whether another follows at once."""

    def sleep(self) -> None:
        """The engine sleeps: what it reserves is free for others."""

    def wake_up(self) -> None:
        """Reserve it again, before the engine wakes up; raises if others have taken it."""


class WholeDevice(Place):
    """The place of an engine that shares its device with no other."""

    def stepped(self, *, has_work: bool) -> None:
        """Nothing is measured."""

    def sleep(self) -> None:
        """Nothing is reserved."""

    def wake_up(self) -> None:
        """Nothing is reserved."""

    def __exit__(self, *exception: object) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request, and why it failed."""

    request_id: str
    error: BaseException


Sink = Callable[[Sequence["StepOutput | Failure"]], None]


class StoppedError(AssayError):
    """The worker accepts no requests: it is draining, closed, or its engine failed."""


class EngineWorker:
    """Runs an engine in its own thread.

    `sink` is called from that thread with the outputs and failures of each step; it must not
    block. `limits` bound what is unfinished at once, waiting requests included.
    """

    def __init__(
        self,
        engine: SteppedEngine,
        sink: Sink,
        *,
        limits: QueueLimits | None = None,
        place: Place | None = None,
    ) -> None:
        self._engine = engine
        self._place = place or WholeDevice()
        self._sink = sink
        self.limits = limits or QueueLimits()
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._admission = Admission(self.limits)
        self._unfinished = self._admission.unfinished
        """Unfinished requests; only the worker thread removes them."""
        self._refusal: AssayError | None = None
        self._rest: AssayError | None = None
        self._asleep = False
        self._changing = threading.Lock()
        """Held while the engine falls asleep or wakes up."""
        self._closing = False
        self._ended = False
        self._idle = threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="assay-engine", daemon=True)
        self._thread.start()

    @property
    def under_way(self) -> int:
        """The number of unfinished requests."""
        return len(self._unfinished)

    @property
    def state(self) -> WorkerState:
        """What is accepted now."""
        refusal, rest = self._refusal, self._rest
        return WorkerState(
            None if refusal is None else refusal.message,
            None if rest is None else rest.message,
            self._asleep,
        )

    def sleep(self, seconds: float) -> None:
        """Accept no requests, wait this long for the unfinished ones, and let the engine sleep.

        Raises, and accepts requests again, if they take longer.
        """
        with self._changing:
            with self._lock:
                if self._refusal is not None:
                    raise StoppedError(self._refusal.message)
                if self._asleep:
                    return
                self._rest = StoppedError("the model is asleep: POST /wake_up wakes it")
            try:
                if not self._idle.wait(seconds):
                    raise OverloadedError(
                        f"sleep: expected the requests under way to end within {seconds:g} s, got "
                        f"{self.under_way} unfinished ones",
                        "try again later",
                    )
                self.call(self._fall_asleep).result()
            except BaseException:
                self._rest = None
                raise

    def wake_up(self) -> None:
        """Wake the engine up, and accept requests again; one that is awake stays so."""
        with self._changing:
            if self._asleep:
                self.call(self._rise).result()
                self._rest = None

    def submit(
        self,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        adapter: str | None = None,
        names: Sequence[str] | None = None,
        priority: int = 0,
    ) -> Sequence[str]:
        """Accept all of these requests or none, and return their IDs; a lower priority runs first.

        `names` are those of a process that has admitted them itself.
        """
        with self._lock:
            if (refusal := self._refusal or self._rest) is not None:
                raise StoppedError(refusal.message)
            names = self._admission.admit([len(prompt) for prompt in prompts], names)
            self._idle.clear()
            for request in zip(names, prompts, params, strict=True):
                self._commands.put(partial(self._add, *request, adapter, priority))
        return names

    def cancel(self, names: Sequence[str]) -> None:
        """Abort requests; finished ones are skipped."""
        if names:
            self._commands.put(partial(self._abort, names))

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function in the worker thread, between steps."""
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

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the engine by its name, between steps."""
        return self.call(partial(getattr(self._engine, method), *arguments))

    def prepare(self, method: str, *arguments: Any) -> None:
        """Call a method of the engine that does not wait for its steps, such as compiling a grammar."""
        getattr(self._engine, method)(*arguments)

    def finish(self, seconds: float) -> int:
        """Accept no more requests, wait this long for the unfinished ones, and close.

        Returns how many were aborted.
        """
        with self._lock:
            self._refusal = self._refusal or StoppedError("the server is shutting down")
        self._idle.wait(seconds)
        aborted = self.under_way
        self.close()
        return aborted

    def close(self) -> None:
        """Abort unfinished requests, stop the thread and close the engine."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._refusal = self._refusal or StoppedError("the engine is closed")
        self._commands.put(lambda: None)
        self._thread.join()
        self._engine.close()

    def _run(self) -> None:
        try:
            with self._place:
                self._serve()
        except Exception as error:
            # The engine's state is unknown after a failure: no request is accepted again.
            _LOGGER.error("the engine failed", exc_info=error)
            self._end_all(StoppedError(f"the engine failed: {type(error).__name__}: {error}"))
        with self._lock:
            self._ended = True
        self._run_commands()

    def _serve(self) -> None:
        """Step the engine until it closes, and abort what is unfinished then."""
        goes_on = False
        while not self._closing:
            if not self._engine.has_work:
                self._commands.get()()
            self._run_commands()
            if self._engine.has_work:
                self._deliver(self._engine.step())
                goes_on = self._engine.has_work
                self._place.stepped(has_work=goes_on)
            elif goes_on:
                # All requests were aborted: what was launched ahead for them still holds grants.
                goes_on = False
                self._place.stepped(has_work=False)
        self._run_commands()
        for name in self._unfinished:
            self._engine.abort(name)
        self._end_all(self._refusal or StoppedError("the engine is closed"))

    def _fall_asleep(self) -> None:
        self._engine.sleep()
        self._place.sleep()
        self._asleep = True

    def _rise(self) -> None:
        self._place.wake_up()
        try:
            self._engine.wake_up()
        except BaseException:
            self._place.sleep()
            raise
        self._asleep = False

    def _run_commands(self) -> None:
        """Run the commands queued so far, but none that are queued meanwhile."""
        for _ in range(self._commands.qsize()):
            self._commands.get()()

    def _add(
        self,
        name: str,
        prompt: Sequence[int],
        params: SamplingParams,
        adapter: str | None,
        priority: int,
    ) -> None:
        if name not in self._unfinished:
            return
        try:
            self._engine.add_request(prompt, params, name, priority, adapter)
        except Exception as error:
            self._forget([name])
            self._sink([Failure(name, error)])

    def _abort(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._unfinished:
                self._engine.abort(name)
                self._forget([name])

    def _deliver(self, outputs: Sequence[StepOutput]) -> None:
        """Pass on what a step added, in one pass: a step of hundreds of requests waits for it."""
        unfinished = self._unfinished
        events: list[StepOutput | Failure] = []
        finished = []
        for output in outputs:
            name, chunks, _, error = output
            if name in unfinished:
                if chunks and chunks[-1].finish_reason is not None:
                    finished.append(name)
                events.append(output if error is None else Failure(name, error))
        if finished:
            self._forget(finished)
        if events:
            self._sink(events)

    def _forget(self, names: Sequence[str]) -> None:
        with self._lock:
            self._admission.forget(names)
            if not self._unfinished:
                self._idle.set()

    def _end_all(self, error: AssayError) -> None:
        with self._lock:
            self._refusal = error
            names = sorted(self._unfinished)
        self._forget(names)
        if names:
            self._sink([Failure(name, error) for name in names])
