"""Telemetry of a run: what the machine was like, kept as state.parquet."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import AssayError
from assay.improve.journal.run_folder import RunFolder
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.telemetry.session import State

RATE_HZ: Final = 1.0
_STAGING: Final = "telemetry"
"""The folder of the recording while the run goes on."""


class Recording:
    """Samples the machine until `finish`; a run without telemetry goes on, and says so."""

    def __init__(self, folder: RunFolder, workload: str, engine: Any = None) -> None:
        """Start to sample; `engine` is one of this process, whose counters are added."""
        self.gap = ""
        self._folder = folder
        self._state: State | None = None
        self._path = _free(folder.path / _STAGING)
        try:
            from assay.observe.telemetry import telemetry
            from assay.observe.telemetry.sinks.parquet import Parquet

            state = telemetry(
                [Parquet(self._path)],
                rate=RATE_HZ,
                run=folder.id,
                workload=workload,
                endpoints=[],
                engine=engine,
            )
            state.start()
            self._state = state
        except (AssayError, ImportError) as error:
            self.gap = f"no telemetry of the run: {error}"

    def phase(self, name: str) -> None:
        """Label the samples from now on."""
        if self._state is not None:
            self._state.phase(name)

    def samples(self) -> pl.DataFrame | None:
        """What is on disk so far."""
        from assay.observe.telemetry import reading

        try:
            return reading.read(str(self._path))
        except AssayError:
            # Nothing has been written yet: the first seconds of a run.
            return None

    def finish(self) -> None:
        """Stop, and keep everything in one file."""
        if self._state is None:
            return
        self._state.close()
        self._state = None
        from assay.observe.telemetry import reading

        try:
            table = reading.read(str(self._path))
        except AssayError as error:
            self.gap = f"no telemetry of the run: {error.message}"
            return
        if self._folder.state.is_file():
            # Of an earlier part of the run.
            table = pl.concat([pl.read_parquet(self._folder.state), table], how="diagonal")
        content = BytesIO()
        table.write_parquet(content)
        self._folder.write(self._folder.state.name, content.getvalue())
        shutil.rmtree(self._path, ignore_errors=True)


def _free(path: Path) -> Path:
    """A folder that is not there yet: an earlier part of the run may have left one."""
    if path.exists():
        shutil.rmtree(path)
    return path
