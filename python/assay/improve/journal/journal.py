"""The journal of a run: append-only, one writer, on disk before `append` returns.

Three files: `journal.jsonl` holds the records (`chain.py`), `journal.head` the number of records that
were acknowledged and the last hash, so that lines missing at the end are noticed, and
`journal.reserve` space that is given up when the disk is full and changes must still be undone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

from assay.closing import Closing
from assay.errors import AssayError, InputError
from assay.improve.journal.chain import GENESIS, ChainReading, Record, read_chain, to_line
from assay.improve.journal.faults import fault_point
from assay.improve.journal.records import KINDS, SAFETY_KINDS

NAME: Final = "journal.jsonl"
HEAD_NAME: Final = "journal.head"
RESERVE_NAME: Final = "journal.reserve"
RESERVE_BYTES: Final = 64 << 10
_HEAD: Final = re.compile(rb"(\d{12}) ([0-9a-f]{64})\n")
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class JournalError(AssayError):
    """A journal is damaged, is written by another process, or cannot be written."""


@dataclass(frozen=True, slots=True)
class JournalReading:
    """A journal as it is on disk; only `records` can be trusted."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    """What is wrong with lines that were acknowledged, or with the chain between lines."""
    torn_bytes: int
    """Bytes of a write at the end that did not finish and was not acknowledged."""
    head: str

    @property
    def is_intact(self) -> bool:
        """Whether every line is right and none is missing or unfinished."""
        return not self.problems and not self.torn_bytes

    def of(self, *kinds: str) -> list[Record]:
        """The records of these kinds in order."""
        return [record for record in self.records if record.kind in kinds]

    def last(self, *kinds: str) -> Record | None:
        """The latest record of these kinds."""
        return next((record for record in reversed(self.records) if record.kind in kinds), None)

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended in an orderly way, and was not resumed since."""
        last = self.last("started", "resumed", "finished")
        return last is not None and last.kind == "finished"

    def status(self) -> str:
        """One sentence: intact, or what is wrong."""
        if self.problems:
            return "; ".join(self.problems)
        if self.torn_bytes:
            return f"the last {self.torn_bytes:,} bytes are a write that did not finish"
        return f"{len(self.records):,} records, chain intact"


def read(folder: Path) -> JournalReading:
    """Read and check the journal of a run folder; damage is reported, not raised."""
    chain, problems, torn = _inspect(folder)
    return JournalReading(chain.records, tuple(problems), torn, chain.head)


def verify(folder: Path) -> JournalReading:
    """Check the journal of a run folder; raises where it is not intact."""
    reading = read(folder)
    if not reading.is_intact:
        raise JournalError(
            f"journal {folder / NAME} does not verify: {reading.status()}",
            None if reading.problems else f"assay rollback {folder.name} completes the run's end",
        )
    return reading


