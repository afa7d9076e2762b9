"""Questions about the library: which levers there are, how one works, whether a file is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers import Answer
from assay.errors import unknown_name
from assay.improve.levers import loading
from assay.improve.levers.lever import Lever


@dataclass(frozen=True)
class Levers(Answer):
    """Levers of the library and of files: `assay levers list` and `assay levers show`."""

    levers: Sequence[Lever]

    def to_json(self) -> list[dict[str, Any]]:
        """Each lever as plain data."""
        return [lever.to_json() for lever in self.levers]


@dataclass(frozen=True)
class ValidLevers(Answer):
    """How many levers each file has, all of them valid: `assay levers check`."""

    counts: Mapping[str, int]

    def to_json(self) -> list[dict[str, Any]]:
        """A row for each file."""
        return [{"file": name, "levers": number} for name, number in self.counts.items()]


def list_levers(engine: str | None = None, files: Sequence[Path] = ()) -> Levers:
    """The levers of an engine, or of all: the library's, and those of files."""
    levers = loading.load(None, files)
    engines = sorted({lever.engine for lever in levers})
    if engine is None:
        return Levers(levers)
    if engine not in engines:
        raise unknown_name("engine", engine, engines)
    return Levers([lever for lever in levers if lever.engine in (engine, loading.ANY)])


def show_levers(name: str, files: Sequence[Path] = ()) -> Levers:
    """The levers of a name, of several engines perhaps; ENGINE/NAME is one."""
    return Levers(loading.find(loading.load(None, files), name))


def check_lever_files(files: Sequence[Path] = ()) -> ValidLevers:
    """Check lever files, or the library if none is given; the first mistake is raised."""
    if files:
        loading.load(None, files)
        return ValidLevers({str(path): len(loading.read(path)) for path in files})
    paths = sorted(loading.LIBRARY.glob("*.yaml"))
    return ValidLevers({f"built-in {path.name}": len(loading.read(path)) for path in paths})
