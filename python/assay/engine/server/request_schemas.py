"""Request bodies: OpenAI's fields and a few of vLLM's.

An unknown field is refused by name: ignoring it would silently change the output. Null means the
same as leaving a field out.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)


def _whole_characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("expected whole characters, got half of a surrogate pair") from None
    return text


Text = Annotated[StrictStr, AfterValidator(_whole_characters)]
Seed = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[StrictInt, Field(ge=1, lt=2**31)]
TokenId = Annotated[StrictInt, Field(ge=0, lt=2**31)]
VariableName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
AdapterName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Scalar = StrictBool | StrictInt | float | Text | None
TokenKey = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
"""A token ID as a key of a JSON object."""
Bias = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False, strict=True)]
StopString = Annotated[Text, Field(min_length=1, max_length=1024)]


class Strict(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class StreamOptions(Strict):
    """Options of a stream."""

    include_usage: StrictBool | None = None


class TextFormat(Strict):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Strict):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Strict):
    """A JSON schema under a name; it is always enforced, `strict` or not."""

    name: Text
    description: Text | None = None
    schema_: dict[str, Any] | StrictBool | None = Field(default=None, alias="schema")
    strict: StrictBool | None = None


class JsonSchemaFormat(Strict):
    """JSON that is valid under a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]
Choices = Annotated[list[Text], Field(min_length=1, max_length=2000)]


class StructuredOutputs(Strict):
    """What the output must look like, as vLLM names it; one of the first five."""

    json_: Text | dict[str, Any] | None = Field(default=None, alias="json")
    regex: Text | None = None
    choice: Choices | None = None
    grammar: Text | None = None
    json_object: StrictBool | None = None
    disable_any_whitespace: StrictBool | None = None
    whitespace_pattern: Text | None = None


class Sampling(Strict):
    """Fields of both endpoints: sampling parameters and streaming."""

    model: Text
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)] | None = None
    n: Annotated[StrictInt, Field(ge=1, le=128)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] | None = None
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[TokenKey, Bias], Field(max_length=1024)] | None = None
    response_format: ResponseFormat | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None

    # Fields of vLLM that OpenAI does not have.
    top_k: Annotated[StrictInt, Field(ge=-1, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)] | None = None
    repetition_penalty: (
        Annotated[float, Field(gt=0, le=10, allow_inf_nan=False, strict=True)] | None
    ) = None
    prompt_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    priority: Annotated[StrictInt, Field(ge=-(2**31), lt=2**31)] | None = None
    best_of: Annotated[StrictInt, Field(ge=1, le=128)] | None = None
    use_beam_search: StrictBool | None = None
    length_penalty: Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)] | None = None
    min_tokens: Annotated[StrictInt, Field(ge=0, lt=2**31)] | None = None
    bad_words: StopString | Annotated[list[StopString], Field(max_length=128)] | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=16)] | None = None
    ignore_eos: StrictBool | None = None
    skip_special_tokens: StrictBool | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Text | dict[str, Any] | None = None
    guided_regex: Text | None = None
    guided_choice: Choices | None = None
    guided_grammar: Text | None = None
    guided_whitespace_pattern: Text | None = None

    # Accepted and ignored: they do not change the output.
    user: Text | None = None
    metadata: dict[str, Text] | None = None
    store: StrictBool | None = None
    service_tier: Text | None = None
    safety_identifier: Text | None = None
    prompt_cache_key: Text | None = None
    guided_decoding_backend: Text | None = None

    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def wants_usage(self) -> bool:
        """Whether a stream ends with a usage event."""
        return bool(self.stream_options and self.stream_options.include_usage)


TokenIds = Annotated[list[TokenId], Field(min_length=1)]
Inputs = (
    Text
    | TokenIds
    | Annotated[list[Text], Field(min_length=1, max_length=128)]
    | Annotated[list[TokenIds], Field(min_length=1, max_length=128)]
)
"""One text or several, as such or as token IDs."""


class CompletionRequest(Sampling):
    """The body of /v1/completions."""

    prompt: Inputs
    suffix: Text | None = None
    max_tokens: Count | None = None
    logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    echo: StrictBool | None = None


class TextPart(Strict):
    """A part of a message's content."""

    type: Literal["text"]
    text: Text


class FunctionCall(Strict):
    """The function that was called, and its arguments as JSON text."""

    name: Text
    arguments: Text


class ToolCall(Strict):
    """A call of a tool in an earlier message of the assistant."""

    id: Text
    type: Literal["function"] = "function"
    function: FunctionCall
    index: StrictInt | None = None


class ChatMessage(Strict):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | list[TextPart] | None = None
    name: Text | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=128)] | None = None
    tool_call_id: Text | None = None
    reasoning_content: Text | None = None

    # The official client sends these when it sends an answer back.
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("expected content, got null")
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"expected tool_calls of the assistant, got them of {self.role}")
        return self

    def for_template(self) -> dict[str, Any]:
        """The message for the chat template; the role developer becomes system."""
        content = self.content
        if not isinstance(content, str):
            content = "".join(part.text for part in content or ())
        role = "system" if self.role == "developer" else self.role
        message: dict[str, Any] = {"role": role, "content": content}
        for name in ("name", "tool_call_id", "reasoning_content"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if self.tool_calls:
            message["tool_calls"] = [_call_for_template(call) for call in self.tool_calls]
        return message


def _call_for_template(call: ToolCall) -> dict[str, Any]:
    """A call with its arguments as an object, as templates expect them."""
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError):
        # A call that was cut off: the model sees what it wrote.
        arguments = call.function.arguments
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": call.type, "function": function}


class Function(Strict):
    """What a tool does, and the JSON schema of its parameters."""

    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: StrictBool | None = None


class Tool(Strict):
    """A tool that the model may call."""

    type: Literal["function"]
    function: Function


class FunctionName(Strict):
    """The name of a function."""

    name: Text


class NamedTool(Strict):
    """The tool that the model must call."""

    type: Literal["function"]
    function: FunctionName


Effort = Literal["none", "minimal", "low", "medium", "high"]


class ChatRequest(Sampling):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=4096)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: StrictBool | None = None
    reasoning_effort: Effort | None = None

    # Fields of vLLM that OpenAI does not have.
    chat_template_kwargs: Annotated[dict[VariableName, Scalar], Field(max_length=32)] | None = None
    include_reasoning: StrictBool | None = None


class EmbeddingRequest(Strict):
    """The body of /v1/embeddings."""

    model: Text
    input: Inputs
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    normalize: StrictBool | None = None
    user: Text | None = None


class LoadAdapterRequest(Strict):
    """The body of /v1/load_lora_adapter."""

    lora_name: AdapterName
    lora_path: Annotated[Text, Field(min_length=1, max_length=4096)]
    base_model_name: Text | None = None
    """Where the server has several models."""


class UnloadAdapterRequest(Strict):
    """The body of /v1/unload_lora_adapter."""

    lora_name: AdapterName
    lora_int_id: StrictInt | None = None
    """vLLM's number, which is not used there either."""


class TokenizeRequest(Strict):
    """The body of /tokenize: a prompt, or a conversation for the chat template."""

    model: Text | None = None
    prompt: Text | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=4096)] | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] | None = None
    chat_template_kwargs: Annotated[dict[VariableName, Scalar], Field(max_length=32)] | None = None
    add_special_tokens: StrictBool | None = None
    return_token_strs: StrictBool | None = None


class DetokenizeRequest(Strict):
    """The body of /detokenize."""

    model: Text | None = None
    tokens: list[TokenId]
