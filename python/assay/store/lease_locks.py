"""Which pushes of this machine have died: each holds a lock in the cache folder while its process lives.

Other machines learn of a death when the lease expires. Here the kernel gives the lock up with the
process, so that a push that goes on, and a removal of garbage, need not wait for that.
"""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from assay import paths

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_KEPT_S: Final = 86_400.0
"""So long after a death its file stays, at most: the lease has expired long before."""


@contextmanager
def locked(store_id: str, lease: str) -> Iterator[None]:
    """A block whose end, by the death of the process too, `is_dead` sees.

    Without a place for the file there is none, and the lease expires by its age.
    """
    folder = _folder(store_id)
    path, unlocked = folder / lease, folder / f".{lease}"
    handle = None
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Under its name only now: what has that name is locked, or its process is dead.
        unlocked.rename(path)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def forget(store_id: str, lease: str) -> None:
    """Remove the file of a lease that is gone from the store."""
    with suppress(OSError):
        (_folder(store_id) / lease).unlink(missing_ok=True)


def is_dead(store_id: str, lease: str) -> bool:
    """Whether a process of this machine held a lease and has ended; False of other machines."""
    path = _folder(store_id) / lease
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def dead(store_id: str) -> list[str]:
    """The leases whose processes on this machine have ended."""
    folder = _folder(store_id)
    try:
        files = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
        old = [path for path in folder.parent.iterdir() if _is_old(path)]
    except OSError:
        return []
    for boot in old:
        with suppress(OSError):
            for path in boot.iterdir():
                path.unlink(missing_ok=True)
            boot.rmdir()
    return [path.name for path in files if is_dead(store_id, path.name)]


def _is_old(folder: Path) -> bool:
    return folder.name != _boot() and time.time() - folder.stat().st_mtime > _KEPT_S


def _folder(store_id: str) -> Path:
    """Of this boot of this machine: others may have the same cache folder, and their locks are not seen here."""
    return paths.cache("stores") / f"{store_id}.pushes" / _boot()


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return platform.node() or "machine"
