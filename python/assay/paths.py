"""Paths on disk: one scratch folder, created on the first write to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def scratch() -> Path:
    """The scratch folder: `ASSAY_SCRATCH`, else the user's cache folder."""
    if chosen := os.environ.get("ASSAY_SCRATCH"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "assay"
    return Path.home() / ".cache" / "assay"


def cache(kind: str) -> Path:
    """The cache folder of one kind of regenerable data, such as `tapes`."""
    return scratch() / "cache" / kind


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file in the same folder, then rename."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that replaces `path` when all is written; after an error it is removed."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # A failed write, as on a full disk, does not name its file by itself.
            error.filename = str(path)
        raise
