"""What a store needs of the place it is in: small objects under keys, each there whole or not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from assay.errors import AssayError

RESUMES = "what has arrived stays there; the same command goes on with the rest"
"""The hint of an error in the middle of work."""
_NO_FOLDER: Final = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR),
        *(errno.EINVAL, errno.ENAMETOOLONG, errno.ELOOP),
    )
)
"""Of a place where nothing can be made: trying again changes nothing."""
BOTH_WRITE = "two who push the same at once both write it, and say that it is new"
"""What follows where a place cannot refuse the second of two writers."""


def write_hint(error: OSError) -> str:
    """What to do about a file that cannot be written."""
    if error.errno in _NO_FOLDER:
        return "name a folder that is there, or can be made"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "who runs this may not write there: name another folder, or ask its owner"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"free some space: {RESUMES}"
    return RESUMES


class StoreError(AssayError):
    """A store cannot be reached, read or written, or holds what it should not."""


class DamagedError(StoreError):
    """What an item needs is missing, or not what was pushed; other items may be whole."""


class Entry(NamedTuple):
    """An object of the store without its content."""

    key: str
    size: int
    modified: float
    """Seconds since 1970 by the clock of the store: those of writers may differ."""


class Backend(Protocol):
    """Objects under keys such as `objects/ab/ab12...`; every method may raise `StoreError`."""

    name: str
    """The place as users name it."""
    notes: tuple[str, ...]
    """What writers must know of the place, once they have written to it."""

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist; False, and nothing written, where one does."""

    def replace(self, key: str, content: bytes) -> None:
        """Write an object, whether or not one exists; readers see the old or the new one."""

    def read(self, key: str) -> bytes | None:
        """The content of an object; None where there is none."""

    def entry(self, key: str) -> Entry | None:
        """Size and time of an object; None where there is none."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every object whose key starts with a prefix that ends with a slash, in no order."""

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
