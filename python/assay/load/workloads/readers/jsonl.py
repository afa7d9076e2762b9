"""Requests as JSON lines: what `save` writes, and what people write by hand.

    {"prompt": "Gravity is", "max_tokens": 32}
    {"messages": [{"role": "user", "content": "Why?"}], "max_tokens": 64, "arrival_s": 1.5}

Rows of other tools that say the same with other names are read as well: `text` and `output_length`
(AIPerf), `output_tokens_count` (GuideLLM), `turns` (Spec-Bench, MT-Bench: the first one), and OpenAI
batch files, whose requests are in `body`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def read(path: Path) -> Rows:
    """The requests of a file."""
    for number, (where, row) in enumerate(json_objects(path)):
        if number == 0 and HEADER in row:
            continue
        body = row.get("body")
        yield _request(body if isinstance(body, dict) else row, where)


def _request(row: Mapping[str, Any], where: str) -> Recorded | LeftOut:
    prompt = _prompt(row, where)
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
        input_tokens=tokens(row.get("prompt_tokens")),
        prefix_tokens=tokens(row.get("prefix_tokens")) or 0,
        assumed=tuple(_assumptions(row, given is not None)),
    )


def _assumptions(row: Mapping[str, Any], has_length: bool) -> Iterator[str]:
    if not has_length:
        yield f"requests without max_tokens, given {DEFAULT_OUTPUT_TOKENS} tokens of output"
    if row.get("messages") is not None and len(row["messages"]) > 1:
        yield "conversations sent as one text with the roles named"
    if isinstance(row.get("turns"), list) and len(row["turns"]) > 1:
        yield "conversations of which the first turn is sent"


def _prompt(row: Mapping[str, Any], where: str) -> str | None:
    if row.get("messages") is not None:
        return _conversation(row["messages"], where)
    turns = row.get("turns")
    if isinstance(turns, list) and turns:
        row = turns[0] if isinstance(turns[0], dict) else {"prompt": turns[0]}
    prompt = next((row[name] for name in PROMPTS if row.get(name) is not None), None)
    if prompt is not None and not isinstance(prompt, str):
        raise InputError(f"{where}: expected a prompt of text, got {type(prompt).__name__}")
    return prompt or None


def _conversation(messages: Any, where: str) -> str:
    """The messages as one text: roles are named unless there is one message only."""
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{where}: expected a list of messages, got {str(messages)[:40]!r}")
    texts = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(part for part in parts if isinstance(part, str)) or None
        if not isinstance(content, str):
            raise InputError(f"{where}: expected messages with text, got {str(message)[:60]!r}")
        texts.append((str(message.get("role", "user"))[:40], content))
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"{role}: {content}" for role, content in texts) + "\n\nassistant:"


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


FORMAT: Final = Format(
    "jsonl", "prompt or messages, max_tokens, and arrival_s where requests have times", read
)
