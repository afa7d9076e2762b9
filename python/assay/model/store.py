"""On-disk caches of loaded registries and lowered tapes: data files, never code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assay._native import Tape, TapeError, build_info
from assay.paths import cache, write_atomically

FORMAT = 4
"""Raised whenever the meaning of a cached file changes."""


def fingerprint(*data: Any) -> str:
    """A short digest of plain data."""
    text = json.dumps(
        [FORMAT, build_info()["version"], *data], separators=(",", ":"), sort_keys=True
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def fingerprint_files(paths: Sequence[Path]) -> str:
    """A digest of files by path, size and modification time, without reading them."""
    facts = []
    for path in paths:
        status = path.stat()
        facts.append([str(path), status.st_size, status.st_mtime_ns])
    return fingerprint(facts)


def read_json(path: Path) -> Any:
    """Read a cached file; None when it is absent or damaged, since it can be rebuilt."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_cache(path: Path, data: bytes) -> None:
    """Write a cached file; a read-only or full disk is no error."""
    try:
        write_atomically(path, data)
    except OSError:
        return


def cached_tape(key: str, lower: Callable[[], Tape]) -> Tape:
    """The tape stored under the key, else a newly lowered one, which is then stored."""
    path = cache("tapes") / f"{key}.tape"
    try:
        return Tape.from_bytes(path.read_bytes())
    except (OSError, TapeError):
        tape = lower()
        write_cache(path, tape.to_bytes())
        return tape
