"""What the routes share: the model that is served, its limits, and requests made from bodies."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assay.engine.core.sampling_params import SamplingParams
from assay.engine.server.async_engine import Exchange, Frontend
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import Sampling

if TYPE_CHECKING:
    from assay.engine import Engine

T = TypeVar("T")

SHORT: Final = 4096
"""Characters that become tokens within a millisecond or two."""


@dataclass(frozen=True)
class ServedModel:
    """A model as the server sees it: a name, its limits, and its text as tokens."""

    name: str
    context_limit: int
    vocabulary: int
    encode: Callable[[str], Sequence[int]]
    """A prompt's tokens; the file's rule decides on a first token."""
    encode_rendered: Callable[[str], Sequence[int]]
    """Tokens of what a chat template made, in which special tokens stand written out."""
    token_bytes: Callable[[int], bytes]
    decode: Callable[[Sequence[int]], str]
    render_chat: Callable[[Sequence[Mapping[str, str]]], str] | None
    """Messages through the model's chat template; None if it has none."""
    created: int = field(default_factory=lambda: int(time.time()))


def served_model(engine: Engine, name: str) -> ServedModel:
    """An engine's model, under the name that clients are to use."""
    tokenizer, template = engine.files.tokenizer, engine.files.chat_template
    # Many prompts will come: the first should not wait for it.
    tokenizer.build()
    return ServedModel(
        name=name,
        context_limit=engine.context_limit,
        vocabulary=engine.model.shape.vocabulary,
        encode=tokenizer.encode,
        encode_rendered=partial(tokenizer.encode, add_special=False),
        token_bytes=tokenizer.piece,
        decode=tokenizer.decode,
        render_chat=None if template is None else template.render,
    )


@dataclass(frozen=True)
class Order:
    """Prompts and how each is to be answered, ready for the engine."""

    operation: str
    prompts: Sequence[Sequence[int]]
    params: Sequence[SamplingParams]
    prompt_tokens: int
    """To account for: each prompt once, however many answers it gets."""
    answers: int
    """Answers to each prompt."""


class Service:
    """One model behind one engine."""

    def __init__(self, model: ServedModel, frontend: Frontend) -> None:
        self.model = model
        self.frontend = frontend

    def open(self, order: Order) -> Exchange:
        """Put an order before the engine."""
        return self.frontend.open(order.operation, order.prompts, order.params)

    def check_model(self, name: str) -> None:
        """Refuse a model that is not served."""
        if name != self.model.name:
            raise ApiError(
                f'the model "{name}" is not served here; "{self.model.name}" is',
                status=404,
                param="model",
                code="model_not_found",
            )

    async def encode(self, text: str) -> Sequence[int]:
        """A prompt's tokens, made beside the loop if it is long."""
        return await beside_loop(len(text), self.model.encode, text)

    def order(
        self,
        operation: str,
        body: Sampling,
        prompts: Sequence[Sequence[int]],
        *,
        max_tokens: int | None,
        logprobs: int | None,
        param: str,
    ) -> Order:
        """An order for these prompts, each answered `n` times.

        No `max_tokens` means as many as the context has room for.
        """
        answers = body.n or 1
        every: list[Sequence[int]] = []
        params: list[SamplingParams] = []
        for prompt in prompts:
            room = self._room(prompt, max_tokens, param)
            for _ in range(answers):
                every.append(prompt)
                params.append(sampling(body, room, logprobs, len(params)))
        return Order(operation, every, params, sum(map(len, prompts)), answers)

    def _room(self, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
        """Tokens that may follow the prompt, or a refusal that names the limit."""
        limit = self.model.context_limit
        if not prompt:
            raise ApiError("the prompt is empty: at least one token is needed", param=param)
        if wrong := next((i for i in prompt if i >= self.model.vocabulary), None):
            raise ApiError(
                f"token {wrong} is not in the vocabulary of {self.model.vocabulary} tokens",
                param=param,
            )
        wanted = max_tokens or 1
        if len(prompt) + wanted > limit:
            raise ApiError(
                f"this model's context is {limit} tokens: {len(prompt)} in the prompt and "
                f"{wanted} to generate do not fit",
                param=param,
                code="context_length_exceeded",
            )
        return max_tokens or limit - len(prompt)


def sampling(body: Sampling, max_tokens: int, logprobs: int | None, number: int) -> SamplingParams:
    """The engine's parameters for answer `number` of a request."""

    def given(value: T | None, default: T) -> T:
        return default if value is None else value

    return SamplingParams(
        max_tokens=max_tokens,
        temperature=given(body.temperature, 1.0),
        top_k=max(given(body.top_k, 0), 0),
        top_p=given(body.top_p, 1.0),
        min_p=given(body.min_p, 0.0),
        repetition_penalty=given(body.repetition_penalty, 1.0),
        presence_penalty=given(body.presence_penalty, 0.0),
        frequency_penalty=given(body.frequency_penalty, 0.0),
        # Answers to one prompt differ only in their seed.
        seed=None if body.seed is None else (body.seed + number) % 2**63,
        logprobs=logprobs,
        stop=body.stops(),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
    )


async def beside_loop(characters: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that takes longer the more characters there are.

    Other clients wait while the loop works; a short text is done before a thread would start.
    """
    if characters < SHORT:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def new_name(kind: str) -> str:
    """A name for an answer."""
    return f"{kind}-{uuid.uuid4().hex}"
