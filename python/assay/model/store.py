"""On-disk caches of loaded registries, lowered tapes and sample points: data files, never code.

A cached file is a header of format, kind and digest, then its content. A file that is absent is built;
one that does not match its digest is rebuilt, and a warning says so: a flipped bit in an equation
would otherwise be a wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from assay._native import Tape, TapeError, build_info
from assay.paths import cache, write_atomically

FORMAT = 10
"""Raised whenever the meaning of a cached file changes."""
_MAGIC = f"assay cache {FORMAT}\n".encode()
_HEADER_SIZE = len(_MAGIC) + hashlib.sha256().digest_size

_noted: set[Path] = set()


def fingerprint(*data: Any) -> str:
    """A short digest of plain data."""
    text = json.dumps(
        [FORMAT, build_info()["version"], *data], separators=(",", ":"), sort_keys=True
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def fingerprint_sources(folders: Iterable[Path], endings: tuple[str, ...] = (".py",)) -> str:
    """A digest of the files below folders: path, size and modification time of each."""
    facts = []
    for entry in _files(folders, endings):
        status = entry.stat()
        facts.append([entry.path, status.st_size, status.st_mtime_ns])
    return fingerprint(sorted(facts))


def fingerprint_contents(folders: Iterable[Path], endings: tuple[str, ...]) -> str:
    """A digest of the files below folders: path and content of each.

    For what takes much longer to compute than files take to read: another checkout of the same
    files has the same digest.
    """
    facts = []
    for folder in folders:
        for entry in _files([folder], endings):
            content = hashlib.blake2b(Path(entry.path).read_bytes(), digest_size=16)
            name = Path(entry.path).relative_to(folder).as_posix()
            facts.append([folder.name, name, content.hexdigest()])
    return fingerprint(sorted(facts))


def _files(folders: Iterable[Path], endings: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    pending = [str(folder) for folder in folders]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(endings):
                    yield entry
                elif entry.is_dir():
                    pending.append(entry.path)


def read_cache(path: Path) -> bytes | None:
    """The content of a cached file; None when it is absent or damaged, since it can be rebuilt."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    content = stored[_HEADER_SIZE:]
    if stored[:_HEADER_SIZE] == _MAGIC + _digest(path, content):
        return content
    warn_damaged(path)
    return None


def write_cache(path: Path, content: bytes) -> None:
    """Write a cached file; a read-only or full disk is no error."""
    try:
        write_atomically(path, _MAGIC + _digest(path, content) + content)
    except OSError:
        return


def warn_damaged(path: Path) -> None:
    """Log, once a process, that a cached file is not what was written there."""
    if path in _noted:
        return
    import logging

    _noted.add(path)
    logging.getLogger("assay").warning(
        "cached file %s is damaged: its content does not match its digest; rebuilding it", path
    )


def cached_tape(key: str, lower: Callable[[], Tape]) -> Tape:
    """The tape stored under the key, else a newly lowered one, which is then stored."""
    path = cache("tapes") / f"{key}.tape"
    content = read_cache(path)
    if content is not None:
        try:
            return Tape.from_bytes(content)
        except TapeError:
            warn_damaged(path)
    tape = lower()
    write_cache(path, tape.to_bytes())
    return tape


def _digest(path: Path, content: bytes) -> bytes:
    # The name is part of it: a file moved to another key would answer another question.
    digest = hashlib.sha256(path.name.encode())
    digest.update(content)
    return digest.digest()
