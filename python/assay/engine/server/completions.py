"""/v1/completions: prompts continued as they stand, without a chat template."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.server.async_engine import Piece
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import CompletionRequest
from assay.engine.server.response_schemas import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    Usage,
)
from assay.engine.server.responses import respond
from assay.engine.server.service import Service, new_name

DEFAULT_MAX_TOKENS = 16
"""What OpenAI's endpoint generates when it is not told."""


async def complete(service: Service, body: CompletionRequest, request: Request) -> Response:
    """Answer a request for completions."""
    service.check_model(body.model)
    if body.echo and body.logprobs is not None:
        raise ApiError("echo cannot be joined with logprobs: prompts have none", param="echo")
    given = body.prompt
    texts_or_tokens = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    prompts = [
        await service.encode(one) if isinstance(one, str) else one for one in texts_or_tokens
    ]
    order = service.order(
        "text_completion",
        body,
        prompts,
        max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
        logprobs=body.logprobs,
        param="prompt",
    )
    echoes = [""] * len(order.prompts)
    if body.echo:
        texts = [
            one if isinstance(one, str) else service.model.decode(one) for one in texts_or_tokens
        ]
        echoes = [text for text in texts for _ in range(body.n or 1)]
    wording = CompletionWording(service, echoes, has_logprobs=body.logprobs is not None)
    return await respond(service, order, wording, body, request)


class CompletionWording:
    """Completions in OpenAI's words; `echoes` is what each answer starts with."""

    def __init__(self, service: Service, echoes: list[str], *, has_logprobs: bool) -> None:
        self._service = service
        self._echoes = echoes
        self._offsets = [0] * len(echoes)
        self._has_logprobs = has_logprobs
        self._name = new_name("cmpl")
        self._created = int(time.time())

    def chunks(self, index: int, piece: Piece) -> Iterator[Completion]:
        """One event for each piece."""
        yield self._answer([self._choice(index, piece)])

    def closing(self, usage: Usage) -> Completion:
        """An event without choices."""
        return self._answer([], usage)

    def whole(self, answers: Sequence[Piece], usage: Usage) -> Completion:
        """Every choice and the usage."""
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return self._answer(choices, usage)

    def _answer(self, choices: list[CompletionChoice], usage: Usage | None = None) -> Completion:
        return Completion(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=choices,
            usage=usage,
        )

    def _choice(self, index: int, piece: Piece) -> CompletionChoice:
        text = self._echoes[index] + piece.text
        self._echoes[index] = ""
        return CompletionChoice(
            index=index,
            text=text,
            logprobs=self._logprobs(index, piece) if self._has_logprobs else None,
            finish_reason=piece.finish_reason,
        )

    def _logprobs(self, index: int, piece: Piece) -> CompletionLogprobs:
        told = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
        for token, logprob, top in piece.logprobs:
            text = self._text(token)
            told.tokens.append(text)
            told.token_logprobs.append(logprob)
            told.top_logprobs.append({self._text(other): value for other, value in top})
            told.text_offset.append(self._offsets[index])
            self._offsets[index] += len(text)
        return told

    def _text(self, token: int) -> str:
        """A token's text; part of a character is written as its bytes, as OpenAI does."""
        piece = self._service.model.token_bytes(token)
        try:
            return piece.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
