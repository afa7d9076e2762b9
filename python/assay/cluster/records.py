"""What was submitted from here, in the scratch folder: a client may go, and come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay import paths
from assay.errors import InputError

KIND: Final = "jobs"
_RECORD: Final = "job.json"
_FILES: Final = "files"
_MARKER: Final = "assay-job.txt"
"""A file with the id, so that no two jobs share what Ray removes with the last one that uses it."""
_SUFFIXES: Final = (".toml", ".json", ".jsonl", ".yaml", ".yml", ".csv")
MOST_BYTES: Final = 64 << 20
"""Of all files that travel with a job."""


@dataclass(frozen=True)
class Record:
    """A job that was submitted from here."""

    id: str
    address: str
    arguments: Sequence[str]
    command: str
    files: Path | None
    """The folder of copied files; None where no argument names one."""
    script: str = ""
    """A Python file among them that runs in the place of a command of Assay."""


def folder() -> Path:
    """Where records are."""
    return paths.scratch() / KIND


def write(
    name: str, address: str, arguments: Sequence[str], command: str, script: Path | None = None
) -> Record:
    """Record a job before it is submitted, with a copy of every file that an argument names.

    A `script` brings the Python files that are beside it.
    """
    here = folder() / name
    here.mkdir(parents=True)
    changed = _copied(list(arguments), here / _FILES)
    data = {"id": name, "address": address, "arguments": changed, "command": command}
    if script is not None:
        (here / _FILES).mkdir(exist_ok=True)
        for path in script.parent.glob("*.py"):
            shutil.copyfile(path, here / _FILES / path.name)
        data["script"] = script.name
    paths.write_atomically(here / _RECORD, json.dumps(data, indent=1).encode() + b"\n")
    if (here / _FILES).is_dir():
        (here / _FILES / _MARKER).write_text(name, "utf-8")
    record = read(name)
    assert record is not None
    return record


def read(name: str) -> Record | None:
    """A record by the id of its job, or by the unique start of one; None where there is none."""
    ids = [path.name for path in _stored()]
    matching = [name] if name in ids else [each for each in ids if name and each.startswith(name)]
    if len(matching) > 1:
        raise InputError(f"job {name}: expected one, got {len(matching)}", ", ".join(matching[:5]))
    if not matching:
        return None
    here = folder() / matching[0]
    data = json.loads((here / _RECORD).read_text("utf-8"))
    files = here / _FILES
    return Record(**data, files=files if files.is_dir() else None)


def addresses() -> list[str]:
    """Heads that jobs were submitted to, the latest first."""
    records = [read(path.name) for path in sorted(_stored(), reverse=True)]
    return list(dict.fromkeys(record.address for record in records if record is not None))


def _stored() -> list[Path]:
    here = folder()
    return [path for path in here.iterdir() if (path / _RECORD).is_file()] if here.is_dir() else []


def _copied(arguments: list[str], into: Path) -> list[str]:
    """The arguments, with the names of copies in the place of files of this machine."""
    changed, total = [], 0
    for number, word in enumerate(arguments):
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        path = Path(value).expanduser()
        if number == 0 or not _is_file(path):
            changed.append(word)
            continue
        total += path.stat().st_size
        if total > MOST_BYTES:
            raise InputError(
                f"{path}: expected at most {MOST_BYTES >> 20} MiB of files for a job, got more",
                "put large files where every node finds them, and name them by address",
            )
        into.mkdir(parents=True, exist_ok=True)
        # The name stays last: what a file is, is told by how its name ends.
        copy = into / f"{number}-{path.name}"
        shutil.copyfile(path, copy)
        changed.append(f"{option}{equals}{copy.name}")
    return changed


def _is_file(path: Path) -> bool:
    """Whether a word is meant as a file: names of variables have dots too."""
    if path.suffix not in _SUFFIXES and len(path.parts) < 2:
        return False
    try:
        return path.is_file()
    except OSError:
        return False
