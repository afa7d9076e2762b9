"""Chat completions and their events, as OpenAI's API writes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from assay.engine.server.chat_output import ChatOutput, Delta, message_of
from assay.engine.server.event_template import MARKED_INDEX, MARKED_TEXT, EventTemplate
from assay.engine.server.output_delta import OutputDelta
from assay.engine.server.prompt_scores import PromptScores
from assay.engine.server.response_schemas import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatLogprob,
    ChatLogprobs,
    ChatResponseMessage,
    ScoredChatCompletion,
    TopLogprob,
    Usage,
)
from assay.engine.server.service import Service, new_response_id


class ChatFormatter:
    """Formats chat completions as OpenAI's API does."""

    def __init__(
        self,
        service: Service,
        new_output: Callable[[], ChatOutput],
        *,
        has_logprobs: bool,
        shows_reasoning: bool = True,
        calls_finish: bool = True,
    ) -> None:
        """`calls_finish` says that outputs with tool calls have them as their finish reason."""
        self._service = service
        self._new_output = new_output
        self._has_logprobs = has_logprobs
        self._shows_reasoning = shows_reasoning
        self._calls_finish = calls_finish
        self._outputs: dict[int, ChatOutput] = {}
        self._name = new_response_id("chatcmpl")
        self._created = int(time.time())
        self.scores: PromptScores | None = None
        """The scores of the prompt, where the request asks for them."""

    def chunks(self, index: int, delta: OutputDelta) -> Iterator[ChatChunk]:
        """The role first, then an event for each delta, then the finish reason."""
        output = self._outputs.get(index)
        if output is None:
            output = self._outputs[index] = self._new_output()
            yield self._chunk(index, {"role": "assistant", "content": ""})
        changes = self._shown(output.push(delta.text))
        if delta.finish_reason is not None:
            changes += self._shown(output.finish())
        if not changes and self._has_logprobs and delta.token_count:
            changes = [{"content": ""}]
        logprobs = self._logprobs(delta)
        for change in changes:
            yield self._chunk(index, change, logprobs=logprobs)
            logprobs = None
        if delta.finish_reason is not None:
            reason = self._reason(delta.finish_reason, output)
            yield self._chunk(index, {}, finish_reason=reason)

    def plain_event(self, index: int, text: str) -> bytes | None:
        """The event of text after the first, where all text is content."""
        if self._has_logprobs:
            return None
        output = self._outputs.get(index)
        if output is None or not output.is_plain:
            return None
        return self._template.fill(index, text) if text else b""

    @cached_property
    def _template(self) -> EventTemplate:
        return EventTemplate(self._chunk(MARKED_INDEX, {"content": MARKED_TEXT}))

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
        choices = [self._choice(index, output) for index, output in enumerate(outputs)]
        response = ChatCompletion(
            id=self._name,
            created=self._created,
            model=self._service.model.name,
            choices=choices,
            usage=usage,
        )
        if self.scores is None:
            return response
        return ScoredChatCompletion(**dict(response), prompt_logprobs=self.scores)

    def _choice(self, index: int, delta: OutputDelta) -> ChatChoice:
        output = self._new_output()
        changes = self._shown([*output.push(delta.text), *output.finish()])
        message = message_of(changes)
        if "tool_calls" not in message:
            message.setdefault("content", "")
        return ChatChoice(
            index=index,
            message=ChatResponseMessage(**message),
            logprobs=self._logprobs(delta),
            finish_reason=self._reason(delta.finish_reason or "stop", output),
        )

    def _shown(self, changes: list[Delta]) -> list[Delta]:
        if self._shows_reasoning:
            return changes
        return [change for change in changes if "reasoning_content" not in change]

    def _reason(self, reason: str, output: ChatOutput) -> str:
        called = output.num_calls and self._calls_finish
        return "tool_calls" if called and reason == "stop" else reason

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
