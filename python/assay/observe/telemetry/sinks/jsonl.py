"""JSON lines: a header, then one object a sample, then a summary; each line has a `record`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.observe.telemetry.sample import FORMAT, RunHeader, Sample, to_json
from assay.observe.telemetry.sinks.sink import Summary


class JsonLines:
    """Appends to a file; a batch is synced to the disk before it is acknowledged."""

    batch_s = 1.0
    batch_samples = 1000

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"jsonl:{self.path}"
        self._file: Any = None
        self._end = 0

    def open(self, header: RunHeader) -> None:
        """Open for appending; a line that a crash cut short is ended first."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab+")  # noqa: SIM115
            self._end = os.fstat(self._file.fileno()).st_size
            if self._end:
                self._file.seek(self._end - 1)
                if self._file.read(1) != b"\n":
                    self._append(b"\n")
            described = {"record": "header", "format": FORMAT, **dataclasses.asdict(header)}
            self._append(_line(described))
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def write(self, samples: Sequence[Sample]) -> None:
        """Append a line a sample and sync."""
        self._append(b"".join(_line({"record": "sample", **sample.row()}) for sample in samples))

    def close(self, summary: Summary) -> None:
        """Append what is missing and how it ended."""
        try:
            self._append(_line({"record": "summary", **dataclasses.asdict(summary)}))
        finally:
            self._file.close()

    def _append(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
            os.fdatasync(self._file.fileno())
        except OSError:
            # Half a batch must not stay, or trying again would double its lines.
            self._discard()
            raise
        self._end += len(data)

    def _discard(self) -> None:
        path = self._file.name
        # Closing flushes what Python still buffers, which may fail once more.
        with contextlib.suppress(OSError):
            self._file.close()
        self._file = open(path, "ab+")  # noqa: SIM115
        self._file.truncate(self._end)


def _line(data: dict[str, Any]) -> bytes:
    return (to_json(data) + "\n").encode()
