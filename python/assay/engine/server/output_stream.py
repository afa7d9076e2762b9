"""The outputs of one HTTP request, from the engine's steps to its client.

Output that the client has not read yet is merged, so that a slow reader costs no more memory than
its text, and never blocks the engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from assay.engine.core.worker import Failure
from assay.engine.requests.outputs import StepOutput
from assay.engine.server.metrics import Metrics
from assay.engine.server.output_delta import OutputDelta


class DeltaWriter(Protocol):
    """Writes output as it comes; what it refuses is kept for the stream's reader."""

    def write_text(self, index: int, text: str, tokens: int) -> bool:
        """Write text of choice `index` that nothing else comes with; whether it was written."""

    def write_delta(self, index: int, delta: OutputDelta) -> bool:
        """Write output of choice `index`; whether it was written."""


class Choice:
    """One output of a request, and when its tokens arrived."""

    __slots__ = ("_first", "_last", "_operation", "_started", "_tokens", "index", "stream")

    def __init__(self, stream: OutputStream, index: int, operation: str, started: float) -> None:
        self.stream = stream
        self.index = index
        self._operation = operation
        self._started = self._first = self._last = started
        self._tokens = 0

    def received(self, metrics: Metrics, tokens: int, now: float) -> None:
        """Tokens have arrived."""
        if self._tokens:
            metrics.next_tokens(now - self._last, tokens)
        else:
            self._first = now
            metrics.first_token(self._operation, now - self._started)
            if tokens > 1:
                metrics.next_tokens(0.0, tokens - 1)
        self._tokens += tokens
        self._last = now

    def finished(self, metrics: Metrics, reason: str) -> None:
        """The output has ended."""
        last = time.perf_counter() - self._started
        metrics.finished(self._operation, reason, self._tokens, self._first - self._started, last)


class OutputStream:
    """The choices of one HTTP request; exiting the context aborts unfinished ones."""

    def __init__(
        self,
        operation: str,
        names: Sequence[str],
        metrics: Metrics,
        release: Callable[[Sequence[str], Sequence[str]], None],
    ) -> None:
        """`release` gets the IDs of all choices and of the unfinished ones, when the context ends."""
        self._metrics = metrics
        self._release = release
        self._unread: dict[int, OutputDelta] = {}
        self._error: BaseException | None = None
        self._has_news = asyncio.Event()
        self._writer: DeltaWriter | None = None
        self._is_waiting = False
        """Whether the reader has passed on all that it was given."""
        started = time.perf_counter()
        self.choices = {
            name: Choice(self, index, operation, started) for index, name in enumerate(names)
        }
        self._unfinished = set(names)
        self.cached_tokens = [0] * len(names)
        """Prompt tokens of each choice found in the prefix cache, known when it has finished."""

    def __enter__(self) -> OutputStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._release(list(self.choices), sorted(self._unfinished))
        for name in self._unfinished:
            self.choices[name].finished(self._metrics, "abort")

    def write_through(self, writer: DeltaWriter) -> None:
        """Hand outputs to a writer as they come; those that it refuses are for `deltas`."""
        self._writer = writer

    def push_text(self, index: int, text: str, tokens: int) -> None:
        """Write text that nothing else comes with, or keep it behind what is not read yet."""
        if self._writer is not None and self._is_waiting and not self._unread:
            try:
                if self._writer.write_text(index, text, tokens):
                    return
            except Exception as error:
                # It is this stream's alone; others of the step go on.
                self._fail(error)
                return
        delta = OutputDelta()
        delta.add_text(text, tokens)
        self.push_delta(index, delta)

    def push_delta(self, index: int, delta: OutputDelta) -> None:
        """Write new output, or keep it in order behind what is not read yet."""
        if self._writer is not None and self._is_waiting and not self._unread:
            try:
                if self._writer.write_delta(index, delta):
                    return
            except Exception as error:
                self._fail(error)
                return
        if (unread := self._unread.get(index)) is None:
            self._unread[index] = delta
        else:
            unread.extend(delta)
        self._has_news.set()

    def end(self, event: StepOutput | Failure) -> None:
        """Note the end of a choice, whose output was pushed; its reader may be waiting for it."""
        choice, metrics = self.choices[event.request_id], self._metrics
        if isinstance(event, Failure):
            choice.finished(metrics, "error")
            self._fail(event.error)
        else:
            if event.summary is not None:
                self.cached_tokens[choice.index] = event.summary.cached_tokens
                metrics.queued(event.summary.timing.queued)
            choice.finished(metrics, event.finish_reason or "stop")
        self._unfinished.discard(event.request_id)
        if not self._unfinished:
            self._has_news.set()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._has_news.set()

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
        outputs = [OutputDelta() for _ in self.choices]
        async for index, delta in self.deltas():
            outputs[index].extend(delta)
        return outputs
