"""A store in a folder: an object is a file that is written aside, synced, and then named."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from assay.improve.journal.faults import fault_point
from assay.improve.journal.journal import sync_folder
from assay.store.backend import BOTH_WRITE, Entry, StoreError, write_hint

TEMPORARY: Final = "temporary/"
"""Files that are being written; what a killed process left there is garbage."""
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)

_READ_HINTS: Final = dict.fromkeys(
    (errno.EACCES, errno.EPERM), "who runs this may not read there: ask its owner"
)


class Folder:
    """A folder of this machine, or one that several machines mount."""

    def __init__(self, place: str) -> None:
        self.name = place
        self.notes: tuple[str, ...] = ()
        self._root = Path(place).expanduser()

    def create(self, key: str, content: bytes) -> bool:
        """Write a file unless there is one of this name."""
        target = self._root / key
        with self._errors("written"):
            if target.exists():
                return False
            with self._written(content) as temporary:
                self._make_folder(target.parent)
                try:
                    # Unlike a rename, a link fails where another writer was first.
                    os.link(temporary, target)
                except FileExistsError:
                    return False
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    # Two writers may both succeed; what they write is the same.
                    self.notes = (f"the file system of this store has no hard links: {BOTH_WRITE}",)
                    temporary.rename(target)
            fault_point("store.named")
            sync_folder(target.parent)
        return True

    def replace(self, key: str, content: bytes) -> None:
        """Write a file in the place of another."""
        target = self._root / key
        with self._errors("written"):
            with self._written(content) as temporary:
                self._make_folder(target.parent)
                temporary.replace(target)
            fault_point("store.named")
            sync_folder(target.parent)

    def read(self, key: str) -> bytes | None:
        """The bytes of a file."""
        with self._errors("read"):
            try:
                return (self._root / key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def entry(self, key: str) -> Entry | None:
        """Size and time of a file."""
        with self._errors("read"):
            try:
                status = (self._root / key).stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return Entry(key, status.st_size, status.st_mtime)

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every file below a folder; one that goes away meanwhile is left out."""
        try:
            with os.scandir(self._root / prefix) as listing:
                files = sorted(listing, key=lambda file: file.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._error("read", error) from None
        for file in files:
            if file.is_dir(follow_symlinks=False):
                yield from self.entries(f"{prefix}{file.name}/")
            elif (entry := self.entry(f"{prefix}{file.name}")) is not None:
                yield entry

    def remove(self, key: str) -> None:
        """Remove a file."""
        with self._errors("written"):
            (self._root / key).unlink(missing_ok=True)

    @contextmanager
    def _written(self, content: bytes) -> Iterator[Path]:
        """A file aside with this content, on disk; gone when the block is left."""
        folder = self._root / TEMPORARY
        self._make_folder(folder)
        path = folder / secrets.token_hex(12)
        try:
            with path.open("xb") as file:
                # A crash between the two leaves half a file, as a power cut would.
                file.write(content[: len(content) // 2])
                file.flush()
                fault_point("store.half")
                file.write(content[len(content) // 2 :])
                file.flush()
                os.fsync(file.fileno())
            fault_point("store.unnamed")
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _make_folder(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            if path != self._root:
                sync_folder(path.parent)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(what, error) from None

    def _error(self, what: str, error: OSError) -> StoreError:
        reason = error.strerror or str(error)
        hint = write_hint(error) if what == "written" else _READ_HINTS.get(error.errno or 0)
        return StoreError(f"store {self.name} cannot be {what}: {reason}", hint)
