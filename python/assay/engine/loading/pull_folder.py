"""The folder that a model is downloaded into: locked, swept, and with space for it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from assay.errors import AssayError

Progress = Callable[[str], None]

TEMPORARY: Final = ".pull."
SPACE_HINT: Final = "free some space, or name a folder on another disk with ASSAY_SCRATCH"
_CHUNK: Final = 1 << 20


class PullError(AssayError):
    """A download failed."""

    exit_code = 1


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time downloads into a folder; the others then find it done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The lock says that no pull is running: what is left is of one that was killed.
        for leftover in folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def check_space(folder: Path, needed: int) -> None:
    """Refuse a download for which there is no space."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PullError(
            f"{folder}: expected {needed / 1e6:,.0f} MB free, got {free / 1e6:,.0f} MB", SPACE_HINT
        )


def disk_full(folder: Path, what: str, needed: int) -> PullError:
    """The error of a disk that filled up during the download."""
    return PullError(
        f"{folder}: no space left on the device; {what} needs about {needed / 1e6:,.0f} MB",
        SPACE_HINT,
    )


def sha256_of(*parts: IO[bytes], copy: IO[bytes] | None = None) -> str:
    """The hash of what is read, part after part, which is written to `copy` on the way."""
    total = hashlib.sha256()
    for part in parts:
        with part:
            while chunk := part.read(_CHUNK):
                total.update(chunk)
                if copy is not None:
                    copy.write(chunk)
    return total.hexdigest()
