"""The engine: requests in, tokens out, one step at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from assay.engine.core import output_processor, probing
from assay.engine.core import prompts as prompting
from assay.engine.core.engine_state import Assembly
from assay.engine.core.knobs import KNOBS, Knob, Settings, Undo
from assay.engine.core.kv_memory import KvSnapshot
from assay.engine.core.outputs import Chunk, Completion, StepOutput
from assay.engine.core.prompts import Prompt
from assay.engine.core.request import Request
from assay.engine.core.sampling_params import SamplingParams
from assay.engine.core.step_loop import COUNTED, Gained, reveal, run_step
from assay.engine.loading import ModelFiles, open_model
from assay.engine.models.model import Model
from assay.errors import InputError
from assay.runtime import Device
from assay.runtime import device as device_named
from assay.runtime.graphs import GraphNode, NodeTime

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Engine:
    """A language model being served; `Engine.load` makes one.

    It is not safe to share between threads: one thread adds requests and steps.

    >>> with Engine.load("synthetic") as engine:
    ...     [answer] = engine.generate(["Once"], SamplingParams(max_tokens=3, temperature=0.0))
    >>> len(answer.token_ids)
    3
    """

    def __init__(
        self,
        files: ModelFiles,
        device: Device,
        settings: Settings,
        *,
        kv_tokens: int | None = None,
        prefix_caching: bool = True,
    ) -> None:
        """Serve these files; see `load`."""
        self.files = files
        self.device = device
        self._parts = Assembly(
            files, device, settings, kv_tokens=kv_tokens, prefix_caching=prefix_caching
        )
        self._requests: dict[str, Request] = {}
        self._numbers = 0
        self._counts = Counter(dict.fromkeys(COUNTED, 0))
        self._ready: list[StepOutput] = []
        """What came of a step that had to be waited for between two calls of `step`."""
        self._closed = False

    @classmethod
    def load(
        cls,
        source: str | PathLike[str] | ModelFiles,
        device: str | Device = "cpu",
        *,
        kv_tokens: int | None = None,
        prefix_caching: bool = True,
        **settings: int | str | bool,
    ) -> Engine:
        """Load a GGUF file, a Hugging Face folder, or a model known by name.

        `kv_tokens` is how many tokens the KV cache holds; by default it grows as it is needed, up
        to the model's whole context. The other options are the knobs (`knobs()`), and can be
        changed later.
        """
        files = source if isinstance(source, ModelFiles) else open_model(source)
        files.prepare()
        return cls(
            files,
            device_named(device),
            Settings.of(settings),
            kv_tokens=kv_tokens,
            prefix_caching=prefix_caching,
        )

    @property
    def model(self) -> Model:
        """The model with its weights, which other engines may share."""
        return self._parts.model

    @property
    def settings(self) -> Settings:
        """The position of every knob."""
        return self._parts.settings

    @property
    def context_limit(self) -> int:
        """Tokens that a prompt and its output may have together."""
        return self._parts.context_limit

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._requests or self._ready)

    def add_request(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        request_id: str | None = None,
        priority: int = 0,
    ) -> str:
        """Put a prompt in line and return the request's name; a lower priority comes first."""
        self._check_open()
        params = params or SamplingParams()
        tokens = prompting.token_numbers(self._parts, prompt)
        most = prompting.most_tokens(self._parts, tokens, params)
        request = self._admit(tokens, len(tokens), params, request_id, priority, most)
        self._parts.batcher.add(request)
        return request.request_id

    def fork(
        self, request_id: str, params: SamplingParams | None = None, new_id: str | None = None
    ) -> str:
        """Go on from where a request is in a second one too, and return its name.

        It has the same tokens so far; blocks of the KV cache are shared until the two differ.
        """
        self._check_open()
        self._settle()
        source = self._under_way(request_id)
        params = params or source.params
        most = prompting.most_tokens(self._parts, source.tokens[: source.prompt_tokens], params)
        if most <= len(source.tokens):
            raise InputError(
                f"max_tokens: expected more than the {source.output_tokens} tokens that "
                f'"{request_id}" has already, got {params.max_tokens}'
            )
        request = self._admit(
            list(source.tokens), source.prompt_tokens, params, new_id, source.priority, most
        )
        self._parts.batcher.fork(source, request)
        return request.request_id

    def is_under_way(self, request_id: str) -> bool:
        """Whether a request of this name was added and has not ended."""
        return request_id in self._requests

    def abort(self, request_id: str) -> StepOutput:
        """End a request now and give its blocks back; returns what it said since the last step."""
        request = self._under_way(request_id)
        del self._requests[request_id]
        self._parts.batcher.remove(request)
        said = [
            chunk for one in self._ready if one.request_id == request_id for chunk in one.chunks
        ]
        self._ready = [one for one in self._ready if one.request_id != request_id]
        said.append(output_processor.abort(request))
        return StepOutput(request_id, tuple(said), output_processor.summary(request))

    def step(self) -> list[StepOutput]:
        """Compute once for everything that runs, and return what it added to each request."""
        self._check_open()
        if self._ready:
            ready, self._ready = self._ready, []
            return ready
        return self._outputs(run_step(self._parts, self._counts))

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[Completion]:
        """Complete prompts together, and return when all are done.

        One that cannot go on ends with the reason "error" and its `error`; the others go on.
        """
        self._check_idle("generate")
        plans = prompting.with_params(prompting.listed(prompts), params)
        names: list[str] = []
        try:
            for prompt, chosen in plans:
                names.append(self.add_request(prompt, chosen))
            chunks: dict[str, list[Chunk]] = {name: [] for name in names}
            ends: dict[str, StepOutput] = {}
            while self.has_work:
                for output in self.step():
                    chunks[output.request_id] += output.chunks
                    if output.finished:
                        ends[output.request_id] = output
        finally:
            for name in names:
                if name in self._requests:
                    self.abort(name)
        return [Completion.of(ends[name], chunks[name]) for name in names]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Chunk]:
        """Complete one prompt, token by token; leaving the loop early ends the request.

        Raises the request's error where it cannot go on. What requests that are added meanwhile
        say comes with the next call of `step`.
        """
        self._check_idle("stream")
        name = self.add_request(prompt, params)
        others: list[StepOutput] = []
        try:
            while name in self._requests:
                for output in self.step():
                    if output.request_id != name:
                        others.append(output)
                        continue
                    yield from output.chunks
                    if output.error is not None:
                        raise output.error
        finally:
            self._ready += others
            if name in self._requests:
                self.abort(name)

    def logits(self, prompt: Prompt) -> npt.NDArray[np.float32]:
        """The logits after each token of a prompt, computed afresh: tokens by vocabulary."""
        self._check_idle("logits")
        return probing.logits(self._parts, prompting.token_numbers(self._parts, prompt))

    def knobs(self) -> list[Knob]:
        """What can be changed while the engine runs."""
        return list(KNOBS.values())

    def configure(self, changes: Mapping[str, Any]) -> Undo:
        """Change knobs; requests that run go on and give what they would have given."""
        self._check_open()
        self._settle()
        before = self.settings.as_dict()
        self._parts.change(self.settings.changed(changes))
        for request in self._requests.values():
            request.guess_ahead(bool(self.settings.speculation_depth))
        return Undo(self.configure, {name: before[name] for name in changes})

    def describe(self) -> dict[str, Any]:
        """What is being served, and how."""
        shape = self.model.shape
        return {
            "model": self.files.name,
            "architecture": self.model.architecture,
            "synthetic": self.files.synthetic,
            "device": self.device.name,
            "context_limit": self.context_limit,
            "vocabulary": shape.vocabulary,
            "layers": shape.layers,
            "weight_format": self.model.weight_format,
            "weight_bytes": self.model.weight_bytes,
            "streamed_bytes": self.model.streamed_bytes,
            "kv_bytes": self._parts.kv.memory.nbytes,
            "notes": [*self.files.notes, *self.model.notes],
            "degradations": self._parts.degradations,
            "settings": self.settings.as_dict(),
        }

    def statistics(self) -> dict[str, int]:
        """Counts of requests, tokens and blocks."""
        return {
            "running": len(self._parts.batcher.running),
            "waiting": len(self._parts.batcher.waiting),
            "preemptions": self._parts.batcher.preemptions,
            **self._counts,
            **self._parts.kv.books.statistics(),
        }

    def operations(self, sequences: int = 1) -> tuple[GraphNode, ...]:
        """The operations of a decoding step, in order, by the name of what each computes."""
        self._check_open()
        return self._parts.runner.graph(sequences).nodes

    def profile(self, sequences: int = 1, context: int = 64) -> list[NodeTime]:
        """Run a decoding step over made-up texts of so many tokens and time each operation."""
        self._check_idle("profile")
        return probing.profile(self._parts, sequences, context)

    def snapshot_kv_cache(self) -> KvSnapshot:
        """The blocks that later prompts can find, with their keys and values."""
        self._check_open()
        return self._parts.kv.snapshot()

    def restore_kv_cache(self, snapshot: KvSnapshot) -> int:
        """Put the blocks of a snapshot back; returns how many tokens can be found again."""
        self._check_open()
        return self._parts.kv.restore(snapshot)

    def close(self) -> None:
        """End all requests and give the memory back; the weights stay for other engines."""
        if self._closed:
            return
        for name in tuple(self._requests):
            self.abort(name)
        self._parts.close()
        self._closed = True

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _outputs(self, gained: Sequence[Gained]) -> list[StepOutput]:
        """What a step added to each request; those that ended are let go."""
        outputs = []
        for request, chunks in gained:
            name, summary = request.request_id, None
            if request.finish_reason is not None:
                del self._requests[name]
                self._parts.batcher.remove(request)
                summary = output_processor.summary(request)
            if chunks:
                outputs.append(StepOutput(name, tuple(chunks), summary, request.error))
        return outputs

    def _settle(self) -> None:
        """Wait for the step that is under way; what it gives comes with the next call of `step`."""
        flight, self._parts.flight = self._parts.flight, None
        if flight is not None:
            self._ready += self._outputs(reveal(self._parts, self._counts, flight))

    def _admit(
        self,
        tokens: list[int],
        prompt_tokens: int,
        params: SamplingParams,
        request_id: str | None,
        priority: int,
        most_tokens: int,
    ) -> Request:
        """A request with a name of its own, and room for it in the cache."""
        self._numbers += 1
        name = request_id or f"request-{self._numbers}"
        if name in self._requests:
            raise InputError(f'request "{name}": expected a name that is free, got one in use')
        request = Request.of(
            name,
            self._numbers,
            tokens,
            params,
            self.files.tokenizer,
            prompt_tokens=prompt_tokens,
            most_tokens=most_tokens,
            priority=priority,
        )
        request.guess_ahead(bool(self.settings.speculation_depth))
        if self._parts.can_grow(most_tokens):
            self._settle()
            self._parts.grow(most_tokens)
        self._requests[name] = request
        return request

    def _under_way(self, request_id: str) -> Request:
        request = self._requests.get(request_id)
        if request is None:
            raise InputError(f'request "{request_id}": expected one under way, got none')
        return request

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("engine: expected an open engine, got one that was closed")

    def _check_idle(self, what: str) -> None:
        self._check_open()
        # What a request said last may still wait for `step`, though the request has ended.
        left = {*self._requests, *(output.request_id for output in self._ready)}
        if left:
            raise InputError(
                f"{what}: expected no requests under way, got {len(left)}",
                "step until they are done, or add this one beside them with add_request",
            )
