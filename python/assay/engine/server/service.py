"""What the routes share: a model behind its engine, and generation requests from bodies."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from assay.engine.core.probing import PromptLogprobs
from assay.engine.requests.grammar_vetting import GrammarVetting
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.requests.structured_output import StructuredOutput
from assay.engine.server.async_engine import AsyncEngine
from assay.engine.server.errors import ApiError
from assay.engine.server.output_stream import OutputStream
from assay.engine.server.request_schemas import Inputs, Sampling
from assay.engine.server.served_model import ServedModel

T = TypeVar("T")

INLINE_CHARACTERS: Final = 4096
"""Characters that are tokenized within a millisecond or two."""


@dataclass(frozen=True)
class GenerationRequest:
    """Prompts with their sampling parameters, ready for the engine."""

    operation: str
    prompts: Sequence[Sequence[int]]
    params: Sequence[SamplingParams]
    prompt_tokens: int
    """For the usage: each prompt counts once, however many choices it has."""
    choices_per_prompt: int
    priority: int = 0
    """A lower one runs first, where the engine schedules by priority."""


class Service:
    """One model behind one engine."""

    def __init__(
        self, model: ServedModel, async_engine: AsyncEngine, vetting: GrammarVetting | None = None
    ) -> None:
        self.model = model
        self.async_engine = async_engine
        self._vetting = vetting or GrammarVetting()

    def of_adapter(self, model: ServedModel) -> Service:
        """The same engine under the name of an adapter."""
        return Service(model, self.async_engine, self._vetting)

    def close(self) -> None:
        """End what the service has started besides the engine."""
        self._vetting.close()

    def open(self, request: GenerationRequest) -> OutputStream:
        """Submit a generation request to the engine."""
        return self.async_engine.open(
            request.operation,
            request.prompts,
            request.params,
            request.choices_per_prompt,
            self.model.adapter,
            request.priority,
        )

    async def score(self, prompt: Sequence[int], top: int) -> PromptLogprobs:
        """The log-probability of each token of a prompt."""
        self.check_generates()
        return await self.async_engine.score(prompt, top, self.model.adapter)

    async def embed(self, prompts: Sequence[Sequence[int]]) -> list[Sequence[float]]:
        """The embeddings of prompts: by an encoder together, else one after the other."""
        if self.model.is_encoder:
            return await self.async_engine.embed_batch(prompts)
        return [await self.async_engine.embed(prompt, self.model.adapter) for prompt in prompts]

    def check_generates(self) -> None:
        """Refuse to generate with an encoder."""
        if self.model.is_encoder:
            raise ApiError(
                f'the model "{self.model.name}" is an encoder: use /v1/embeddings',
                param="model",
                code="unsupported_model",
            )

    async def encode(self, text: str) -> Sequence[int]:
        """Tokenize a prompt; a long one in a thread, off the event loop."""
        return await run_off_loop(len(text), self.model.encode, text)

    async def prompts(self, given: Inputs) -> list[Sequence[int]]:
        """The token IDs of one input or of several, as texts or as token IDs."""
        inputs = [given] if isinstance(given, str) or isinstance(given[0], int) else given
        return [await self.encode(one) if isinstance(one, str) else one for one in inputs]

    def render(self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
        """A conversation as the model's chat template renders it."""
        self.check_generates()
        if self.model.render_chat is None:
            raise ApiError(
                f'the model "{self.model.name}" has no chat template: use /v1/completions',
                param="messages",
                code="no_chat_template",
            )
        return self.model.render_chat(messages, **variables)

    async def compile_grammar(self, constraint: StructuredOutput | None) -> None:
        """Compile what an output must look like, if it has to, off the event loop."""
        if constraint is None:
            return
        if not self.model.can_constrain:
            raise ApiError(
                f'the model "{self.model.name}" is served without structured output',
                param="response_format",
                code="unsupported_parameter",
            )
        await asyncio.to_thread(self._vetting.check, constraint)
        await self.async_engine.compile_grammar(constraint)

    def generation_request(
        self,
        operation: str,
        body: Sampling,
        prompts: Sequence[Sequence[int]],
        *,
        constraint: StructuredOutput | None = None,
        show_special: bool = False,
        max_tokens: int | None,
        logprobs: int | None,
        param: str,
    ) -> GenerationRequest:
        """A generation request for these prompts, with `n` choices each.

        Without `max_tokens` a choice may use the rest of the context. `show_special` keeps special
        tokens in the text, unless the request says otherwise.
        """
        self.check_generates()
        if body.skip_special_tokens is not None:
            show_special = not body.skip_special_tokens
        choices = body.n or 1
        most = self.async_engine.worker.limits.requests
        if most is not None and choices * len(prompts) > most:
            # Status 429 would ask the client to try again, which cannot succeed.
            raise ApiError(
                f"{choices * len(prompts)} choices in one request: this server accepts at most "
                f"{most} at once",
                param="n" if choices > 1 else param,
                code="too_many_choices",
            )
        self._check_bias(body)
        repeated: list[Sequence[int]] = []
        params: list[SamplingParams] = []
        for prompt in prompts:
            limit = self._max_tokens(prompt, max_tokens, param)
            for _ in range(choices):
                repeated.append(prompt)
                one = sampling_params(
                    body, limit, logprobs, len(params), constraint, self.model.sampling
                )
                params.append(replace(one, skip_special_tokens=not show_special))
        prompt_tokens = sum(map(len, prompts))
        self._check_priority(body.priority)
        return GenerationRequest(
            operation, repeated, params, prompt_tokens, choices, body.priority or 0
        )

    def _check_priority(self, priority: int | None) -> None:
        """Refuse a priority that the engine would not follow."""
        if priority and not self.model.by_priority:
            raise ApiError(
                "priority: expected a server that schedules by priority: start it with "
                "--knob policy=priority",
                param="priority",
                code="unsupported_parameter",
            )

    def _check_bias(self, body: Sampling) -> None:
        """Refuse a bias for a token that the model does not have."""
        self.check_tokens([int(token) for token in body.logit_bias or ()], "logit_bias")

    def check_tokens(self, tokens: Sequence[int], param: str) -> None:
        """Refuse tokens that the model does not have."""
        if (wrong := max(tokens, default=0)) >= self.model.vocabulary:
            raise ApiError(
                f"token {wrong} is not in the vocabulary of {self.model.vocabulary} tokens",
                param=param,
            )

    def check_prompt(self, prompt: Sequence[int], requested: int, param: str) -> None:
        """Refuse a prompt that does not fit into the context with the tokens to generate."""
        limit = self.model.context_limit
        if not prompt:
            raise ApiError("the prompt is empty: at least one token is needed", param=param)
        self.check_tokens(prompt, param)
        if len(prompt) + requested > limit:
            raise ApiError(
                f"this model's context is {limit} tokens: {len(prompt)} in the prompt and "
                f"{requested} to generate do not fit",
                param=param,
                code="context_length_exceeded",
            )

    def _max_tokens(self, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
        """Tokens that may follow the prompt; raises if it does not fit into the context."""
        self.check_prompt(prompt, max_tokens or 1, param)
        return max_tokens or self.model.context_limit - len(prompt)


def sampling_params(
    body: Sampling,
    max_tokens: int,
    logprobs: int | None,
    index: int,
    constraint: StructuredOutput | None = None,
    stated: Mapping[str, float] | None = None,
) -> SamplingParams:
    """The engine's parameters for choice `index` of a request, then those that a checkpoint states."""
    return SamplingParams.with_defaults(
        stated or {},
        max_tokens=max_tokens,
        temperature=body.temperature,
        top_k=None if body.top_k is None else max(body.top_k, 0),
        top_p=body.top_p,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        min_tokens=body.min_tokens,
        bad_words=body.bad_words,
        # Choices of one prompt differ only in their seed.
        seed=None if body.seed is None else (body.seed + index) % 2**63,
        logprobs=logprobs,
        logit_bias={int(token): bias for token, bias in (body.logit_bias or {}).items()},
        structured_output=constraint,
        stop=body.stops(),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
    )


async def run_off_loop(characters: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function whose time grows with the characters; for long texts in a thread.

    Other clients wait while the event loop works; a short text takes less time than a thread.
    """
    if characters < INLINE_CHARACTERS:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def new_response_id(kind: str) -> str:
    """A unique ID of a response."""
    return f"{kind}-{uuid.uuid4().hex}"
