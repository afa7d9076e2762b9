"""A request as a recording has it, and what every reader of recordings needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.load.workloads.texts import MAX_TOKENS

MAX_LINE: Final = 16 << 20
"""Bytes of one row."""
MAX_BYTES: Final = 4 << 30
"""Bytes of a recording; rows after the limit are not read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request: its text, or lengths from which a text is made."""

    output_tokens: int
    arrival_s: float | None = None
    input_tokens: int | None = None
    prompt: str | None = None
    blocks: tuple[int, ...] = ()
    """Identifiers of blocks at the beginning of the prompt: the same one is the same text."""
    sampling: Mapping[str, float | int] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the request that are sent as they are."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation of a chat; `prompt` is its text."""
    prefix_tokens: int = 0
    assumed: tuple[str, ...] = ()
    """What the row did not say, in the plural, for the notes."""
    model: str = ""
    """The model that was asked, where the recording says it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is no request that can be sent."""

    reason: str
    """Why, in the plural: rows without an output length."""


Rows = Iterator[Recorded | LeftOut]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of recordings."""

    name: str
    meaning: str
    read: Callable[[Path], Rows]
    block_tokens: Callable[[Path], int] = lambda path: 1
    """Tokens of a block of this file."""


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Every line of a file that is not blank, as JSON, with its place for errors."""
    with opened(path) as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > MAX_LINE:
                raise InputError(
                    f"{where}: expected at most {MAX_LINE:,} bytes in a line, got more"
                )
            if line.strip():
                yield where, _parsed(line, where)


def json_objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a file of JSON lines."""
    for where, row in json_lines(path):
        yield where, as_object(row, where)


def as_object(row: Any, where: str) -> Mapping[str, Any]:
    """The row, if it is an object."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected a JSON object, got {type(row).__name__}")
    return row


def opened(path: Path) -> Any:
    """A recording, open for reading bytes."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: expected a file of requests, got a folder")
        if path.exists() and not path.is_file():
            raise InputError(
                f"{path}: expected a file of requests, got something that is not a file"
            )
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: expected at most {MAX_BYTES:,} bytes, got {size:,}")
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: expected a file of requests, got: {error.strerror}") from None


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected JSON, got: {str(error)[:200]}") from None


def tokens(value: Any) -> int | None:
    """A count of tokens, or None where it is none that a request can have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 1 <= value <= MAX_TOKENS and value == int(value) else None


def seconds(value: Any, unit: float = 1.0) -> float | None:
    """A time in seconds, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        time = float(value) * unit
    except OverflowError:
        return None
    # A thousand years: beyond it, differences of times lose their milliseconds.
    return time if abs(time) < 3.2e10 else None


def block_ids(value: Any) -> tuple[int, ...] | None:
    """Identifiers of blocks; none given is an empty tuple, and None is something else."""
    if value is None:
        return ()
    if not isinstance(value, list):
        return None
    if any(isinstance(identifier, bool) or not isinstance(identifier, int) for identifier in value):
        return None
    return tuple(value)


def lengths_row(
    arrival_s: float | None, input_tokens: Any, output_tokens: Any, blocks: Any = None
) -> Recorded | LeftOut:
    """A request of lengths only, as most recordings of servers have it."""
    prompt, output = tokens(input_tokens), tokens(output_tokens)
    if prompt is None:
        return LeftOut(_reason("input", input_tokens))
    if output is None:
        return LeftOut(_reason("output", output_tokens))
    if arrival_s is None:
        return LeftOut("rows without a time")
    ids = block_ids(blocks)
    if ids is None:
        return LeftOut("rows whose hash_ids are not whole numbers")
    return Recorded(output, arrival_s, prompt, blocks=ids)


def _reason(which: str, value: Any) -> str:
    if value is None or value == "":
        return f"rows without an {which} length"
    if isinstance(value, int | float) and value == 0:
        return f"rows of no {which} tokens"
    return f"rows whose {which} length is not from 1 to {MAX_TOKENS:,} tokens"
