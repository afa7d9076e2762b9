"""Response bodies, as OpenAI's API defines them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Model(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "assay"
    max_model_len: int | None = None
    """Tokens of its context; None of a model of speech."""
    parent: str | None = None
    """The model that an adapter belongs to."""


class Models(BaseModel):
    """The list of served models."""

    object: Literal["list"] = "list"
    data: list[Model]


class ServerInfo(BaseModel):
    """What serves, and with which settings."""

    engine: Literal["assay"] = "assay"
    release: str
    model: str
    weights: str | None
    """The file or folder of the weights; null where they are generated."""
    weight_format: str
    device: str
    synthetic: bool
    """Whether the weights are random."""
    settings: dict[str, int | str | bool]


class PromptTokensDetails(BaseModel):
    """How many prompt tokens came from the prefix cache."""

    cached_tokens: int


class Usage(BaseModel):
    """Token counts of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails

    @classmethod
    def of(cls, prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Usage:
        """The counts and their sum."""
        return cls(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached_tokens),
        )


class CompletionLogprobs(BaseModel):
    """Log-probabilities of a completion, one entry for each token; the first of a prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One completion, or a chunk of it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None


class Completion(BaseModel):
    """The response of /v1/completions, and each event of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


PromptScore = dict[str, dict[str, int | float | str]] | None
"""Log-probability, rank and text of a token of a prompt and of the likeliest there, by token ID."""


class ScoredChoice(CompletionChoice):
    """One completion with the scores of its prompt."""

    prompt_logprobs: list[PromptScore]


class ScoredCompletion(Completion):
    """The response of /v1/completions to a request with `prompt_logprobs`."""

    choices: list[ScoredChoice]  # type: ignore[assignment]


class TopLogprob(BaseModel):
    """A likely token at one position."""

    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(TopLogprob):
    """A token of the output with its alternatives."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Log-probabilities of a chat completion."""

    content: list[ChatLogprob]
    refusal: None = None


class ResponseFunction(BaseModel):
    """The function that the model calls, and its arguments as JSON text."""

    name: str
    arguments: str = ""


class ResponseToolCall(BaseModel):
    """A call of a tool."""

    id: str
    type: Literal["function"] = "function"
    function: ResponseFunction


class ChatResponseMessage(BaseModel):
    """The assistant's message; without content where it only calls tools."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ResponseToolCall] | None = None
    refusal: None = None


class ChatChoice(BaseModel):
    """One choice."""

    index: int
    message: ChatResponseMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str


class ChatCompletion(BaseModel):
    """The response of /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ScoredChatCompletion(ChatCompletion):
    """The response of /v1/chat/completions to a request with `prompt_logprobs`."""

    prompt_logprobs: list[PromptScore]


class ChatChunkChoice(BaseModel):
    """A chunk of one choice."""

    index: int
    delta: dict[str, Any]
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None


class ChatChunk(BaseModel):
    """An event of a chat completion stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None


class Tokens(BaseModel):
    """The response of /tokenize."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class TokenizerInfo(BaseModel):
    """The response of /tokenizer_info."""

    tokenizer_class: Literal["assay"] = "assay"
    bos_token: str | None = None
    eos_token: str | None = None
    chat_template: str | None = None


class SleepState(BaseModel):
    """The response of /sleep, /wake_up and /is_sleeping."""

    is_sleeping: bool


class DetokenizedPrompt(BaseModel):
    """The response of /detokenize."""

    prompt: str


class Embedding(BaseModel):
    """The embedding of one input: numbers, or the base64 of their bytes as little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Token counts of an embedding request."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """The response of /v1/embeddings."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
