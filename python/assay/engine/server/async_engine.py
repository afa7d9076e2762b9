"""The engine for asyncio: prompts in, output deltas out.

Deltas that the client has not read yet are merged, so that a slow reader costs no more memory
than its text, and never blocks the engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from assay.engine.core.probing import PromptLogprobs
from assay.engine.core.worker import EngineWorker, Failure, Place, SteppedEngine, StoppedError
from assay.engine.requests.outputs import Chunk, StepOutput
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.server.metrics import Metrics

T = TypeVar("T")

LEAST_LOGPROB: Final = -9999.0
"""Stands for minus infinity, the log-probability of masked tokens, which JSON cannot hold."""


class OutputDelta:
    """The new output of one choice since the last read."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    @property
    def text(self) -> str:
        """The new text."""
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def token_count(self) -> int:
        """The number of new tokens."""
        return sum(chunk.token_id is not None for chunk in self.chunks)

    @property
    def logprobs(self) -> Iterator[tuple[int, float, Sequence[tuple[int, float]]]]:
        """Each token, its log-probability and the top tokens, where the request asked for them."""
        for chunk in self.chunks:
            if chunk.token_id is not None and chunk.logprob is not None:
                top = [(token, max(value, LEAST_LOGPROB)) for token, value in chunk.top_logprobs]
                yield chunk.token_id, max(chunk.logprob, LEAST_LOGPROB), top

    @property
    def finish_reason(self) -> str | None:
        """Why the choice finished, if it did."""
        return self.chunks[-1].finish_reason if self.chunks else None


class OutputStream:
    """The choices of one HTTP request; exiting the context aborts unfinished ones."""

    def __init__(self, engine: AsyncEngine, operation: str, names: Sequence[str]) -> None:
        self._engine = engine
        self._unread: dict[int, OutputDelta] = {}
        self._error: BaseException | None = None
        self._has_news = asyncio.Event()
        self._write: Callable[[int, OutputDelta], bool] | None = None
        self._is_waiting = False
        """Whether the reader has passed on all that it was given."""
        started = time.perf_counter()
        self._choices = {
            name: _ChoiceTiming(index, operation, started) for index, name in enumerate(names)
        }
        self._unfinished = set(names)
        self.cached_tokens = [0] * len(names)
        """Prompt tokens of each choice found in the prefix cache, known when it has finished."""

    def __enter__(self) -> OutputStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.release(list(self._choices), sorted(self._unfinished))
        for name in self._unfinished:
            self._choices[name].finished(self._engine.metrics, "abort")

    def push(self, event: StepOutput | Failure) -> None:
        """Buffer an output of the engine until the client reads it."""
        choice = self._choices[event.request_id]
        metrics = self._engine.metrics
        if isinstance(event, Failure):
            self._error = event.error
            choice.finished(metrics, "error")
        else:
            self._add(choice.index, event.chunks)
            choice.received(metrics, sum([chunk.token_id is not None for chunk in event.chunks]))
            if event.summary is not None:
                self.cached_tokens[choice.index] = event.summary.cached_tokens
                metrics.queued(event.summary.timing.queued)
            if event.finish_reason is not None:
                choice.finished(metrics, event.finish_reason)
        if isinstance(event, Failure) or event.finish_reason is not None:
            self._unfinished.discard(event.request_id)
        if self._unread or self._error is not None or not self._unfinished:
            self._has_news.set()

    def write_through(self, write: Callable[[int, OutputDelta], bool]) -> None:
        """Hand outputs to `write` as they come; those that it refuses are for `deltas`."""
        self._write = write

    def _add(self, index: int, chunks: Sequence[Chunk]) -> None:
        """Write new output, or keep it in order behind what is not read yet."""
        if self._write is not None and self._is_waiting and not self._unread:
            delta = OutputDelta()
            delta.chunks += chunks
            try:
                if self._write(index, delta):
                    return
            except Exception as error:
                # It is this stream's alone; others of the step go on.
                self._error = error
                return
        self._unread.setdefault(index, OutputDelta()).chunks += chunks

    async def deltas(self) -> AsyncIterator[tuple[int, OutputDelta]]:
        """The index of a choice and its new output, until all choices have finished."""
        while self._unread or self._unfinished or self._error:
            self._is_waiting = True
            await self._has_news.wait()
            self._is_waiting = False
            self._has_news.clear()
            unread, self._unread = self._unread, {}
            for item in unread.items():
                yield item
            if self._error is not None:
                raise self._error

    async def collect(self) -> list[OutputDelta]:
        """The full outputs of all choices, in the order of their prompts."""
        outputs = [OutputDelta() for _ in self._choices]
        async for index, delta in self.deltas():
            outputs[index].chunks += delta.chunks
        return outputs


