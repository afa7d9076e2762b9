"""WEKA's traces of coding agents: a session as one JSON object, or a request a line.

    {"id": "a", "block_size": 64, "requests": [{"t": 0.0, "in": 17209, "out": 275, "hash_ids": [...]}]}

Requests of a subagent stand inside it; their times count from its start where they are earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay import files
from assay.errors import InputError
from assay.load.workloads.readers.recorded import (
    Format,
    LeftOut,
    Recorded,
    Rows,
    json_objects,
    lengths_row,
    opened,
    seconds,
    tokens,
)

BLOCK_TOKENS: Final = 64
_MAX_BYTES: Final = 1 << 30


def read(path: Path) -> Rows:
    """The requests of a file."""
    if _is_lines(path):
        for _, row in json_objects(path):
            yield _request(row, 0.0)
        return
    yield from _requests(_session(path).get("requests"), path, 0.0)


def block_tokens(path: Path) -> int:
    """Tokens of a block, which a session states."""
    if _is_lines(path):
        return BLOCK_TOKENS
    stated = _session(path).get("block_size", BLOCK_TOKENS)
    size = tokens(stated)
    if size is None:
        raise InputError(f"{path}: expected block_size in tokens, got {str(stated)[:40]!r}")
    return size


def _session(path: Path) -> Mapping[str, Any]:
    session = files.read_json("WEKA trace", path, _MAX_BYTES)
    if not isinstance(session, dict) or not isinstance(session.get("requests"), list):
        raise InputError(f"{path}: expected an object with requests, got something else")
    return session


def _is_lines(path: Path) -> bool:
    """Whether the file has a request in each line, not a session."""
    with opened(path) as file:
        return b'"requests"' not in file.read(1 << 16)


def _requests(rows: Any, path: Path, begun_s: float) -> Iterator[Recorded | LeftOut]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected a list of requests, got something else")
    for row in rows:
        if row.get("type") != "subagent":
            yield _request(row, begun_s)
            continue
        nested = row.get("requests")
        started = seconds(row.get("t")) or 0.0
        # A subagent of a subagent is in no trace: its requests would be left out as such.
        yield from _requests(nested, path, started if _is_earlier(nested, started) else 0.0)


def _is_earlier(rows: Any, started_s: float) -> bool:
    times = [seconds(row.get("t")) for row in rows or () if isinstance(row, dict)]
    return any(time is not None and time < started_s for time in times)


def _request(row: Mapping[str, Any], begun_s: float) -> Recorded | LeftOut:
    time = seconds(row.get("t"))
    arrival = None if time is None else begun_s + time
    return lengths_row(arrival, row.get("in"), row.get("out"), row.get("hash_ids"))


FORMAT: Final = Format("weka", "t (s), in, out, hash_ids of 64 tokens", read, block_tokens)
