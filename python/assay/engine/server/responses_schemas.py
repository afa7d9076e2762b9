"""Bodies of /v1/responses: the part of OpenAI's interface that needs no stored conversations."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StrictBool, StrictInt, model_validator

from assay.engine.server.request_schemas import (
    Count,
    Effort,
    Function,
    JsonObjectFormat,
    Strict,
    Text,
    TextFormat,
)


class ContentPart(Strict):
    """A part of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: Text
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class InputMessage(Strict):
    """A message of the conversation."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Text | list[ContentPart]
    id: Text | None = None
    status: Text | None = None


class FunctionCallItem(Strict):
    """A call that the model made before."""

    type: Literal["function_call"]
    call_id: Text
    name: Text
    arguments: Text
    id: Text | None = None
    status: Text | None = None


class FunctionOutputItem(Strict):
    """What a function returned."""

    type: Literal["function_call_output"]
    call_id: Text
    output: Text
    id: Text | None = None
    status: Text | None = None


class ReasoningItem(Strict):
    """The model's earlier reasoning; templates leave it out, and so does the prompt."""

    type: Literal["reasoning"]
    id: Text | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: Text | None = None
    status: Text | None = None


InputItem = FunctionCallItem | FunctionOutputItem | ReasoningItem | InputMessage


class FunctionTool(Function):
    """A function that the model may call."""

    type: Literal["function"]


class ToolName(Strict):
    """The function that the model must call."""

    type: Literal["function"]
    name: Text


class SchemaFormat(Strict):
    """JSON that is valid under a schema."""

    type: Literal["json_schema"]
    name: Text
    schema_: dict[str, Any] = Field(alias="schema")
    description: Text | None = None
    strict: StrictBool | None = None


class TextOptions(Strict):
    """What the text must look like."""

    format: (
        Annotated[TextFormat | JsonObjectFormat | SchemaFormat, Field(discriminator="type")] | None
    ) = None


class ReasoningOptions(Strict):
    """How much the model reasons; summaries of it are not made."""

    effort: Effort | None = None
    summary: None = None


class ResponsesRequest(Strict):
    """The body of /v1/responses."""

    model: Text
    input: Text | Annotated[list[InputItem], Field(min_length=1, max_length=4096)]
    instructions: Text | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)] | None = None
    stream: StrictBool | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolName | None = None
    parallel_tool_calls: StrictBool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None

    # Accepted and ignored: they do not change the output.
    metadata: dict[str, Text] | None = None
    user: Text | None = None
    store: StrictBool | None = None
    service_tier: Text | None = None
    safety_identifier: Text | None = None
    prompt_cache_key: Text | None = None

    @model_validator(mode="after")
    def _keeps_nothing(self) -> Self:
        if self.store:
            raise ValueError("store: this server keeps no responses; expected false or nothing")
        return self


class InputTokensDetails(BaseModel):
    """How many input tokens came from the prefix cache."""

    cached_tokens: int


class OutputTokensDetails(BaseModel):
    """How many output tokens are reasoning; the server does not count them apart."""

    reasoning_tokens: StrictInt = 0


class ResponseUsage(BaseModel):
    """Token counts of a response."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseObject(BaseModel):
    """The response of /v1/responses."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    error: None = None
    incomplete_details: dict[str, str] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    previous_response_id: None = None
    temperature: float | None = None
    top_p: float | None = None
    text: dict[str, Any]
    tool_choice: Any = "auto"
    tools: list[dict[str, Any]] = []
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None
