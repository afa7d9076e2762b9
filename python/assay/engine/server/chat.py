"""/v1/chat/completions: a conversation rendered with the model's chat template and completed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.server.async_engine import OutputDelta
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import ChatRequest
from assay.engine.server.response_schemas import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprob,
    ChatLogprobs,
    ChatResponseMessage,
    TopLogprob,
    Usage,
)
from assay.engine.server.responses import respond
from assay.engine.server.service import Service, new_response_id, run_off_loop
from assay.engine.server.structured_outputs import structured_output_of


async def chat(service: Service, body: ChatRequest, request: Request) -> Response:
    """Respond to a chat completion request."""
    service.check_model(body.model)
    if body.top_logprobs and not body.logprobs:
        raise ApiError("top_logprobs needs logprobs to be true", param="top_logprobs")
    if body.max_tokens and body.max_completion_tokens:
        raise ApiError(
            "max_tokens and max_completion_tokens mean the same: give one of them",
            param="max_completion_tokens",
        )
    messages = [message.for_template() for message in body.messages]
    characters = sum(len(message["content"]) for message in messages)
    prompt = await run_off_loop(characters, _prompt, service, messages)
    constraint = structured_output_of(body)
    await service.compile_grammar(constraint)
    generation = service.generation_request(
        "chat",
        body,
        [prompt],
        constraint=constraint,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        param="messages",
    )
    formatter = ChatFormatter(service, has_logprobs=bool(body.logprobs))
    return await respond(service, generation, formatter, body, request)


def _prompt(service: Service, messages: Sequence[Mapping[str, str]]) -> Sequence[int]:
    if service.model.render_chat is None:
        raise ApiError(
            f'the model "{service.model.name}" has no chat template: use /v1/completions',
            param="messages",
            code="no_chat_template",
        )
    return service.model.encode_rendered(service.model.render_chat(messages))


class ChatFormatter:
    """Formats chat completions as OpenAI's API does."""

    def __init__(self, service: Service, *, has_logprobs: bool) -> None:
        self._service = service
        self._has_logprobs = has_logprobs
        self._started: set[int] = set()
        self._name = new_response_id("chatcmpl")
        self._created = int(time.time())

    def chunks(self, index: int, delta: OutputDelta) -> Iterator[ChatChunk]:
        """The role first, then an event for each delta, then the finish reason."""
        if index not in self._started:
            self._started.add(index)
            yield self._chunk(index, {"role": "assistant", "content": ""})
        if delta.text or (self._has_logprobs and delta.token_count):
            yield self._chunk(index, {"content": delta.text}, logprobs=self._logprobs(delta))
        if delta.finish_reason is not None:
            yield self._chunk(index, {}, finish_reason=delta.finish_reason)

    def usage_chunk(self, usage: Usage) -> ChatChunk:
        """An event with the usage and no choices."""
        return ChatChunk(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=[],
            usage=usage,
        )

    def full(self, outputs: Sequence[OutputDelta], usage: Usage) -> ChatCompletion:
        """All choices and the usage."""
        choices = [
            ChatChoice(
                index=index,
                message=ChatResponseMessage(content=output.text),
                logprobs=self._logprobs(output),
                finish_reason=output.finish_reason or "stop",
            )
            for index, output in enumerate(outputs)
        ]
        return ChatCompletion(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=choices,
            usage=usage,
        )

    def _chunk(self, index: int, delta: dict[str, Any], **rest: Any) -> ChatChunk:
        return ChatChunk(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=[ChatChunkChoice(index=index, delta=delta, **rest)],
        )

    def _logprobs(self, delta: OutputDelta) -> ChatLogprobs | None:
        if not self._has_logprobs:
            return None
        content = [
            ChatLogprob(
                **self._token(token, logprob),
                top_logprobs=[TopLogprob(**self._token(*other)) for other in top],
            )
            for token, logprob, top in delta.logprobs
        ]
        return ChatLogprobs(content=content)

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        piece = self._service.model.token_bytes(token)
        text = piece.decode("utf-8", "replace")
        return {"token": text, "logprob": logprob, "bytes": list(piece)}
