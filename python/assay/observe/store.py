"""The folder of stored traces, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from assay import paths
from assay.answers import Answer
from assay.errors import InputError
from assay.observe.header import TraceHeader

HEADER = "header.json"
"""The file that makes a folder a stored trace."""


class StoredTrace(NamedTuple):
    """A stored trace, without its tables."""

    name: str
    path: Path
    header: TraceHeader | None
    """None where it cannot be read."""
    nbytes: int
    modified: datetime


def folder() -> Path:
    """Where traces are stored unless a command is given another place."""
    return paths.scratch() / "traces"


def new_path(label: str) -> Path:
    """A path for a new trace, named by label and time, that does not exist."""
    stem = f"{label}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    path, number = folder() / stem, 1
    while path.exists():
        number += 1
        path = folder() / f"{stem}-{number}"
    return path


def find(name: str) -> Path:
    """The path of a trace given as a path, or by its name in the folder of stored traces."""
    path = Path(name)
    if path.exists() or "/" in name:
        return path
    stored = folder() / name
    return stored if stored.exists() else path


def stored() -> Iterator[StoredTrace]:
    """Every stored trace, the latest first."""
    if not folder().is_dir():
        return
    folders = [path for path in folder().iterdir() if (path / HEADER).is_file()]
    for path in sorted(folders, key=lambda path: (-path.stat().st_mtime_ns, path.name)):
        files = [file.stat() for file in path.rglob("*") if file.is_file()]
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        yield StoredTrace(
            path.name, path, _header(path / HEADER), sum(file.st_size for file in files), modified
        )


def _header(path: Path) -> TraceHeader | None:
    try:
        return TraceHeader.from_json(path.read_text(encoding="utf-8"), str(path))
    except (InputError, OSError, UnicodeDecodeError, TypeError):
        # A listing names it as unreadable; opening it says why.
        return None


@dataclass(frozen=True, kw_only=True)
class StoredTraces(Answer):
    """The stored traces, the latest first."""

    path: str
    traces: Sequence[Mapping[str, Any]]


def list_traces() -> StoredTraces:
    """List the traces in the folder of stored traces."""
    return StoredTraces(path=str(folder()), traces=[to_json(trace) for trace in stored()])


def to_json(trace: StoredTrace) -> dict[str, Any]:
    """What a listing says of a trace."""
    header = trace.header
    return {
        "name": trace.name,
        "path": str(trace.path),
        "readable": header is not None,
        "source": header.source if header else None,
        "engine": header.engine if header else None,
        "model": header.model if header else None,
        "bytes": trace.nbytes,
        "modified": trace.modified.isoformat(timespec="seconds"),
    }
