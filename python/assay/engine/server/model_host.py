"""Where the engine of a served model runs: in a thread of this process, or in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from assay.engine.core.admission import QueueLimits
from assay.engine.core.worker import EngineWorker, Failure, Place, SteppedEngine, WorkerState
from assay.engine.requests.outputs import StepOutput
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.server.messages import Outputs, outputs_of
from assay.engine.server.served_model import ModelFacts, ServedModel

Receiver = Callable[[Sequence[Outputs]], None]
"""Gets the outputs of steps, in the event loop."""


class Worker(Protocol):
    """An engine that steps elsewhere; only the last four methods wait, so that threads call them."""

    limits: QueueLimits

    @property
    def under_way(self) -> int:
        """The number of unfinished requests."""

    @property
    def state(self) -> WorkerState:
        """What is accepted now."""

    def submit(
        self,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        adapter: str | None = None,
        *,
        priority: int = 0,
    ) -> Sequence[str]:
        """Accept all of these requests or none, and return their IDs."""

    def cancel(self, names: Sequence[str]) -> None:
        """Abort requests; finished ones are skipped."""

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the engine by its name, between steps."""

    def prepare(self, method: str, *arguments: Any) -> None:
        """Call a method of the engine that does not wait for its steps."""

    def sleep(self, seconds: float) -> None:
        """Let the engine sleep when its requests have ended; raises if that takes longer."""

    def wake_up(self) -> None:
        """Wake the engine up."""

    def finish(self, seconds: float) -> int:
        """Accept no more requests, wait for the unfinished ones, close; returns how many were aborted."""

    def close(self) -> None:
        """Abort unfinished requests and close the engine."""


class ModelHost(Protocol):
    """A model to serve."""

    @property
    def model(self) -> ServedModel:
        """What clients are told of it, and how texts become tokens."""

    @property
    def adapters(self) -> Sequence[str]:
        """Its LoRA adapters, which are served under their names."""

    def start(
        self, loop: asyncio.AbstractEventLoop, receive: Receiver, limits: QueueLimits
    ) -> Worker:
        """Start the worker, whose outputs go to `receive` in this loop."""


@dataclass(frozen=True)
class LoadedEngine:
    """An engine of this process, ready to serve under a name, and its place on a shared device."""

    name: str
    engine: Any
    """A `SteppedEngine` that knows its files."""
    facts: ModelFacts
    place: Place | None = None


@dataclass(frozen=True)
class HostedModel:
    """A model whose engine steps in a thread of this process, at its place on a shared device."""

    engine: SteppedEngine
    model: ServedModel
    place: Place | None = None
    adapters: Sequence[str] = ()
    """LoRA adapters of the engine, which are served under their names."""

    def start(
        self, loop: asyncio.AbstractEventLoop, receive: Receiver, limits: QueueLimits
    ) -> Worker:
        """Start the thread."""

        def sink(events: Sequence[StepOutput | Failure]) -> None:
            """Wake the event loop once for each step."""
            try:
                loop.call_soon_threadsafe(receive, [outputs_of(0, events, WorkerState())])
            except RuntimeError:
                # A closed loop has no clients left.
                if not loop.is_closed():
                    raise

        return EngineWorker(self.engine, sink, limits=limits, place=self.place)
