"""The engine: requests in, tokens out, one step at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.engine import finishing
from assay.engine.knobs import AS_STORED, KNOBS, Knob, Settings, Undo
from assay.engine.kv_memory import KvMemory, KvSnapshot
from assay.engine.loading import ModelFiles, open_model
from assay.engine.models import Model, build_model
from assay.engine.outputs import Chunk, Completion, StepOutput
from assay.engine.params import SamplingParams
from assay.engine.request import Request
from assay.engine.runner import Runner
from assay.engine.scheduling import Batcher, Turn
from assay.engine.speculation import PromptLookup
from assay.engine.stopping import StopTexts
from assay.errors import InputError
from assay.runtime import Device
from assay.runtime import device as device_named
from assay.runtime.graphs import Graph

Prompt = str | Sequence[int]


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
        self.settings = settings
        self._prefix_caching = prefix_caching
        self._kv_tokens = kv_tokens
        self._requests: dict[str, Request] = {}
        self._numbers = 0
        self._counts = dict.fromkeys(
            ("steps", "prompt_tokens", "generated_tokens", "drafted_tokens", "accepted_tokens"), 0
        )
        self._closed = False
        self.model = self._build_model()
        self._kv = self._build_cache()
        self._batcher = self._build_batcher()
        self._runner = self._build_runner()

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

        `kv_tokens` is how many tokens the KV cache holds, by default the model's whole context
        once; the other options are the knobs (`knobs()`), and can be changed later.
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

    # Requests

    @property
    def context_limit(self) -> int:
        """Tokens that a prompt and its output may have together."""
        return min(self.model.shape.context, self._kv.capacity)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._requests)

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
        tokens = self._tokens(prompt)
        most = self._most_tokens(tokens, params)
        self._numbers += 1
        name = request_id or f"request-{self._numbers}"
        if name in self._requests:
            raise InputError(f'request "{name}": expected a name that is free, got one in use')
        tokenizer = self.files.tokenizer
        ends = () if params.ignore_eos else tokenizer.stop_ids
        request = Request(
            request_id=name,
            tokens=tokens,
            prompt_tokens=len(tokens),
            params=params,
            seed=random.getrandbits(63) if params.seed is None else params.seed,
            priority=priority,
            number=self._numbers,
            most_tokens=most,
            end_tokens=frozenset((*ends, *params.stop_token_ids)),
            text=tokenizer.detokenizer(),
            stops=StopTexts(params.stop),
            arrived=time.perf_counter(),
        )
        self._prepare_guesses(request)
        self._requests[name] = request
        self._batcher.add(request)
        return name

    def abort(self, request_id: str) -> StepOutput:
        """End a request now and give its blocks back."""
        request = self._requests.pop(request_id, None)
        if request is None:
            raise InputError(f'request "{request_id}": expected one under way, got none')
        self._batcher.remove(request)
        chunk = finishing.abort(request)
        return StepOutput(request_id, (chunk,), finishing.summary(request))

    def step(self) -> list[StepOutput]:
        """Compute once for everything that runs, and return what it added to each request."""
        self._check_open()
        turns = self._batcher.schedule()
        if not turns:
            return []
        for turn in turns:
            if turn.copy is not None:
                self._kv.copy_block(*turn.copy)
        wanted = [turn.request.params.logprobs for turn in turns if turn.samples]
        chances_wanted = any(count is not None for count in wanted)
        tokens, chances = self._runner.run(turns, logprobs=chances_wanted)
        top = self._top_logprobs(turns) if any(wanted) else None
        self._counts["steps"] += 1
        outputs = []
        row = 0
        for turn in turns:
            rows = range(row, row + turn.samples)
            row += turn.samples
            output = self._advance(turn, rows, tokens, chances, top)
            if output is not None:
                outputs.append(output)
        return outputs

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[Completion]:
        """Complete prompts together, and return when all are done."""
        self._check_idle("generate")
        listed = _listed(prompts)
        each = [params or SamplingParams()] * len(listed)
        if params is not None and not isinstance(params, SamplingParams):
            each = list(params)
        if len(each) != len(listed):
            raise InputError(
                f"params: expected one for each of {len(listed)} prompts, got {len(each)}"
            )
        names: list[str] = []
        try:
            for prompt, chosen in zip(listed, each, strict=True):
                names.append(self.add_request(prompt, chosen))  # type: ignore[arg-type]
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
        return [
            _completion(ends[name], chunks[name], chosen.logprobs is not None)  # type: ignore[union-attr]
            for name, chosen in zip(names, each, strict=True)
        ]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Chunk]:
        """Complete one prompt, token by token; leaving the loop early ends the request."""
        self._check_idle("stream")
        name = self.add_request(prompt, params)
        try:
            while name in self._requests:
                for output in self.step():
                    yield from output.chunks
        finally:
            if name in self._requests:
                self.abort(name)

    def logits(self, prompt: Prompt) -> npt.NDArray[np.float32]:
        """The logits after each token of a prompt, computed afresh: tokens by vocabulary."""
        self._check_idle("logits")
        tokens = self._tokens(prompt)
        self._most_tokens(tokens, SamplingParams(max_tokens=1))
        most = self._runner.workspace.most.samples
        request = Request.probe(tokens)
        books = self._kv.books
        # Nothing may be found in the cache: every row is wanted.
        request.sequence, _ = books.open([], len(tokens))
        parts = []
        try:
            while request.computed < len(tokens):
                count = min(most, request.remaining, self.settings.token_budget)
                self._runner.run([Turn(request, count, count)])
                parts.append(self._runner.logits(count))
                books.commit(request.sequence, tokens[request.computed : request.computed + count])
                request.computed += count
        finally:
            books.close(request.sequence)
        return np.concatenate(parts)

    # Knobs

    def knobs(self) -> list[Knob]:
        """What can be changed while the engine runs."""
        return list(KNOBS.values())

    def configure(self, changes: Mapping[str, Any]) -> Undo:
        """Change knobs; requests that run go on and give what they would have given."""
        self._check_open()
        before = self.settings
        after = before.changed(changes)
        changed = {
            name for name, value in after.as_dict().items() if before.as_dict()[name] != value
        }
        self.settings = after
        try:
            self._rebuild({KNOBS[name].rebuilds for name in changed})
        except BaseException:
            self.settings = before
            self._rebuild({KNOBS[name].rebuilds for name in changed})
            raise
        return Undo(self.configure, {name: before.as_dict()[name] for name in changes})

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
            "kv_bytes": self._kv.memory.nbytes,
            "notes": [*self.files.notes, *self.model.notes],
            "settings": self.settings.as_dict(),
        }

    def statistics(self) -> dict[str, int]:
        """Counts of requests, tokens and blocks."""
        return {
            "running": len(self._batcher.running),
            "waiting": len(self._batcher.waiting),
            "preemptions": self._batcher.preemptions,
            **self._counts,
            **self._kv.books.statistics(),
        }

    def decode_graph(self, sequences: int) -> Graph:
        """The graph of a decoding step: its nodes are the model's operations, by name."""
        self._check_open()
        return self._runner.graph(sequences)

    def snapshot_kv_cache(self) -> KvSnapshot:
        """The blocks that later prompts can find, with their keys and values."""
        self._check_open()
        return self._kv.snapshot()

    def restore_kv_cache(self, snapshot: KvSnapshot) -> int:
        """Put the blocks of a snapshot back; returns how many tokens can be found again."""
        self._check_open()
        return self._kv.restore(snapshot)

    def close(self) -> None:
        """End all requests and give the memory back; the weights stay for other engines."""
        if self._closed:
            return
        for name in tuple(self._requests):
            self.abort(name)
        self._runner.close()
        self._kv.free()
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

    # Inside

    def _advance(
        self,
        turn: Turn,
        rows: range,
        tokens: list[int],
        chances: list[float] | None,
        top: list[tuple[tuple[int, float], ...]] | None,
    ) -> StepOutput | None:
        """Note what a turn computed, and take the tokens that it chose."""
        request = turn.request
        if request.first_step is None:
            request.first_step = time.perf_counter()
        before = len(request.tokens)
        wants = request.params.logprobs
        chunks: list[Chunk] = []
        for index, row in enumerate(rows):
            chance = chances[row] if chances is not None and wants is not None else None
            best = top[row][:wants] if top is not None and wants else ()
            chunks.append(finishing.take(request, tokens[row], chance, best))
            # What follows a guess that was wrong was computed for another text.
            guessed = request.drafts[index] if index < len(request.drafts) else None
            if guessed != tokens[row] or chunks[-1].finish_reason is not None:
                break
        computed = turn.count - max(len(rows) - len(chunks), 0)
        self._note(turn, before, len(chunks), computed)
        if not chunks:
            return None
        if request.finish_reason is None:
            return StepOutput(request.request_id, tuple(chunks))
        del self._requests[request.request_id]
        self._batcher.remove(request)
        return StepOutput(request.request_id, tuple(chunks), finishing.summary(request))

    def _note(self, turn: Turn, before: int, taken: int, computed: int) -> None:
        """Commit what was computed to the cache's books."""
        request = turn.request
        first = request.computed
        known = request.tokens[first:before] + request.drafts
        if request.sequence is not None:
            self._kv.books.commit(request.sequence, known[:computed])
        request.computed += computed
        counts = self._counts
        counts["prompt_tokens"] += max(min(request.computed, request.prompt_tokens) - first, 0)
        counts["generated_tokens"] += taken
        counts["drafted_tokens"] += len(request.drafts)
        counts["accepted_tokens"] += max(taken - 1, 0)
        request.drafts = []

    def _top_logprobs(self, turns: Sequence[Turn]) -> list[tuple[tuple[int, float], ...]]:
        """The likeliest tokens of every sampled row, as many as any request asks for."""
        logits = self._runner.logits(sum(turn.samples for turn in turns)).astype(np.float64)
        count = max(turn.request.params.logprobs or 0 for turn in turns)
        shifted = logits - logits.max(axis=1, keepdims=True)
        chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        best = np.argsort(-chances, axis=1, kind="stable")[:, :count]
        return [
            tuple((int(token), float(chances[row, token])) for token in best[row])
            for row in range(len(best))
        ]

    def _tokens(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            tokens = self.files.tokenizer.encode(prompt)
        else:
            tokens = list(prompt)
            vocabulary = self.model.shape.vocabulary
            for token in tokens:
                if isinstance(token, bool) or not isinstance(token, int | np.integer):
                    raise InputError(f"prompt: expected a text or token numbers, got {token!r}")
                if not 0 <= token < vocabulary:
                    raise InputError(
                        f"prompt: expected tokens from 0 to {vocabulary - 1}, got {token}"
                    )
        if not tokens:
            raise InputError("prompt: expected at least one token, got none")
        return tokens

    def _most_tokens(self, tokens: Sequence[int], params: SamplingParams) -> int:
        """The length at which a request ends, if it fits at all."""
        limit = self.context_limit
        wanted = len(tokens) + (1 if params.max_tokens is None else params.max_tokens)
        if wanted > limit:
            model = self.model.shape.context
            what = "the model's context" if limit == model else "the KV cache"
            more = "" if params.max_tokens is None else f" and max_tokens {params.max_tokens}"
            raise InputError(
                f"prompt: expected at most {limit} tokens with the output, the limit of {what}, "
                f"got {len(tokens)} in the prompt{more}",
                "shorten the prompt or ask for fewer tokens"
                if limit == model
                else "shorten the prompt, ask for fewer tokens, or load with a larger kv_tokens",
            )
        return limit if params.max_tokens is None else wanted

    def _prepare_guesses(self, request: Request) -> None:
        # Penalties change logits with each token of the output, guessed ones included.
        if self.settings.speculation_depth and not request.params.penalized:
            if request.lookup is None:
                request.lookup = PromptLookup(request.tokens)
        else:
            request.lookup = None

    def _build_model(self) -> Model:
        chosen = self.settings.weight_format
        return build_model(self.files, self.device, None if chosen == AS_STORED else chosen)

    def _build_cache(self) -> KvMemory:
        tokens = self.model.shape.context if self._kv_tokens is None else self._kv_tokens
        size = self.settings.block_tokens
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < size:
            raise InputError(f"kv_tokens: expected at least one block of {size}, got {tokens!r}")
        return KvMemory(
            self.device,
            self.model.shape,
            blocks=-(-tokens // size),
            block_tokens=size,
            format=self.settings.kv_format,
            prefix_caching=self._prefix_caching,
            owner=(self.files.name, self.files.nbytes, self.model.weight_format),
        )

    def _build_batcher(self) -> Batcher:
        settings = self.settings
        return Batcher(
            self._kv.books,
            max_batch=settings.max_batch,
            token_budget=settings.token_budget,
            policy=settings.policy,
            speculation=settings.speculation_depth,
        )

    def _build_runner(self) -> Runner:
        settings = self.settings
        samples = settings.max_batch * (1 + settings.speculation_depth)
        return Runner(
            self.model,
            self.device,
            self._kv,
            rows=settings.token_budget,
            sequences=settings.max_batch,
            samples=min(samples, settings.token_budget),
            context=self.context_limit,
            invariant=settings.deterministic,
        )

    def _rebuild(self, parts: set[str]) -> None:
        """Make anew what changed knobs touch; requests that ran are put back in line."""
        batcher = self._batcher
        if parts & {"cache", "weights"}:
            batcher.preempt_all()
            self._runner.close()
            self._kv.free()
            if "weights" in parts:
                self.model = self._build_model()
            self._kv = self._build_cache()
        elif "graphs" in parts:
            self._runner.close()
        made = self._build_batcher()
        made.preemptions = batcher.preemptions
        made.running = batcher.running
        for request in batcher.waiting:
            made.add(request)
        while len(made.running) > made.max_batch:
            made.preempt(made.running[-1])
        self._batcher = made
        for request in self._requests.values():
            self._prepare_guesses(request)
        if parts & {"cache", "weights", "graphs"}:
            self._runner = self._build_runner()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("engine: expected an open engine, got one that was closed")

    def _check_idle(self, what: str) -> None:
        self._check_open()
        if self._requests:
            raise InputError(
                f"{what}: expected no requests under way, got {len(self._requests)}",
                "step until they are done, or add this one beside them with add_request",
            )


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Prompts as a list; one prompt is a list of one."""
    if isinstance(prompts, str):
        return [prompts]
    listed = list(prompts)
    if listed and all(isinstance(item, int | np.integer) for item in listed):
        return [listed]  # type: ignore[list-item]
    return listed  # type: ignore[return-value]


def _completion(end: StepOutput, chunks: list[Chunk], logprobs: bool) -> Completion:
    summary, reason = end.summary, end.finish_reason
    assert summary is not None
    assert reason is not None
    return Completion(
        request_id=end.request_id,
        text="".join(chunk.text for chunk in chunks),
        token_ids=tuple(chunk.token_id for chunk in chunks if chunk.token_id is not None),
        finish_reason=reason,
        prompt_tokens=summary.prompt_tokens,
        cached_tokens=summary.cached_tokens,
        logprobs=tuple(chunks) if logprobs else None,
        timing=summary.timing,
    )
