"""A fake engine with the protocol of the real one and predictable outputs.

A token is a byte. The output is the prompt in upper case, repeated; it ends at `max_tokens`, at a
stop string, or with the token END where the prompt has a full stop. KV blocks are counted as in
the real engine, so that a leak shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.engine.core.probing import PromptLogprobs
from assay.engine.requests.outputs import Chunk, FinishReason, StepOutput, Summary, Timing
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.server import LoadedEngine, ModelFacts, ServedModel
from assay.errors import InputError

END = 256
VOCABULARY = 257
CONTEXT = 512
BLOCK_TOKENS = 16
LOGPROB = -0.25
CACHED = 2


def expected_text(prompt: str, tokens: int) -> str:
    """The first characters of the output for a prompt without a full stop."""
    return (prompt.upper() * (tokens // len(prompt) + 1))[:tokens]


@dataclass
class _Request:
    name: str
    prompt: list[int]
    params: SamplingParams
    script: bytes | None = None
    blocks: int = 0
    tokens: list[int] = field(default_factory=list)

    def next_token(self) -> int:
        index = len(self.tokens)
        if self.script is not None:
            return self.script[index] if index < len(self.script) else END
        if (
            not self.params.ignore_eos
            and index < len(self.prompt)
            and self.prompt[index] == ord(".")
        ):
            return END
        return ord(chr(self.prompt[index % len(self.prompt)]).upper()) % 256


class FakeEngine:
    """Steps that take `step_seconds`, at most `batch` requests at once, `blocks` of KV cache."""

    def __init__(
        self,
        *,
        blocks: int = 256,
        batch: int = 64,
        step_seconds: float = 0.0,
        script: str | None = None,
    ) -> None:
        """With a `script` every output is that text."""
        self.script = None if script is None else script.encode("latin-1")
        self.blocks = self.free = blocks
        self.batch = batch
        self.step_seconds = step_seconds
        self.fails_at_step: int | None = None
        self.steps = self.aborted = 0
        self.closed = False
        self.resets = 0
        self.adapters: dict[str, Path] = {}
        self.asleep = False
        self.wake_error: Exception | None = None
        self._waiting: dict[str, _Request] = {}
        self._running: dict[str, _Request] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add_request(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        request_id: str | None = None,
        priority: int = 0,
        adapter: str | None = None,
    ) -> str:
        name = request_id or f"unnamed-{len(self._waiting)}"
        if name in self._waiting or name in self._running:
            raise InputError(f'the request "{name}" is under way already')
        if bytes(prompt[:7]) == b"refused":
            raise InputError("this prompt is refused", "try another")
        self._waiting[name] = _Request(name, list(prompt), params, self.script)
        return name

    def step(self) -> list[StepOutput]:
        self.steps += 1
        if self.steps == self.fails_at_step:
            raise RuntimeError("the test said so")
        if self.step_seconds:
            time.sleep(self.step_seconds)
        self._admit()
        return [self._advance(request) for request in list(self._running.values())]

    def abort(self, request_id: str) -> None:
        request = self._waiting.pop(request_id, None) or self._running.pop(request_id)
        self.free += request.blocks
        self.aborted += 1

    def score(
        self, prompt: Sequence[int], top: int = 0, adapter: str | None = None
    ) -> PromptLogprobs:
        alternatives = [
            tuple((token, LOGPROB) for token in prompt[at : at + top]) for at in range(len(prompt))
        ]
        count = len(prompt) - 1
        return PromptLogprobs([None, *[LOGPROB] * count], alternatives, [None, *[1] * count])

    def embed(self, prompt: Sequence[int], adapter: str | None = None) -> list[float]:
        return [3.0 * len(prompt), 4.0 * len(prompt)]

    def describe(self) -> dict[str, object]:
        settings = {"max_batch": self.batch, "deterministic": True}
        return {
            "model": "fake", "weights": None, "weight_format": "f32", "device": "cpu",
            "synthetic": True, "settings": settings,
        }  # fmt: skip

    def reset_prefix_cache(self) -> int:
        self.resets += 1
        return 0

    def load_adapter(self, name: str, folder: Path) -> None:
        self.adapters[name] = folder

    def unload_adapter(self, name: str) -> None:
        del self.adapters[name]

    def sleep(self) -> None:
        assert not self.has_work
        self.asleep = True

    def wake_up(self) -> None:
        if self.wake_error is not None:
            raise self.wake_error
        self.asleep = False

    def statistics(self) -> dict[str, int]:
        return {
            "running": len(self._running),
            "waiting": len(self._waiting),
            "blocks": self.blocks,
            "used": self.blocks - self.free,
            "preemptions": 0,
            "asleep": int(self.asleep),
            "queried_tokens": 0,
            "hit_tokens": 0,
            "drafts": 0,
            "drafted_tokens": 0,
            "accepted_tokens": 0,
        }

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True

    def _admit(self) -> None:
        for name, request in list(self._waiting.items()):
            needed = -(
                -(len(request.prompt) + (request.params.max_tokens or CONTEXT)) // BLOCK_TOKENS
            )
            if len(self._running) == self.batch or needed > self.free:
                return
            self.free -= needed
            request.blocks = needed
            self._running[name] = self._waiting.pop(name)

    def _advance(self, request: _Request) -> StepOutput:
        token = request.next_token()
        request.tokens.append(token)
        params = request.params
        text = "" if token == END else chr(token)
        so_far = bytes(t for t in request.tokens if t != END).decode("latin-1")
        reason: FinishReason | None = None
        if len(request.tokens) == params.max_tokens:
            reason = "length"
        if token == END or any(so_far.endswith(stop) for stop in params.stop):
            reason, text = "stop", ""
        if reason:
            self.free += self._running.pop(request.name).blocks
        top = tuple((token + i, LOGPROB - i) for i in range(params.logprobs or 0))
        logprob = None if params.logprobs is None else LOGPROB
        summary = None
        if reason:
            counts = (len(request.prompt), len(request.tokens), CACHED, 0)
            summary = Summary(*counts, Timing(queued=0.0, first_token=0.0, total=0.0))
        return StepOutput(request.name, (Chunk(text, token, logprob, top, reason),), summary)


def fake_model(*, with_template: bool = True) -> ServedModel:
    """The served model of the fake engine."""

    def token_bytes(token: int) -> bytes:
        return bytes([token]) if token < END else b""

    def encode(text: str) -> list[int]:
        return list(text.encode())

    return ServedModel(
        name="fake",
        context_limit=CONTEXT,
        vocabulary=VOCABULARY,
        encode=encode,
        encode_rendered=encode,
        token_bytes=token_bytes,
        decode=lambda tokens: b"".join(map(token_bytes, tokens)).decode("utf-8", "replace"),
        render_chat=(lambda messages, **_: "|".join(m["content"] for m in messages))
        if with_template
        else None,
        created=1,
    )


class FakeSource:
    """The fake model, as the process of HTTP opens it."""

    def open(self) -> Callable[[ModelFacts], ServedModel]:
        return lambda facts: fake_model()

    def of_engine(self, loaded: LoadedEngine) -> ServedModel:
        return fake_model()
