"""/v1/chat/completions: a conversation put into the model's own template and continued."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from assay.engine.server.async_engine import Piece
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import ChatRequest
from assay.engine.server.response_schemas import (
    ChatAnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprob,
    ChatLogprobs,
    TopLogprob,
    Usage,
)
from assay.engine.server.responses import respond
from assay.engine.server.service import Service, beside_loop, new_name


async def chat(service: Service, body: ChatRequest, request: Request) -> Response:
    """Answer a request for the next turn of a conversation."""
    service.check_model(body.model)
    if body.top_logprobs and not body.logprobs:
        raise ApiError("top_logprobs needs logprobs to be true", param="top_logprobs")
    if body.max_tokens and body.max_completion_tokens:
        raise ApiError(
            "max_tokens and max_completion_tokens mean the same: give one of them",
            param="max_completion_tokens",
        )
    messages = [message.plain() for message in body.messages]
    characters = sum(len(message["content"]) for message in messages)
    prompt = await beside_loop(characters, _prompt, service, messages)
    order = service.order(
        "chat",
        body,
        [prompt],
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        param="messages",
    )
    wording = ChatWording(service, has_logprobs=bool(body.logprobs))
    return await respond(service, order, wording, body, request)


def _prompt(service: Service, messages: Sequence[Mapping[str, str]]) -> Sequence[int]:
    if service.model.render_chat is None:
        raise ApiError(
            f'the model "{service.model.name}" has no chat template: use /v1/completions',
            param="messages",
            code="no_chat_template",
        )
    return service.model.encode_rendered(service.model.render_chat(messages))


class ChatWording:
    """Chat answers in OpenAI's words."""

    def __init__(self, service: Service, *, has_logprobs: bool) -> None:
        self._service = service
        self._has_logprobs = has_logprobs
        self._begun: set[int] = set()
        self._name = new_name("chatcmpl")
        self._created = int(time.time())

    def chunks(self, index: int, piece: Piece) -> Iterator[ChatChunk]:
        """The role first, then an event for each piece, the last with its reason."""
        if index not in self._begun:
            self._begun.add(index)
            yield self._chunk(index, {"role": "assistant", "content": ""})
        if piece.text or (self._has_logprobs and piece.token_count):
            yield self._chunk(index, {"content": piece.text}, logprobs=self._logprobs(piece))
        if piece.finish_reason is not None:
            yield self._chunk(index, {}, finish_reason=piece.finish_reason)

    def closing(self, usage: Usage) -> ChatChunk:
        """An event without choices."""
        return ChatChunk(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=[],
            usage=usage,
        )

    def whole(self, answers: Sequence[Piece], usage: Usage) -> ChatCompletion:
        """Every choice and the usage."""
        choices = [
            ChatChoice(
                index=index,
                message=ChatAnswerMessage(content=answer.text),
                logprobs=self._logprobs(answer),
                finish_reason=answer.finish_reason or "stop",
            )
            for index, answer in enumerate(answers)
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

    def _logprobs(self, piece: Piece) -> ChatLogprobs | None:
        if not self._has_logprobs:
            return None
        content = [
            ChatLogprob(
                **self._token(token, logprob),
                top_logprobs=[TopLogprob(**self._token(*other)) for other in top],
            )
            for token, logprob, top in piece.logprobs
        ]
        return ChatLogprobs(content=content)

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        piece = self._service.model.token_bytes(token)
        text = piece.decode("utf-8", "replace")
        return {"token": text, "logprob": logprob, "bytes": list(piece)}
