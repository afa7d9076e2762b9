"""The engine for asyncio: prompts in, streams of outputs out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from assay.engine.core.admission import QueueLimits
from assay.engine.core.probing import PromptLogprobs
from assay.engine.core.worker import Failure, StoppedError
from assay.engine.requests.outputs import StepOutput
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.requests.structured_output import StructuredOutput
from assay.engine.server.messages import Outputs
from assay.engine.server.metrics import Metrics
from assay.engine.server.model_host import ModelHost
from assay.engine.server.output_delta import OutputDelta
from assay.engine.server.output_stream import Choice, OutputStream


class AsyncEngine:
    """Submits prompts to an engine's worker and routes its outputs to their streams."""

    def __init__(self, host: ModelHost, metrics: Metrics, limits: QueueLimits) -> None:
        self.metrics = metrics
        self._choices: dict[str, Choice] = {}
        self.worker = host.start(asyncio.get_running_loop(), self.deliver, limits)

    def open(
        self,
        operation: str,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        choices_per_prompt: int = 1,
        adapter: str | None = None,
        priority: int = 0,
    ) -> OutputStream:
        """Submit prompts to the engine, all or none; each stands there once for each choice."""
        names = self.worker.submit(prompts, params, adapter, priority=priority)
        stream = OutputStream(operation, names, self.metrics, self._release)
        self._choices.update(stream.choices)
        # A prompt counts once, however many choices it has, as in the usage of the response.
        for prompt in prompts[::choices_per_prompt]:
            self.metrics.arrived(len(prompt))
        return stream

    async def score(self, prompt: Sequence[int], top: int, adapter: str | None) -> PromptLogprobs:
        """The log-probability of each token of a prompt, computed between two steps."""
        scored: PromptLogprobs = await self.ask_awake("score", prompt, top, adapter)
        return scored

    async def embed(self, prompt: Sequence[int], adapter: str | None) -> Sequence[float]:
        """The embedding of a prompt, computed between two steps."""
        embedding = await self.ask_awake("embed", prompt, adapter)
        return [float(value) for value in embedding]

    async def embed_batch(self, prompts: Sequence[Sequence[int]]) -> list[Sequence[float]]:
        """The embeddings of prompts that an encoder computes together."""
        if not prompts:
            return []
        embeddings = await self.ask_awake("embed_batch", prompts)
        return [[float(value) for value in embedding] for embedding in embeddings]

    async def compile_grammar(self, constraint: StructuredOutput) -> None:
        """Compile what an output must look like, beside the steps."""
        await asyncio.to_thread(self.worker.prepare, "compile_grammar", constraint)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the engine, between two steps."""
        return await asyncio.wrap_future(self.worker.ask(method, *arguments))

    async def ask_awake(self, method: str, *arguments: Any) -> Any:
        """Call a method of an engine that accepts requests."""
        state = self.worker.state
        if (refusal := state.refusal or state.rest) is not None:
            raise StoppedError(refusal)
        return await self.ask(method, *arguments)

    def deliver(self, batch: Sequence[Outputs]) -> None:
        """Pass on the outputs of a step, or of several that came at once; in the event loop."""
        now = time.perf_counter()
        if len(batch) == 1:
            self._deliver_step(batch[0], now)
        else:
            self._deliver_steps(batch, now)

    def _deliver_step(self, outputs: Outputs, now: float) -> None:
        choices, metrics = self._choices, self.metrics
        for name, text in zip(outputs.names, outputs.texts, strict=True):
            if (choice := choices.get(name)) is not None:
                choice.received(metrics, 1, now)
                choice.stream.push_text(choice.index, text, 1)
        metrics.generated(len(outputs.names))
        for event in outputs.others:
            if (choice := choices.get(event.request_id)) is not None:
                self._deliver_event(choice, event, now)

    def _deliver_event(self, choice: Choice, event: StepOutput | Failure, now: float) -> None:
        if isinstance(event, Failure):
            choice.stream.end(event)
            return
        delta = OutputDelta()
        delta.add_chunks(event.chunks)
        self._deliver_delta(choice, delta, now)
        if delta.finish_reason is not None:
            choice.stream.end(event)

    def _deliver_delta(self, choice: Choice, delta: OutputDelta, now: float) -> None:
        if delta.token_count:
            choice.received(self.metrics, delta.token_count, now)
            self.metrics.generated(delta.token_count)
        choice.stream.push_delta(choice.index, delta)

    def _deliver_steps(self, batch: Sequence[Outputs], now: float) -> None:
        """One write for each request, however many steps have come since the last read."""
        merged: dict[str, OutputDelta] = {}
        ends: list[StepOutput | Failure] = []
        for outputs in batch:
            for name, text in zip(outputs.names, outputs.texts, strict=True):
                merged.setdefault(name, OutputDelta()).add_text(text, 1)
            for event in outputs.others:
                if isinstance(event, StepOutput):
                    merged.setdefault(event.request_id, OutputDelta()).add_chunks(event.chunks)
                if isinstance(event, Failure) or event.finish_reason is not None:
                    ends.append(event)
        for name, delta in merged.items():
            if (choice := self._choices.get(name)) is not None:
                self._deliver_delta(choice, delta, now)
        for event in ends:
            if (choice := self._choices.get(event.request_id)) is not None:
                choice.stream.end(event)

    def _release(self, names: Sequence[str], unfinished: Sequence[str]) -> None:
        """Drop a stream; unfinished requests are aborted."""
        for name in names:
            del self._choices[name]
        self.worker.cancel(unfinished)
