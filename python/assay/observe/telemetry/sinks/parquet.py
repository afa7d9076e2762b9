"""Parquet: small segments that are durable at once, merged into larger files as they grow.

The folder of a run holds `header.json` and files `samples-FIRST-LAST.parquet`, which hold the
segments of those numbers. A file is written under a temporary name, synced and renamed. Merging
writes one file for many segments and then removes those; a crash between the two
leaves both, and a reader ignores a file whose numbers lie within another's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.telemetry import table
from assay.observe.telemetry.sample import FORMAT, RunHeader, Sample
from assay.observe.telemetry.sinks.sink import Summary

HEADER: Final = "header.json"
MERGED: Final = 32
"""Segments that are merged into one file."""

_NAME: Final = re.compile(r"samples-(\d{6,})-(\d{6,})\.parquet")


class Parquet:
    """A folder of Parquet files; `read` of `assay.observe.telemetry.reading` opens it."""

    batch_s = 10.0
    batch_samples = 5000

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"parquet:{self.path}"
        self._header: RunHeader | None = None
        self._next = 0
        self._segments: list[Path] = []

    @classmethod
    def default(cls, run: str) -> Parquet:
        """In the folder telemetry of the scratch folder."""
        return cls(folder() / run)

    def open(self, header: RunHeader) -> None:
        """Make the folder; one that holds something else is refused."""
        table.warm_up(header)
        self._header = header
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(
                file.name == HEADER or _NAME.fullmatch(file.name) for file in self.path.iterdir()
            ):
                raise InputError(
                    f"{self.path}: holds a recording already", "name another folder, or remove it"
                )
            self._write_header(None)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def write(self, samples: Sequence[Sample]) -> None:
        """Write a segment; it is on the disk when this returns."""
        assert self._header is not None
        data = table.to_parquet(table.of_samples(samples), self._header)
        path = self.path / _name(self._next, self._next)
        _write_synced(path, data)
        self._next += 1
        self._segments.append(path)
        if len(self._segments) >= MERGED:
            self._merge()

    def close(self, summary: Summary) -> None:
        """Merge what is left and write how it ended."""
        if len(self._segments) > 1:
            self._merge()
        self._write_header(summary)

    def _merge(self) -> None:
        """Write the segments as one file, then remove them."""
        assert self._header is not None
        last = self._next - 1
        first = last - len(self._segments) + 1
        whole = pl.concat([pl.read_parquet(segment) for segment in self._segments])
        _write_synced(self.path / _name(first, last), table.to_parquet(whole, self._header))
        for segment in self._segments:
            segment.unlink(missing_ok=True)
        self._segments = []

    def _write_header(self, summary: Summary | None) -> None:
        assert self._header is not None
        data: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(self._header)}
        data["summary"] = None if summary is None else dataclasses.asdict(summary)
        _write_synced(self.path / HEADER, json.dumps(data, indent=2).encode())


def folder() -> Path:
    """Where recordings go unless told otherwise."""
    return paths.scratch() / "telemetry"


def _name(first: int, last: int) -> str:
    return f"samples-{first:06d}-{last:06d}.parquet"


def current(names: Iterable[str]) -> list[str]:
    """The files of a recording in order, without those that a larger one replaces.

    >>> current([_name(0, 0), _name(1, 1), _name(0, 1), _name(2, 2), "other"])
    ['samples-000000-000001.parquet', 'samples-000002-000002.parquet']
    """
    spans = []
    for name in names:
        if matched := _NAME.fullmatch(name.rpartition("/")[2]):
            spans.append((int(matched[1]), -int(matched[2]), name))
    kept: list[str] = []
    covered = -1
    for first, last, name in sorted(spans):
        if first > covered:
            kept.append(name)
            covered = -last
    return kept


def _write_synced(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
