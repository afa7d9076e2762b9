"""The engine: requests in, tokens out, one step at a time.

A request goes through `add_request` (tokenize, queue), `BatchScheduler.schedule` (join a step),
`ModelRunner.launch` (forward pass and sampling) and `collect_outputs` (append the sampled token,
detokenize, finish).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.closing import Closing
from assay.engine.core import output_processor, probing, prompts as prompting
from assay.engine.core.engine_state import EngineState
from assay.engine.core.exclusive import EngineLock, exclusive
from assay.engine.core.knobs import KNOBS, Knob, Settings, Undo
from assay.engine.core.probing import PromptLogprobs
from assay.engine.core.prompts import Prompt
from assay.engine.core.step_loop import COUNTERS, RequestChunks, collect_outputs, run_step
from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.encoder_files import is_encoder
from assay.engine.models.model import Model
from assay.engine.models.residence import Evicted
from assay.engine.requests.grammar import GrammarMatcher
from assay.engine.requests.outputs import Chunk, Completion, StepOutput
from assay.engine.requests.request import Request
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.requests.structured_output import StructuredOutput
from assay.engine.runner import recording
from assay.engine.runner.graph_capture import StepDelays
from assay.engine.runner.kv_memory import KvSnapshot
from assay.errors import InputError, UnsupportedError, unknown_name
from assay.runtime import Device, device as device_named
from assay.runtime.graphs import GraphNode, NodeTime

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from assay.engine.loading.lora_adapter import LoraAdapter


class Engine(Closing):
    """A language model that serves requests; `Engine.load` creates one.

    Threads may share it: a call waits until the calls of other threads have returned. What `step`
    returns goes to whichever thread calls it; `generate` and `stream` keep their own outputs.

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
        adapters: Sequence[LoraAdapter] = (),
    ) -> None:
        """Serve the model of these files; see `load`."""
        self.files = files
        self.device = device
        self._state = EngineState(
            files,
            device,
            settings,
            kv_tokens=kv_tokens,
            prefix_caching=prefix_caching,
            adapters=adapters,
        )
        self._requests: dict[str, Request] = {}
        self._num_requests = 0
        self._counters = Counter(dict.fromkeys(COUNTERS, 0))
        self._undelivered: list[StepOutput] = []
        """Outputs that the next call of `step` returns."""
        self._mailboxes: dict[str, list[StepOutput]] = {}
        """Outputs of the requests of `generate` and `stream`, which other calls must not take."""
        self._abandoned: deque[str] = deque()
        """Requests of streams that were left early while a call was running."""
        self._recording: recording.Recorder | None = None
        """The recorder that the engine has taken up."""
        self._lock = EngineLock()
        self._closed = False

    @classmethod
    def load(
        cls,
        source: str | PathLike[str] | ModelFiles,
        device: str | Device = "cpu",
        *,
        kv_tokens: int | None = None,
        prefix_caching: bool = True,
        adapters: Mapping[str, str | PathLike[str]] | None = None,
        **settings: int | str | bool,
    ) -> Engine:
        """Load a GGUF file, a Hugging Face folder, or a model known by name.

        `kv_tokens` is how many tokens the KV cache holds; by default it grows on demand, up to the
        model's whole context. `adapters` are folders of LoRA adapters by name, which requests choose
        from. The other options are the knobs (`knobs()`), which can be changed
        later.
        """
        files = source if isinstance(source, ModelFiles) else open_model(source)
        if is_encoder(files):
            raise UnsupportedError(
                f'model "{files.name}": expected a model that generates text, got an encoder',
                "it embeds texts: assay embed, assay serve, or Encoder.load in Python",
            )
        files.prepare()
        opened = []
        if adapters:
            from assay.engine.loading.lora_adapter import open_adapter

            opened = [open_adapter(name, Path(path)) for name, path in adapters.items()]
        return cls(
            files,
            device_named(device),
            Settings.of(settings),
            kv_tokens=kv_tokens,
            prefix_caching=prefix_caching,
            adapters=opened,
        )

    @property
    def adapters(self) -> list[str]:
        """The names of the LoRA adapters."""
        return [adapter.name for adapter in self._state.adapters if adapter is not None]

    @exclusive
    def load_adapter(self, name: str, folder: str | PathLike[str]) -> None:
        """Load a LoRA adapter; requests under way continue with their own."""
        from assay.engine.loading.lora_adapter import open_adapter

        self._check_open()
        if name in self.adapters:
            raise InputError(f'adapter "{name}": expected a name that is free, got one in use')
        opened = open_adapter(name, Path(folder))
        self._synchronize()
        places = list(self._state.adapters)
        # The place of an adapter that was unloaded is taken again.
        at = places.index(None) if None in places else len(places)
        self._state.set_adapters([*places[:at], opened, *places[at + 1 :]])

    @exclusive
    def unload_adapter(self, name: str) -> None:
        """Unload a LoRA adapter that no request uses."""
        self._check_open()
        number = self._adapter(name)
        if used := sum(request.adapter == number for request in self._requests.values()):
            raise InputError(
                f'adapter "{name}": expected no requests that use it, got {used}',
                "wait for them, or abort them",
            )
        self._synchronize()
        places = self._state.adapters
        self._state.set_adapters([*places[: number - 1], None, *places[number:]])
        # Another adapter may take its place, which the keys of the prefix cache name.
        self._state.kv.block_manager.clear_cached()

    @property
    def is_sleeping(self) -> bool:
        """Whether the weights are in host memory; `wake_up` moves them back."""
        return self._state.asleep is not None

    @exclusive
    def sleep(self) -> Evicted:
        """Move the weights to host memory and free the KV cache and all buffers.

        No request may be under way. All calls but `wake_up` and `close` are refused meanwhile; the
        prefix cache is lost.
        """
        if self._closed or not self.is_sleeping:
            self._check_idle("sleep")
            self._synchronize()
        return self._state.sleep()

    @exclusive
    def wake_up(self) -> None:
        """Move the weights back to the device; raises and stays asleep if memory is short."""
        if self._closed:
            self._check_open()
        self._state.wake_up()

    @property
    def model(self) -> Model:
        """The model with its weights; engines over the same files share it."""
        return self._state.model

    @property
    def settings(self) -> Settings:
        """The value of every knob."""
        return self._state.settings

    @property
    def context_limit(self) -> int:
        """Maximum tokens of a prompt and its output together."""
        return self._state.context_limit

    @property
    def degradations(self) -> list[str]:
        """What the engine does less well than configured, one line each."""
        return self._state.degradations

    @property
    def has_work(self) -> bool:
        """Whether any request is unfinished or any output undelivered."""
        return bool(self._requests or self._undelivered)

    @exclusive
    def add_request(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        request_id: str | None = None,
        priority: int = 0,
        adapter: str | None = None,
    ) -> str:
        """Queue a prompt and return its request ID; a lower priority runs first.

        `adapter` is the name of a LoRA adapter; requests with different ones share a batch.
        """
        self._check_open()
        params = params or SamplingParams()
        tokens = prompting.token_ids(self._state, prompt)
        limit = prompting.max_total_tokens(self._state, tokens, params)
        prompting.check_logit_bias(self._state, params)
        request = self._new_request(
            tokens, len(tokens), params, request_id, priority, limit, self._adapter(adapter)
        )
        self._state.scheduler.add(request)
        return request.request_id

    @exclusive
    def fork(
        self, request_id: str, params: SamplingParams | None = None, new_id: str | None = None
    ) -> str:
        """Copy a running request into a second one and return its request ID.

        Both have the same tokens so far and share KV blocks until they diverge (copy on write).
        """
        self._check_open()
        self._synchronize()
        source = self._active_request(request_id)
        params = params or source.params
        prompt = source.tokens[: source.num_prompt_tokens]
        limit = prompting.max_total_tokens(self._state, prompt, params)
        prompting.check_logit_bias(self._state, params)
        if limit <= len(source.tokens):
            raise InputError(
                f"max_tokens: expected more than the {source.num_output_tokens} tokens that "
                f'"{request_id}" has already, got {params.max_tokens}'
            )
        request = self._new_request(
            list(source.tokens), len(prompt), params, new_id, source.priority, limit, source.adapter
        )
        self._state.scheduler.fork(source, request)
        return request.request_id

    def compile_grammar(self, constraint: StructuredOutput) -> GrammarMatcher:
        """Compile what an output must look like; requests with an equal constraint reuse it.

        It raises if the constraint does not compile, and does not wait for other calls.
        """
        return self._state.grammars.get().matcher(constraint)

    def is_under_way(self, request_id: str) -> bool:
        """Whether a request of this ID was added and has not finished."""
        return request_id in self._requests

    @exclusive
    def abort(self, request_id: str) -> StepOutput:
        """Finish a request now and free its blocks; returns its undelivered output."""
        request = self._active_request(request_id)
        del self._requests[request_id]
        self._state.scheduler.remove(request)
        mine = [output for output in self._undelivered if output.request_id == request_id]
        self._undelivered = [one for one in self._undelivered if one.request_id != request_id]
        mailbox = self._mailboxes.get(request_id)
        chunks = [chunk for output in (*mine, *(mailbox or ())) for chunk in output.chunks]
        end = output_processor.abort(request)
        summary = output_processor.summary(request)
        if mailbox is not None:
            mailbox.append(StepOutput(request_id, (end,), summary))
        return StepOutput(request_id, (*chunks, end), summary)

    @exclusive
    def step(self) -> list[StepOutput]:
        """Run one step over all running requests and return what it added to each.

        The outputs of requests of `generate` and `stream` go to those.
        """
        self._check_open()
        if not self._undelivered:
            self._advance()
        outputs, self._undelivered = self._undelivered, []
        return outputs

    @exclusive
    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        adapter: str | None = None,
    ) -> list[Completion]:
        """Complete prompts as one batch, and return when all have finished.

        A request that fails has the finish reason "error" and its `error`; the others continue.
        """
        self._check_no_manual_requests("generate")
        inputs = prompting.with_params(prompting.as_list(prompts), params)
        names: list[str] = []
        try:
            for prompt, prompt_params in inputs:
                names.append(self.add_request(prompt, prompt_params, adapter=adapter))
                self._mailboxes[names[-1]] = []
            while any(name in self._requests for name in names):
                self._advance()
            return [Completion.of(self._mailboxes[name]) for name in names]
        finally:
            for name in names:
                self._forget(name)

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, adapter: str | None = None
    ) -> Iterator[Chunk]:
        """Complete one prompt, token by token; leaving the loop early aborts the request.

        Raises the request's error if it fails. Other calls, of this thread or another, may come
        between two tokens; they advance this request too, whose tokens are kept for the stream.
        """
        name = self._open_stream(prompt, params, adapter)
        try:
            finished = False
            while not finished:
                outputs = self._next_outputs(name)
                finished = not outputs or outputs[-1].finished
                for output in outputs:
                    yield from output.chunks
                    if output.error is not None:
                        raise output.error
        finally:
            self._abandoned.append(name)
            with self._lock.if_free() as is_free:
                if is_free:
                    self._abort_abandoned()

    @exclusive
    def logits(self, prompt: Prompt, adapter: str | None = None) -> npt.NDArray[np.float32]:
        """The logits after each token of a prompt, without the prefix cache: tokens by vocabulary."""
        self._check_idle("logits")
        tokens = prompting.token_ids(self._state, prompt)
        return probing.logits(self._state, tokens, self._adapter(adapter))

    @exclusive
    def score(self, prompt: Prompt, top: int = 0, adapter: str | None = None) -> PromptLogprobs:
        """The log-probability of each token of a prompt, with `top` alternatives at each position.

        Other requests wait for it. `max_batch` tokens are computed at a time: a larger one is faster.
        """
        self._check_open()
        self._synchronize()
        tokens = prompting.token_ids(self._state, prompt)
        return probing.score(self._state, tokens, top, self._adapter(adapter))

    @exclusive
    def embed(self, prompt: Prompt, adapter: str | None = None) -> npt.NDArray[np.float32]:
        """The embedding of a prompt: its last token's hidden state after the final norm.

        Other requests wait for it. It is not normalized to length one.
        """
        self._check_open()
        self._synchronize()
        tokens = prompting.token_ids(self._state, prompt)
        return probing.last_hidden_state(self._state, tokens, self._adapter(adapter))

    def knobs(self) -> list[Knob]:
        """The settings that can be changed while the engine runs."""
        return list(KNOBS.values())

    @exclusive
    def configure(self, changes: Mapping[str, Any]) -> Undo:
        """Change knobs; running requests continue with the same output."""
        self._check_open()
        self._synchronize()
        before = self.settings.as_dict()
        self._state.configure(self.settings.changed(changes))
        return Undo(self.configure, {name: before[name] for name in changes})

    @exclusive
    def describe(self) -> dict[str, Any]:
        """The model, its memory, the settings and what is degraded."""
        shape = self.model.shape
        return {
            "model": self.files.name,
            "weights": None if self.files.path is None else str(self.files.path),
            "architecture": self.model.architecture,
            "synthetic": self.files.synthetic,
            "device": self.device.name,
            "context_limit": self.context_limit,
            "vocabulary": shape.vocabulary,
            "layers": shape.layers,
            "weight_format": self.model.weight_format,
            "weight_bytes": self.model.weight_bytes,
            "streamed_bytes": self.model.streamed_bytes,
            "adapters": self.adapters,
            "offloaded_bytes": 0
            if self.model.layer_stream is None
            else self.model.layer_stream.host_bytes,
            "kv_bytes": 0 if self.is_sleeping else self._state.kv.memory.nbytes,
            "notes": [*self.files.notes, *self.model.notes],
            "degradations": self._state.degradations,
            "settings": self.settings.as_dict(),
        }

    @exclusive
    def statistics(self) -> dict[str, int]:
        """Counts of requests, tokens and blocks."""
        return {
            "running": len(self._state.scheduler.running),
            "waiting": len(self._state.scheduler.waiting),
            "preemptions": self._state.scheduler.num_preemptions,
            "asleep": int(self.is_sleeping),
            **self._counters,
            **self._state.kv.block_manager.statistics(),
        }

    @exclusive
    def operations(self, sequences: int = 1) -> tuple[GraphNode, ...]:
        """The operations of a decode step, in order, labeled by what each computes."""
        self._check_open()
        return self._state.runner.graph(sequences).nodes

    @exclusive
    def warm_up(self, seconds: float = 0.0) -> int:
        """Compile the kernels of steps of every size before requests come.

        For up to `seconds` more, graphs of decode steps of every size are captured; returns how many
        graphs there are. Engines that share a device need it: a step that waits for a compiler
        leaves its share to the others.
        """
        self._check_open()
        return self._state.runner.warm_up(seconds)

    @exclusive
    def fill_kv_cache(self, share: float) -> int:
        """Size the KV cache so that the engine takes this share of the device's memory.

        Returns the tokens that it holds, at most a whole context for each request of `max_batch`.
        The cache does not grow afterwards.
        """
        self._check_idle("fill_kv_cache")
        self._synchronize()
        return self._state.fill_kv_cache(share)

    @exclusive
    def profile(self, sequences: int = 1, context: int = 64) -> list[NodeTime]:
        """Time each operation of a decode step over dummy sequences of `context` tokens."""
        self._check_idle("profile")
        return probing.profile(self._state, sequences, context)

    @exclusive
    def routed_experts(self, rows: int) -> list[list[int]]:
        """The experts of the first rows of the latest step in the last layer that has experts."""
        self._check_open()
        return probing.routed_experts(self._state, rows)

    @exclusive
    def reserve_kv_cache(self, tokens: int) -> int:
        """Grow the KV cache to hold this many tokens, as far as it may; returns how many it holds."""
        self._check_idle("reserve_kv_cache")
        self._state.grow(tokens)
        return self._state.kv.capacity

    @exclusive
    def reset_prefix_cache(self) -> int:
        """Forget the cached blocks that no request uses; returns how many there were."""
        self._check_open()
        return self._state.kv.block_manager.clear_cached()

    @exclusive
    def set_delays(self, delays: StepDelays | None) -> None:
        """Delay nodes of the step's graphs from the next step on, or none any more.

        `assay.diagnose.delays` calls it. A change of settings that rebuilds the graphs ends it.
        """
        self._check_open()
        self._synchronize()
        if delays is not None and not self.settings.graph_buckets:
            raise InputError(
                "delays: expected steps that are captured as graphs, got graph_buckets 0",
                "set the knob graph_buckets to 1 or more",
            )
        self._state.runner.delays = delays

    @exclusive
    def snapshot_kv_cache(self) -> KvSnapshot:
        """The blocks of the prefix cache with their keys and values, copied to the host."""
        self._check_open()
        return self._state.kv.snapshot()

    @exclusive
    def restore_kv_cache(self, snapshot: KvSnapshot) -> int:
        """Put a snapshot's blocks into the prefix cache; returns how many tokens were restored."""
        self._check_open()
        return self._state.kv.restore(snapshot)

    @exclusive
    def close(self) -> None:
        """Abort all requests and free the memory; the weights stay for other engines."""
        if self._closed:
            return
        for name in tuple(self._requests):
            self.abort(name)
        self._mailboxes.clear()
        self._state.close()
        self._closed = True

    @exclusive
    def _open_stream(
        self, prompt: Prompt, params: SamplingParams | None, adapter: str | None
    ) -> str:
        self._check_no_manual_requests("stream")
        name = self.add_request(prompt, params, adapter=adapter)
        self._mailboxes[name] = []
        return name

    @exclusive
    def _next_outputs(self, name: str) -> list[StepOutput]:
        """The new outputs of a stream's request; runs steps until there are some."""
        self._check_open()
        while not self._mailboxes[name] and name in self._requests:
            self._advance()
        outputs, self._mailboxes[name] = self._mailboxes[name], []
        return outputs

    def _advance(self) -> None:
        """Run one step and keep its outputs for those who wait for them."""
        self._abort_abandoned()
        if recording.active is not self._recording:
            self._take_up_recorder(recording.active)
        recorder = self._state.recorder
        if recorder is not None:
            recorder.begin()
        self._keep(self._deliver(run_step(self._state, self._counters)))
        if recorder is not None:
            recorder.lap(recording.DELIVER)
            recorder.end_step()

    @exclusive
    def release_recorder(self) -> None:
        """End the recording of this engine; the step in flight is collected first.

        `assay.capture` calls it; a call of another thread that is under way ends first.
        """
        if self._recording is not None:
            self._take_up_recorder(None)

    def _take_up_recorder(self, recorder: recording.Recorder | None) -> None:
        """Record with another recorder, or with none, from the next step on."""
        state = self._state
        before = state.recorder
        if before is not None:
            before.begin()
        # The step in flight belongs to the recorder that saw its launch.
        self._synchronize()
        if before is not None:
            before.end_step()
        state.recorder = None
        self._recording = recorder
        if recorder is not None:
            state.recorder = recorder.attach(self)

    def _keep(self, outputs: Sequence[StepOutput]) -> None:
        for output in outputs:
            self._mailboxes.get(output.request_id, self._undelivered).append(output)

    def _abort_abandoned(self) -> None:
        """Abort the requests of streams that were left early."""
        while self._abandoned:
            self._forget(self._abandoned.popleft())

    def _forget(self, name: str) -> None:
        """Abort a request of `generate` or `stream` if it is unfinished, and drop its outputs."""
        if name in self._requests:
            self.abort(name)
        self._mailboxes.pop(name, None)

    def _deliver(self, added: Sequence[RequestChunks]) -> list[StepOutput]:
        """The outputs of a step; finished requests are removed."""
        outputs = []
        for request, chunks in added:
            name, summary = request.request_id, None
            if request.finish_reason is not None:
                del self._requests[name]
                self._state.scheduler.remove(request)
                summary = output_processor.summary(request)
            if chunks:
                outputs.append(StepOutput(name, tuple(chunks), summary, request.error))
        return outputs

    def _synchronize(self) -> None:
        """Collect the in-flight step; its outputs come with the next call of `step`."""
        step, self._state.in_flight = self._state.in_flight, None
        if step is not None:
            self._keep(self._deliver(collect_outputs(self._state, self._counters, step)))

    def _new_request(
        self,
        tokens: list[int],
        num_prompt_tokens: int,
        params: SamplingParams,
        request_id: str | None,
        priority: int,
        max_total_tokens: int,
        adapter: int,
    ) -> Request:
        """A request with a unique ID; the KV cache grows if it could not hold it."""
        self._num_requests += 1
        name = request_id or f"request-{self._num_requests}"
        if name in self._requests:
            raise InputError(f'request "{name}": expected a name that is free, got one in use')
        constraint = params.structured_output
        request = Request.of(
            name,
            self._num_requests,
            tokens,
            params,
            self.files.tokenizer,
            num_prompt_tokens=num_prompt_tokens,
            max_total_tokens=max_total_tokens,
            priority=priority,
            grammar=None if constraint is None else self.compile_grammar(constraint),
            adapter=adapter,
        )
        if self._state.can_grow(max_total_tokens):
            self._synchronize()
            self._state.grow(max_total_tokens)
        self._requests[name] = request
        return request

    def _adapter(self, name: str | None) -> int:
        """The number of an adapter in requests; 0 without one."""
        if name is None:
            return 0
        for number, adapter in enumerate(self._state.adapters, 1):
            if adapter is not None and adapter.name == name:
                return number
        raise unknown_name("adapter", name, self.adapters)

    def _active_request(self, request_id: str) -> Request:
        request = self._requests.get(request_id)
        if request is None:
            raise InputError(f'request "{request_id}": expected one under way, got none')
        return request

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("engine: expected an open engine, got one that was closed")
        if self.is_sleeping:
            raise InputError("engine: expected to be awake, got asleep", "wake_up wakes it")

    def _check_idle(self, what: str) -> None:
        """Refuse a call that needs the model alone while any request is under way."""
        self._check_no_manual_requests(what)
        if self._requests:
            raise InputError(
                f"{what}: expected no streams under way, got {len(self._requests)}",
                "read them to their end or close them",
            )

    def _check_no_manual_requests(self, what: str) -> None:
        """Refuse to run requests of `add_request` to their end inside another call."""
        self._check_open()
        # A finished request may still have output that `step` has not delivered.
        active = {*self._requests, *(output.request_id for output in self._undelivered)}
        if active := active - self._mailboxes.keys():
            raise InputError(
                f"{what}: expected no requests under way, got {len(active)}",
                "step until they are done, or add this one beside them with add_request",
            )