class Journal(Closing):
    """The one writer of a journal; holds a lock until closed."""

    def __init__(self, folder: Path, handle: int, clock: Callable[[], float]) -> None:
        """Use `create` or `open`."""
        self.folder = folder
        self._handle = handle
        self._clock = clock
        self._lock = Lock()
        self._length = 0
        self._number = 0
        self._hash = GENESIS

    @classmethod
    def create(cls, folder: Path, clock: Callable[[], float] = time.time) -> Self:
        """Start the journal of a new run."""
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / NAME).exists():
            raise JournalError(f"journal {folder / NAME} exists: expected a new run folder")
        # The head exists before the journal, or a journal without one would look cut.
        _write_new(folder / HEAD_NAME, head_text(0, GENESIS))
        _write_new(folder / RESERVE_NAME, os.urandom(RESERVE_BYTES))
        _write_new(folder / NAME, b"")
        sync_folder(folder)
        sync_folder(folder.parent)
        return cls(folder, _locked(folder / NAME), clock)

    @classmethod
    def open(cls, folder: Path, clock: Callable[[], float] = time.time) -> Self:
        """Go on with the journal of a run that was cut short or has ended.

        A write that did not finish is cut off, and a record says so. A journal that is damaged
        anywhere else is refused.
        """
        handle = _locked(folder / NAME)
        try:
            chain, problems, torn = _inspect(folder)
            if problems:
                raise JournalError(
                    f"journal {folder / NAME} is damaged: {'; '.join(problems)}",
                    "it was edited after it was written; restore the run folder from a copy",
                )
            journal = cls(folder, handle, clock)
            journal._length = chain.good_bytes
            journal._number = len(chain.records)
            journal._hash = chain.head
            cut = os.pread(handle, torn, chain.good_bytes) if torn else b""
            os.ftruncate(handle, chain.good_bytes)
            journal._write_head()
            if cut:
                text = cut.decode("utf-8", "backslashreplace")
                journal.append("torn", bytes=len(cut), text=text[:4096])
            return journal
        except BaseException:
            os.close(handle)
            raise

    @property
    def head(self) -> str:
        """The hash of the last record."""
        return self._hash

    def __len__(self) -> int:
        return self._number

    def append(self, kind: str, /, **data: Any) -> Record:
        """Add a record; when this returns, it is on disk.

        Raises `JournalError` where it cannot be written, and the journal is as it was before.
        """
        if kind not in KINDS:
            raise InputError(
                f'unknown kind of journal record "{kind}"', f"one of: {', '.join(KINDS)}"
            )
        with self._lock:
            return self._append(kind, data)

    def read(self) -> JournalReading:
        """All records so far."""
        return read(self.folder)

    def close(self) -> None:
        """Release the lock; the journal can be opened again."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _append(self, kind: str, data: Mapping[str, Any]) -> Record:
        if self._handle < 0:
            raise JournalError(f"journal {self.folder / NAME} is closed")
        at = round(self._clock(), 6)
        own, line = to_line(self._hash, self._number, at, kind, data)
        try:
            self._write(kind, line)
        except OSError as error:
            if error.errno not in _FULL or kind not in SAFETY_KINDS or not self._give_up_reserve():
                raise self._cannot_write(error) from error
            try:
                self._write(kind, line)
            except OSError as again:
                raise self._cannot_write(again) from again
        record = Record(self._number, at, kind, dict(data), own)
        self._length += len(line)
        self._number += 1
        self._hash = own
        fault_point(f"journal.{kind}.unacknowledged")
        self._write_head()
        fault_point(f"journal.{kind}.after")
        return record

    def _write(self, kind: str, line: bytes) -> None:
        """Write and flush a line, or leave the file as it was."""
        try:
            fault_point(f"journal.{kind}.before")
            half = len(line) // 2
            _write_all(self._handle, line[:half], self._length)
            # A crash here leaves half a line, as a power cut would.
            fault_point(f"journal.{kind}.torn")
            _write_all(self._handle, line[half:], self._length + half)
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, self._length)
            raise

    def _write_head(self) -> None:
        # In place: a rename would need space on a full disk, and 78 bytes fit in a sector.
        path = self.folder / HEAD_NAME
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                _write_all(handle, head_text(self._number, self._hash), 0)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise JournalError(f"{path} cannot be written: {error.strerror}") from error

    def _give_up_reserve(self) -> bool:
        try:
            (self.folder / RESERVE_NAME).unlink()
        except OSError:
            return False
        return True

    def _cannot_write(self, error: OSError) -> JournalError:
        return JournalError(
            f"journal {self.folder / NAME} cannot be written: {error.strerror}",
            "no change is made that is not recorded first; free some space, or name a folder on "
            "another disk with ASSAY_SCRATCH",
        )


def inspect(content: bytes, head: bytes) -> tuple[ChainReading, list[str], int]:
    """The chain of a journal, its problems, and the bytes of an unfinished write at its end.

    `content` and `head` are what `journal.jsonl` and `journal.head` hold.
    """
    chain = read_chain(content)
    problems = list(chain.problems)
    if (matched := _HEAD.fullmatch(head)) is None:
        problems.append(f"{HEAD_NAME} cannot be read: lines missing at the end are not excluded")
        return chain, problems, len(chain.tail)
    count, own = int(matched[1]), matched[2].decode()
    left = len(chain.records)
    if left < count:
        problems.append(f"{count:,} records were written, {left:,} are left")
        return chain, problems, len(chain.tail)
    if own != (chain.records[count - 1].hash if count else GENESIS):
        problems.append(f"record {count - 1:,} is not the one that was written")
    if chain.problems and left == count and content.count(b"\n", chain.good_bytes) == 1:
        # The one line after the last acknowledged record: its write did not finish.
        problems = problems[1:]
    return chain, problems, len(content) - chain.good_bytes


def _inspect(folder: Path) -> tuple[ChainReading, list[str], int]:
    path = folder / NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"journal {path} cannot be read: {error.strerror}") from None
    try:
        head = (folder / HEAD_NAME).read_bytes()
    except OSError:
        # Without a head the journal is read, and found not to be intact.
        head = b""
    return inspect(content, head)


def head_text(count: int, own: str) -> bytes:
    """What `journal.head` holds after so many records, the last of this hash."""
    return f"{count:012d} {own}\n".encode()


def _locked(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"journal {path} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise JournalError(
            f"journal {path} is being written by another process",
            "wait for that run to end, or stop it",
        ) from None
    return handle


def _write_new(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        _write_all(handle, content, 0)
        os.fsync(handle)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(handle)


def _write_all(handle: int, content: bytes, offset: int) -> None:
    while content:
        written = os.pwrite(handle, content, offset)
        content, offset = content[written:], offset + written


def sync_folder(path: Path) -> None:
    """Wait until the names of a folder's files are on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
