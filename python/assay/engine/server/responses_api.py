"""/v1/responses: OpenAI's newer interface, as a view of the chat endpoint; nothing is stored."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assay.engine.server.access_log import CLIENT_CLOSED_REQUEST
from assay.engine.server.chat import PreparedChat, prepare_chat
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import ChatRequest
from assay.engine.server.responses import usage_of
from assay.engine.server.responses_output import Event, ResponseItems
from assay.engine.server.responses_schemas import (
    FunctionCallItem,
    FunctionOutputItem,
    InputItem,
    InputMessage,
    InputTokensDetails,
    OutputTokensDetails,
    ReasoningItem,
    ResponseObject,
    ResponsesRequest,
    ResponseUsage,
    SchemaFormat,
    ToolName,
)
from assay.engine.server.service import Service, new_response_id
from assay.engine.server.streaming import (
    ClientDisconnectedError,
    EventStream,
    cancel_on_disconnect,
    named_event,
)
from assay.engine.server.validation_messages import problem_of


async def respond_to(service: Service, body: ResponsesRequest, request: Request) -> Response:
    """Respond in full or as a stream."""
    prepared = await prepare_chat(service, as_chat(body))
    run = _Run(service, body, prepared)
    if body.stream:
        return EventStream(run.events())
    try:
        return await cancel_on_disconnect(request.receive, run.full())
    except ClientDisconnectedError:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


class _Run:
    """One response: its output so far, and how it is written."""

    def __init__(self, service: Service, body: ResponsesRequest, prepared: PreparedChat) -> None:
        self._service = service
        self._body = body
        self._prepared = prepared
        self._id = new_response_id("resp")
        self._created = int(time.time())
        self._items = ResponseItems(prepared.new_output(), new_response_id)
        self._usage: ResponseUsage | None = None
        self._reason: str | None = None

    async def full(self) -> Response:
        async for _ in self._changes():
            pass
        return JSONResponse(self._response(is_done=True))

    async def events(self) -> AsyncGenerator[bytes, None]:
        number = 0
        started = self._response(is_done=False)
        beginning: list[Event] = [
            {"type": f"response.{name}", "response": started} for name in ("created", "in_progress")
        ]
        # The first output is awaited before anything is sent: a refusal has its own status.
        async for change in self._changes():
            for event in (*beginning, change):
                yield named_event(event["type"], {**event, "sequence_number": number})
                number += 1
            beginning = []
        done = self._response(is_done=True)
        name = f"response.{done['status']}"
        yield named_event(name, {"type": name, "response": done, "sequence_number": number})

    async def _changes(self) -> AsyncGenerator[Event, None]:
        tokens = 0
        with self._service.open(self._prepared.generation) as stream:
            async for _, delta in stream.deltas():
                tokens += delta.token_count
                for event in self._items.push(delta.text):
                    yield event
                self._reason = delta.finish_reason
            for event in self._items.finish():
                yield event
            counted = usage_of(self._prepared.generation, stream, tokens)
        self._usage = ResponseUsage(
            input_tokens=counted.prompt_tokens,
            input_tokens_details=InputTokensDetails(
                cached_tokens=counted.prompt_tokens_details.cached_tokens
            ),
            output_tokens=counted.completion_tokens,
            output_tokens_details=OutputTokensDetails(),
            total_tokens=counted.total_tokens,
        )

    def _response(self, *, is_done: bool) -> dict[str, Any]:
        body = self._body
        is_cut = is_done and self._reason == "length"
        format_ = body.text.format if body.text and body.text.format else None
        choice = body.tool_choice
        return ResponseObject(
            id=self._id,
            created_at=self._created,
            status="incomplete" if is_cut else "completed" if is_done else "in_progress",
            incomplete_details={"reason": "max_output_tokens"} if is_cut else None,
            model=self._service.model.name,
            output=self._items.items,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            parallel_tool_calls=body.parallel_tool_calls is not False,
            temperature=body.temperature,
            top_p=body.top_p,
            text={
                "format": {"type": "text"}
                if format_ is None
                else format_.model_dump(by_alias=True, exclude_none=True)
            },
            tool_choice=choice.model_dump() if isinstance(choice, ToolName) else choice or "auto",
            tools=[tool.model_dump(exclude_none=True) for tool in body.tools or ()],
            usage=self._usage,
        ).model_dump()


def as_chat(body: ResponsesRequest) -> ChatRequest:
    """The chat request that asks for the same."""
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        messages.append({"role": "user", "content": body.input})
    else:
        for item in body.input:
            _add_message(messages, item)
    chat: dict[str, Any] = {
        "model": body.model,
        "messages": messages,
        "max_completion_tokens": body.max_output_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "parallel_tool_calls": body.parallel_tool_calls,
        "tool_choice": body.tool_choice,
        "reasoning_effort": None if body.reasoning is None else body.reasoning.effort,
    }
    if isinstance(body.tool_choice, ToolName):
        chat["tool_choice"] = {"type": "function", "function": {"name": body.tool_choice.name}}
    if body.tools:
        functions = [tool.model_dump(exclude={"type"}, exclude_none=True) for tool in body.tools]
        chat["tools"] = [{"type": "function", "function": function} for function in functions]
    format_ = body.text.format if body.text else None
    if isinstance(format_, SchemaFormat):
        schema = format_.model_dump(by_alias=True, exclude={"type"}, exclude_none=True)
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif format_ is not None:
        chat["response_format"] = format_.model_dump()
    try:
        return ChatRequest.model_validate(chat)
    except ValidationError as error:
        # Input without a message, say: of a conversation with reasoning only.
        problem = problem_of(error.errors(), chat)
        raise ApiError(f"input: {problem.field}: {problem.message}", param="input") from None


def _add_message(messages: list[dict[str, Any]], item: InputItem) -> None:
    """Append an item to the conversation; calls join the assistant's message before them."""
    if isinstance(item, ReasoningItem):
        return
    if isinstance(item, InputMessage):
        content = item.content
        if not isinstance(content, str):
            content = "".join(part.text for part in content)
        messages.append({"role": item.role, "content": content})
    elif isinstance(item, FunctionOutputItem):
        messages.append({"role": "tool", "tool_call_id": item.call_id, "content": item.output})
    elif isinstance(item, FunctionCallItem):
        function = {"name": item.name, "arguments": item.arguments}
        call = {"id": item.call_id, "type": "function", "function": function}
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(call)
