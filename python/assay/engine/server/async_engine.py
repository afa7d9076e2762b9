"""One HTTP request's share of the engine: prompts go in, pieces of text come out.

Pieces that the client has not read yet are joined, so that a slow reader costs no more memory
than the text it asked for, and never holds the engine up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence

from assay.engine.core.outputs import Chunk, StepOutput
from assay.engine.core.sampling_params import SamplingParams
from assay.engine.server.metrics import Metrics
from assay.engine.server.worker import EngineWorker, Failure, SteppedEngine


class Piece:
    """What one answer gained since it was last looked at."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    @property
    def text(self) -> str:
        """The text that was gained."""
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def token_count(self) -> int:
        """The tokens that were gained."""
        return sum(chunk.token_id is not None for chunk in self.chunks)

    @property
    def logprobs(self) -> Iterator[tuple[int, float, Sequence[tuple[int, float]]]]:
        """Each token, its log-probability and the likeliest ones, where they were asked for."""
        for chunk in self.chunks:
            if chunk.token_id is not None and chunk.logprob is not None:
                yield chunk.token_id, chunk.logprob, chunk.top_logprobs

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended, if it did."""
        return self.chunks[-1].finish_reason if self.chunks else None


class Exchange:
    """The answers to one HTTP request, as they grow; leaving it ends what has not ended."""

    def __init__(self, frontend: Frontend, operation: str, names: Sequence[str]) -> None:
        self._frontend = frontend
        self._unread: dict[int, Piece] = {}
        self._error: BaseException | None = None
        self._changed = asyncio.Event()
        started = time.perf_counter()
        self._answers = {
            name: _Answer(index, operation, started) for index, name in enumerate(names)
        }
        self._unfinished = set(names)
        self.cached_tokens = [0] * len(names)
        """Prompt tokens of each answer that were in the cache already, known at its end."""

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self._frontend.release(list(self._answers), sorted(self._unfinished))
        for name in self._unfinished:
            self._answers[name].ended(self._frontend.metrics, "abort")

    def take(self, event: StepOutput | Failure) -> None:
        """Keep what the engine gave until the client comes for it."""
        answer = self._answers[event.request_id]
        metrics = self._frontend.metrics
        if isinstance(event, Failure):
            self._error = event.error
            answer.ended(metrics, "error")
        else:
            self._unread.setdefault(answer.index, Piece()).chunks += event.chunks
            answer.grew(metrics, len(event.token_ids))
            if event.summary is not None:
                self.cached_tokens[answer.index] = event.summary.cached_tokens
                metrics.waited(event.summary.timing.queued)
            if event.finish_reason is not None:
                answer.ended(metrics, event.finish_reason)
        if isinstance(event, Failure) or event.finish_reason is not None:
            self._unfinished.discard(event.request_id)
        self._changed.set()

    async def pieces(self) -> AsyncIterator[tuple[int, Piece]]:
        """Each answer's number and what it gained, until all have ended."""
        while self._unread or self._unfinished or self._error:
            await self._changed.wait()
            self._changed.clear()
            unread, self._unread = self._unread, {}
            for numbered in unread.items():
                yield numbered
            if self._error is not None:
                raise self._error

    async def whole(self) -> list[Piece]:
        """The complete answers, in the order of their prompts."""
        answers = [Piece() for _ in self._answers]
        async for index, piece in self.pieces():
            answers[index].chunks += piece.chunks
        return answers


class _Answer:
    """When the tokens of one answer came."""

    def __init__(self, index: int, operation: str, started: float) -> None:
        self.index = index
        self._operation = operation
        self._started = started
        self._first = self._last = started
        self._tokens = 0

    def grew(self, metrics: Metrics, tokens: int) -> None:
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

    def ended(self, metrics: Metrics, reason: str) -> None:
        last = time.perf_counter() - self._started
        metrics.ended(self._operation, reason, self._tokens, self._first - self._started, last)


class Frontend:
    """The server's side of the engine's thread: opens exchanges and brings them what comes out."""

    def __init__(self, engine: SteppedEngine, metrics: Metrics, *, limit: int) -> None:
        self.metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, Exchange] = {}
        self.worker = EngineWorker(engine, self._sink, limit=limit)

    def open(
        self, operation: str, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams]
    ) -> Exchange:
        """Put prompts before the engine, all or none."""
        names = self.worker.submit(prompts, params)
        exchange = Exchange(self, operation, names)
        self._open.update(dict.fromkeys(names, exchange))
        for prompt in prompts:
            self.metrics.arrived(len(prompt))
        return exchange

    def release(self, names: Sequence[str], unfinished: Sequence[str]) -> None:
        """Forget an exchange; the engine drops what it has not finished."""
        for name in names:
            del self._open[name]
        self.worker.cancel(unfinished)

    def _sink(self, events: Sequence[StepOutput | Failure]) -> None:
        """Called in the engine's thread: one wake-up of the server's thread for a whole step."""
        try:
            self._loop.call_soon_threadsafe(self._spread, events)
        except RuntimeError:
            # A loop that has closed has nobody left to tell.
            if not self._loop.is_closed():
                raise

    def _spread(self, events: Sequence[StepOutput | Failure]) -> None:
        for event in events:
            if exchange := self._open.get(event.request_id):
                exchange.take(event)
