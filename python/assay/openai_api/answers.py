"""Bodies of requests for completions, and what the answers to them hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.http_client import ServerError

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"
MODELS: Final = "/v1/models"

NO_SUCH_PATH: Final = (404, 405, 501)
"""The status of a server that has no such interface."""
REFUSED_FIELD: Final = (400, 422)
"""The status of a server that refuses a field that it does not know."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What `/v1/models` says of the first model."""

    name: str
    root: str
    """Where the weights come from, as far as the server says; else the name."""
    context_limit: int | None
    listed: frozenset[str] = frozenset()
    """All names that it may be asked for: adapters have their own."""


def served_model(url: str, data: Any) -> ServedModel:
    """The first model of a server's list."""
    listed = data.get("data") if isinstance(data, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(first, dict) or not isinstance(first.get("id"), str):
        raise ServerError(f"{url}{MODELS}: expected a list of models, got another answer")
    name = first["id"]
    root = first.get("root")
    limit = first.get("max_model_len")
    meta = first.get("meta")
    if limit is None and isinstance(meta, dict):
        limit = meta.get("n_ctx") or meta.get("n_ctx_train")
    return ServedModel(
        name,
        root if isinstance(root, str) and root else name,
        limit if isinstance(limit, int) and limit > 0 else None,
        frozenset(
            model["id"]
            for model in listed or ()
            if isinstance(model, dict) and isinstance(model.get("id"), str)
        ),
    )


def completion_body(
    path: str,
    model: str,
    prompt: str,
    tokens: int,
    *,
    ignores_end: bool,
    sampling: Mapping[str, float | int] | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A request for a streamed answer of `tokens` tokens with its usage; greedy by default.

    A chat has these messages, or the prompt as a user's.
    """
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if ignores_end:
        body["ignore_eos"] = True
    body |= dict(sampling or {})
    if path == CHAT:
        return body | {"messages": [*messages] or [{"role": "user", "content": prompt}]}
    return body | {"prompt": prompt}


PART: Final = "\x1e"
"""Stands in an answer where it goes on as something else: a thought, a call of a tool, the text behind."""


def event_parts(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a chunk of either interface adds: its kind, and its text.

    >>> list(event_parts({"choices": [{"delta": {"reasoning": "so", "content": "a"}}]}))
    [('thought', 'so'), ('text', 'a')]
    >>> list(event_parts({"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}]}))
    [('call', 'f{}')]
    """
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = {}
        parts = (
            ("thought", [delta.get("reasoning_content"), delta.get("reasoning")]),
            ("text", [choice.get("text"), delta.get("content")]),
            ("call", _of_tool_calls(delta.get("tool_calls"))),
        )
        for kind, texts in parts:
            if text := "".join(text for text in texts if isinstance(text, str)):
                yield kind, text


def event_text(event: Mapping[str, Any]) -> str:
    """The text of a chunk of either interface; reasoning and calls of tools are generated, too.

    >>> event_text({"choices": [{"delta": {"content": "a"}}]}), event_text({"choices": [{"text": "b"}]})
    ('a', 'b')
    """
    return "".join(text for _, text in event_parts(event))


def _of_tool_calls(calls: Any) -> list[Any]:
    functions = [
        call["function"]
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return [function.get(name) for function in functions for name in ("name", "arguments")]


def event_finish(event: Mapping[str, Any]) -> str:
    """Why a chunk says that generation ended; empty where it does not.

    >>> event_finish({"choices": [{"text": "", "finish_reason": "stop"}]})
    'stop'
    """
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    reason = first.get("finish_reason") if isinstance(first, dict) else None
    return reason if isinstance(reason, str) else ""


def token_counts(usage: Any) -> tuple[int, int] | None:
    """Prompt and completion tokens of a usage; None where it does not count both."""
    if not isinstance(usage, dict):
        return None
    prompt, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(made, int) or min(prompt, made) < 1:
        return None
    return prompt, made
