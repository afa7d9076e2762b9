"""Where Assay keeps things: one scratch folder, made when something is first written to it."""

from __future__ import annotations

import os
from pathlib import Path


def scratch() -> Path:
    """The scratch folder: `ASSAY_SCRATCH`, else the user's cache folder."""
    if chosen := os.environ.get("ASSAY_SCRATCH"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "assay"
    return Path.home() / ".cache" / "assay"


def cache(kind: str) -> Path:
    """The folder for one kind of thing that can be made again, such as `tapes`."""
    return scratch() / "cache" / kind


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file or none of it: to a temporary file beside it, then rename."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
