"""The folder of a run: its name, its files, and how they are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError, unknown_name
from assay.improve.journal import journal as journals
from assay.improve.journal.faults import fault_point
from assay.json_records import dumps

LATEST: Final = "latest"
"""In the place of a run's id: the run that was started last."""
REPLICAS_NAME: Final = "replicas"
"""The folder of runs of agents on nodes of a fleet: found by their ids, not listed, never the latest."""
ACTIVE_NAME: Final = "active"
"""The folder of markers of runs under way; absent where there are none."""
GIVEN_ID: Final = "ASSAY_RUN_ID"
"""The variable that names the next run of this process."""
_ID: Final = re.compile(r"\d{8}-\d{6}-[a-z0-9-]{1,60}", re.ASCII)
_NOT_IN_ID: Final = re.compile(r"[^a-z0-9]+", re.ASCII)


def runs_folder() -> Path:
    """Where runs are stored."""
    return paths.scratch() / "runs"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def id(self) -> str:
        """The run's name: when it was started, and what it was about."""
        return self.path.name

    @property
    def trace(self) -> Path:
        """The folder of recorded traces."""
        return self.path / "trace"

    @property
    def logs(self) -> Path:
        """The folder of what server processes printed."""
        return self.path / "logs"

    @property
    def state(self) -> Path:
        """Telemetry during the run."""
        return self.path / "state.parquet"

    @property
    def plan(self) -> Path:
        """What was predicted."""
        return self.path / "plan.json"

    @property
    def residuals(self) -> Path:
        """Predicted less observed."""
        return self.path / "residuals.parquet"

    @property
    def experiments(self) -> Path:
        """Every measured block."""
        return self.path / "experiments.parquet"

    @property
    def degradations(self) -> Path:
        """What was missing or done in another way."""
        return self.path / "degradations.json"

    @property
    def configuration(self) -> Path:
        """The settings that the engine is to have: those recorded as safe, or those kept."""
        return self.path / "configuration.json"

    @property
    def report_html(self) -> Path:
        """The report as one self-contained page."""
        return self.path / "report.html"

    def write(self, name: str, content: bytes) -> Path:
        """Write a file whole or not at all, and wait until it is on disk."""
        path = self.path / name
        write_synced(path, content, path.name)
        return path

    def write_json(self, name: str, data: Any, depth: int = 2) -> Path:
        """Write data as JSON, whole or not at all."""
        from assay.improve.journal.chain import plain

        return self.write(name, f"{dumps(plain(data), depth)}\n".encode())

    def write_degradations(self, sentences: Iterable[str]) -> Path:
        """Write what was missing or done in another way, each sentence once."""
        return self.write_json(self.degradations.name, list(dict.fromkeys(sentences)))

    def read_json(self, name: str) -> Any:
        """The content of a JSON file of the run."""
        from assay.files import read_json

        return read_json("file of a run", self.path / name)


def create(subject: str = "run", root: Path | None = None) -> RunFolder:
    """Make the folder of a new run; `subject` becomes part of its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = create("Chat, 2 threads", Path(folder))
    ...     print(run.id[15:31], run.path.is_dir())
    -chat-2-threads- True
    """
    if root is None and (given := os.environ.pop(GIVEN_ID, "")):
        # A job of a cluster: it was submitted under the id of its run.
        path = runs_folder() / given
        if _ID.fullmatch(given) and not path.exists():
            path.mkdir(parents=True)
            journals.sync_folder(path.parent)
            return RunFolder(path)
    root = runs_folder() if root is None else root
    words = _NOT_IN_ID.sub("-", subject.lower()).strip("-")[:40].strip("-") or "run"
    root.mkdir(parents=True, exist_ok=True)
    while True:
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        path = root / f"{when}-{words}-{secrets.token_hex(2)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        journals.sync_folder(root)
        return RunFolder(path)


def stored(root: Path | None = None) -> list[RunFolder]:
    """The stored runs, the latest first."""
    root = runs_folder() if root is None else root
    if not root.is_dir():
        return []
    folders = [path for path in root.iterdir() if _ID.fullmatch(path.name) and path.is_dir()]
    return [RunFolder(path) for path in sorted(folders, key=lambda path: path.name, reverse=True)]


def find(name: str, root: Path | None = None) -> RunFolder:
    """The run of an id, the unique start of an id, a folder, or `latest`."""
    given = Path(name).expanduser()
    if given.is_dir() and (given / journals.NAME).is_file():
        return RunFolder(given.resolve())
    if given.is_file() and given.name.endswith((".tar.gz", ".tgz")):
        raise InputError(
            f"{name}: expected the folder of a run, got an archive",
            f"tar -xzf {name}; the folder in it is named as its run",
        )
    known = stored(root)
    if name == LATEST and known:
        return known[0]
    known += stored((runs_folder() if root is None else root) / REPLICAS_NAME)
    matches = [run for run in known if name and run.id.startswith(name)]
    exact = [match for match in matches if match.id == name]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if matches:
        raise InputError(
            f'run "{name}" is not unique: {len(matches)} runs start with it',
            f"one of: {', '.join(match.id for match in matches[:6])}",
        )
    if not known:
        raise InputError(
            f'unknown run "{name}": no runs are stored in {root or runs_folder()}',
            "assay run makes one",
        )
    raise unknown_name("run", name, [run.id for run in known])


def configuration_hash(settings: Mapping[str, Any]) -> str:
    """A hash that is equal for equal settings, whatever their order."""
    from assay.improve.journal.chain import digest

    return digest(settings)


def write_synced(path: Path, content: bytes, what: str) -> None:
    """Write a file whole or not at all; `what` names it among the fault points."""
    fault_point(f"write.{what}.before")
    with paths.replacing(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        fault_point(f"write.{what}.unnamed")
    journals.sync_folder(path.parent)
    fault_point(f"write.{what}.after")