class _ChoiceTiming:
    """When the tokens of one choice arrived."""

    def __init__(self, index: int, operation: str, started: float) -> None:
        self.index = index
        self._operation = operation
        self._started = started
        self._first = self._last = started
        self._tokens = 0

    def received(self, metrics: Metrics, tokens: int) -> None:
        if not tokens:
            return
        now = time.perf_counter()
        if self._tokens:
            metrics.next_tokens(now - self._last, tokens)
        else:
            self._first = now
            metrics.first_token(self._operation, now - self._started, tokens)
        self._tokens += tokens
        self._last = now

    def finished(self, metrics: Metrics, reason: str) -> None:
        last = time.perf_counter() - self._started
        metrics.finished(self._operation, reason, self._tokens, self._first - self._started, last)


class AsyncEngine:
    """Submits prompts to the worker thread and routes its outputs to their streams."""

    def __init__(
        self, engine: SteppedEngine, metrics: Metrics, *, limit: int, place: Place | None = None
    ) -> None:
        self.metrics = metrics
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str, OutputStream] = {}
        self.worker = EngineWorker(engine, self._sink, limit=limit, place=place)

    def open(
        self,
        operation: str,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        choices_per_prompt: int = 1,
        adapter: str | None = None,
    ) -> OutputStream:
        """Submit prompts to the engine, all or none; each stands there once for each choice."""
        names = self.worker.submit(prompts, params, adapter)
        stream = OutputStream(self, operation, names)
        self._streams.update(dict.fromkeys(names, stream))
        # A prompt counts once, however many choices it has, as in the usage of the response.
        for prompt in prompts[::choices_per_prompt]:
            self.metrics.arrived(len(prompt))
        return stream

    async def score(self, prompt: Sequence[int], top: int, adapter: str | None) -> PromptLogprobs:
        """The log-probability of each token of a prompt, computed between two steps."""
        return await self._between_steps(partial(self._engine.score, prompt, top, adapter))

    async def embed(self, prompt: Sequence[int], adapter: str | None) -> Sequence[float]:
        """The embedding of a prompt, computed between two steps."""
        embedding = await self._between_steps(partial(self._engine.embed, prompt, adapter))
        return [float(value) for value in embedding]

    async def embed_batch(
        self, embed: Callable[[Sequence[Sequence[int]]], Any], prompts: Sequence[Sequence[int]]
    ) -> list[Sequence[float]]:
        """The embeddings of prompts that an encoder computes together."""
        found: list[Sequence[float]] = (
            await self._between_steps(lambda: embed(prompts).tolist()) if prompts else []
        )
        return found

    async def _between_steps(self, function: Callable[[], T]) -> T:
        if (refusal := self.worker.refusing or self.worker.resting) is not None:
            raise StoppedError(refusal.message)
        return await asyncio.wrap_future(self.worker.call(function))

    def release(self, names: Sequence[str], unfinished: Sequence[str]) -> None:
        """Drop a stream; unfinished requests are aborted."""
        for name in names:
            del self._streams[name]
        self.worker.cancel(unfinished)

    def _sink(self, events: Sequence[StepOutput | Failure]) -> None:
        """Called in the worker thread: one wake-up of the event loop for each step."""
        try:
            self._loop.call_soon_threadsafe(self._dispatch, events)
        except RuntimeError:
            # A closed loop has no clients left.
            if not self._loop.is_closed():
                raise

    def _dispatch(self, events: Sequence[StepOutput | Failure]) -> None:
        for event in events:
            if stream := self._streams.get(event.request_id):
                stream.push(event)
