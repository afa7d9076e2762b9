"""Requests as JSON lines: what `save` writes, and what people write by hand.

    {"prompt": "Gravity is", "max_tokens": 32}
    {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 64, "arrival_s": 1.5}

A conversation is sent as a chat, with its tools and the format of its answer. Rows that say the same
with other names are read as well: `text` and `output_length` (AIPerf), `output_tokens_count` (GuideLLM),
`turns` (Spec-Bench, MT-Bench: the first one), and OpenAI batch files, whose requests are in `body`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.load.workloads.readers.recorded import (
    Format,
    LeftOut,
    Recorded,
    Rows,
    json_objects,
    seconds,
    tokens,
)

HEADER: Final = "assay_workload"
"""The key of the first line of a saved workload."""

DEFAULT_OUTPUT_TOKENS: Final = 128
"""Where a row does not say how long its output is; a note says how often."""

PROMPTS: Final = ("prompt", "text", "text_input")
OUTPUTS: Final = (
    "max_tokens", "max_completion_tokens", "output_tokens", "output_length", "output_tokens_count",
)  # fmt: skip
SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "seed")
CHAT_FIELDS: Final[dict[str, Any]] = {
    "tools": list, "tool_choice": (str, dict), "parallel_tool_calls": bool, "reasoning_effort": str,
    "chat_template_kwargs": dict,
}  # fmt: skip
"""Fields of chats alone."""
FIELDS: Final[dict[str, Any]] = {
    "model": str, "stop": (str, list), "response_format": dict, "structured_outputs": dict, "logit_bias": dict,
    "presence_penalty": (int, float), "frequency_penalty": (int, float), "repetition_penalty": (int, float),
    **CHAT_FIELDS,
}  # fmt: skip
"""Fields that are sent as they stand, and what they hold."""
END_THEMSELVES: Final = ("response_format", "structured_outputs", "tools")
"""Fields of answers that have an end of their own: behind it there is nothing to generate."""


def read(path: Path) -> Rows:
    """The requests of a file."""
    for number, (where, row) in enumerate(json_objects(path)):
        if number == 0 and HEADER in row:
            continue
        body = row.get("body")
        yield _request(body if isinstance(body, dict) else row, where)


def _request(row: Mapping[str, Any], where: str) -> Recorded | LeftOut:
    messages = _messages(row, where)
    prompt = _conversation(messages) if messages else _prompt(row, where)
    if prompt is None:
        return LeftOut("rows without a prompt")
    given = next((row[name] for name in OUTPUTS if row.get(name) is not None), None)
    output = tokens(DEFAULT_OUTPUT_TOKENS if given is None else given)
    if output is None:
        raise InputError(f"{where}: expected max_tokens from 1, got {str(given)[:40]!r}")
    return Recorded(
        output,
        _arrival(row, where),
        prompt=prompt,
        sampling=_sampling(row, where),
        fields=_fields(row, where),
        messages=messages,
        input_tokens=tokens(row.get("prompt_tokens")),
        prefix_tokens=tokens(row.get("prefix_tokens")) or 0,
        assumed=tuple(_assumptions(row, given is not None)),
    )


def _assumptions(row: Mapping[str, Any], has_length: bool) -> Iterator[str]:
    if not has_length:
        yield f"requests without max_tokens, given {DEFAULT_OUTPUT_TOKENS} tokens of output"
    if isinstance(row.get("turns"), list) and len(row["turns"]) > 1:
        yield "conversations of which the first turn is sent"
    if row.get("messages") is None and any(row.get(name) for name in CHAT_FIELDS):
        yield "prompts whose fields of chats (tools and the like) are not sent"


def _prompt(row: Mapping[str, Any], where: str) -> str | None:
    turns = row.get("turns")
    if isinstance(turns, list) and turns:
        row = turns[0] if isinstance(turns[0], dict) else {"prompt": turns[0]}
    prompt = next((row[name] for name in PROMPTS if row.get(name) is not None), None)
    if prompt is not None and not isinstance(prompt, str):
        raise InputError(f"{where}: expected a prompt of text, got {type(prompt).__name__}")
    return prompt or None


def _messages(row: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    """The messages of a chat; none where the row is no chat."""
    messages = row.get("messages")
    if messages is None:
        return ()
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{where}: expected a list of messages, got {str(messages)[:40]!r}")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InputError(f"{where}: expected messages with a role, got {str(message)[:60]!r}")
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            raise InputError(f"{where}: expected messages with text, got {str(message)[:60]!r}")
    return tuple(messages)


def _conversation(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as one text, by which it is counted: roles are named unless there is one message only."""
    texts = [(message["role"][:40], _text(message)) for message in messages]
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"{role}: {content}" for role, content in texts) + "\n\nassistant:"


def _text(message: Mapping[str, Any]) -> str:
    """What a message says: its text, those of its parts, or the calls of tools as they stand."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return json.dumps(message["tool_calls"])


def _arrival(row: Mapping[str, Any], where: str) -> float | None:
    for name, unit in (("arrival_s", 1.0), ("timestamp", 1e-3)):
        if row.get(name) is not None:
            time = seconds(row[name], unit)
            if time is None:
                raise InputError(f"{where}: expected {name} as a time, got {str(row[name])[:40]!r}")
            return time
    return None


def _sampling(row: Mapping[str, Any], where: str) -> dict[str, float | int]:
    given = {name: row[name] for name in SAMPLING if row.get(name) is not None}
    if isinstance(row.get("sampling"), dict):
        given |= row["sampling"]
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise InputError(f"{where}: expected {name[:40]} as a number, got {str(value)[:40]!r}")
    return given


def _fields(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Fields that are sent as they stand: the row's, and those that a saved workload has."""
    saved = row.get("fields")
    given: dict[str, Any] = dict(saved) if isinstance(saved, dict) else {}
    is_chat = row.get("messages") is not None
    for name, kind in FIELDS.items():
        value = row.get(name)
        if value in (None, [], {}, "") or (name in CHAT_FIELDS and not is_chat):
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{where}: expected {name} as OpenAI has it, got {str(value)[:40]!r}")
        given[name] = value
    stop = given.get("stop", "")
    if isinstance(stop, list) and not all(isinstance(text, str) and text for text in stop):
        raise InputError(f"{where}: expected stop as texts, got {str(stop)[:40]!r}")
    if not isinstance(saved, dict) and any(name in given for name in END_THEMSELVES):
        given["ignore_eos"] = False
    return given


FORMAT: Final = Format(
    "jsonl", "prompt or messages, max_tokens, and arrival_s where requests have times", read
)
