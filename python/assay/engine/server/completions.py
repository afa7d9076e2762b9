"""/v1/completions: prompts completed without a chat template."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.server.async_engine import OutputDelta
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import CompletionRequest
from assay.engine.server.response_schemas import (
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    Usage,
)
from assay.engine.server.responses import respond
from assay.engine.server.service import Service, new_response_id
from assay.engine.server.structured_outputs import structured_output_of

DEFAULT_MAX_TOKENS = 16
"""OpenAI's default for this endpoint."""


async def complete(service: Service, body: CompletionRequest, request: Request) -> Response:
    """Respond to a completion request."""
    service.check_model(body.model)
    if body.echo and body.logprobs is not None:
        raise ApiError("echo cannot be joined with logprobs: prompts have none", param="echo")
    given = body.prompt
    texts_or_tokens = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    prompts = [
        await service.encode(one) if isinstance(one, str) else one for one in texts_or_tokens
    ]
    constraint = structured_output_of(body)
    await service.compile_grammar(constraint)
    generation = service.generation_request(
        "text_completion",
        body,
        prompts,
        constraint=constraint,
        max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
        logprobs=body.logprobs,
        param="prompt",
    )
    echoes = [""] * len(generation.prompts)
    if body.echo:
        texts = [
            one if isinstance(one, str) else service.model.decode(one) for one in texts_or_tokens
        ]
        echoes = [text for text in texts for _ in range(body.n or 1)]
    formatter = CompletionFormatter(service, echoes, has_logprobs=body.logprobs is not None)
    return await respond(service, generation, formatter, body, request)


class CompletionFormatter:
    """Formats completions as OpenAI's API does; `echoes` are the prompts that choices start with."""

    def __init__(self, service: Service, echoes: list[str], *, has_logprobs: bool) -> None:
        self._service = service
        self._echoes = echoes
        self._offsets = [0] * len(echoes)
        self._has_logprobs = has_logprobs
        self._name = new_response_id("cmpl")
        self._created = int(time.time())

    def chunks(self, index: int, delta: OutputDelta) -> Iterator[Completion]:
        """One event for each delta."""
        yield self._response([self._choice(index, delta)])

    def usage_chunk(self, usage: Usage) -> Completion:
        """An event with the usage and no choices."""
        return self._response([], usage)

    def full(self, outputs: Sequence[OutputDelta], usage: Usage) -> Completion:
        """All choices and the usage."""
        choices = [self._choice(index, output) for index, output in enumerate(outputs)]
        return self._response(choices, usage)

    def _response(self, choices: list[CompletionChoice], usage: Usage | None = None) -> Completion:
        return Completion(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=choices,
            usage=usage,
        )

    def _choice(self, index: int, delta: OutputDelta) -> CompletionChoice:
        text = self._echoes[index] + delta.text
        self._echoes[index] = ""
        return CompletionChoice(
            index=index,
            text=text,
            logprobs=self._logprobs(index, delta) if self._has_logprobs else None,
            finish_reason=delta.finish_reason,
        )

    def _logprobs(self, index: int, delta: OutputDelta) -> CompletionLogprobs:
        logprobs = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
        for token, logprob, top in delta.logprobs:
            text = self._text(token)
            logprobs.tokens.append(text)
            logprobs.token_logprobs.append(logprob)
            logprobs.top_logprobs.append({self._text(other): value for other, value in top})
            logprobs.text_offset.append(self._offsets[index])
            self._offsets[index] += len(text)
        return logprobs

    def _text(self, token: int) -> str:
        """A token's text; an incomplete character is written as its bytes, as OpenAI does."""
        piece = self._service.model.token_bytes(token)
        try:
            return piece.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
