"""Rivals of a workload in another Python environment, which has their packages."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from assay.errors import CheckFailedError, InputError
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, ArrayWorkload, DataSet, Missing, Program

_CHILD: Final = "assay.bench.rivals.rival_process"
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_OLDEST: Final = (3, 11)
_ABOUT: Final = (
    "import importlib.metadata as metadata, importlib.util, json, sys\n"
    "known = {}\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        known[name] = metadata.version(name)\n"
    "    except metadata.PackageNotFoundError:\n"
    "        pass\n"
    "print(json.dumps({'python': list(sys.version_info[:3]), 'versions': known}))\n"
)
_ANSWERS_S: Final = 60
_ENDS_S: Final = 10
"""A process that was asked to end and has not by then is ended."""


def about(python: Path, libraries: Sequence[str]) -> dict[str, str]:
    """The version of an interpreter and of those libraries that it has; an error where it is none."""
    hint = "--rival-python takes the python of an environment that has the rivals' packages"
    try:
        done = subprocess.run(
            [str(python), "-P", "-c", _ABOUT, "numpy", *libraries],
            capture_output=True,
            text=True,
            timeout=_ANSWERS_S,
            env=environment(),
        )
        said = json.loads(done.stdout)
        version = tuple(said["python"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it answers as none"
        raise InputError(f"{python}: expected a Python interpreter: {reason}", hint) from None
    text = ".".join(map(str, version))
    if version < _OLDEST or "numpy" not in said["versions"]:
        got = text if version < _OLDEST else f"{text} without NumPy"
        raise InputError(f"{python}: expected Python 3.11 or later with NumPy, got {got}", hint)
    return {"python": text, **said["versions"]}


def prepare_elsewhere(
    python: Path, workload: ArrayWorkload, rival: str, data: DataSet, device: Device
) -> RivalElsewhere | Missing:
    """A rival in a process of this interpreter, or why it cannot run there."""
    program = RivalElsewhere(python, rival)
    asked = {
        **{"workload": workload.name, "case": workload.case},
        **{"rival": rival, "device": device.name},
    }
    try:
        said = program.ask("prepare", **asked, data=program.stored(data))
    except CheckFailedError as error:
        return Missing(error.message)
    if "missing" in said:
        return Missing(f"{said['missing']} in {python}")
    return program


class RivalElsewhere(Program):
    """The process: arrays reach it as files, and it times itself."""

    def __init__(self, python: Path, rival: str) -> None:
        """Start it."""
        self.rival = rival
        self._folder = tempfile.TemporaryDirectory(prefix="assay-rival-")
        folder = Path(self._folder.name)
        # Of this environment the other one sees this package and nothing else.
        packages = folder / "packages"
        packages.mkdir()
        (packages / "assay").symlink_to(_PACKAGE)
        self._log = (folder / "log").open("w+b")
        self._process = subprocess.Popen(
            [str(python), "-P", "-m", _CHILD],
            env={**environment(), "PYTHONPATH": str(packages)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._end = weakref.finalize(self, _end, self._process, self._log, self._folder)
        self._data: DataSet | None = None
        self._stored: dict[str, Any] = {}
        self.last_run_s = 0.0
        """Seconds of the last run, by the clock of the other process."""

    def stored(self, data: DataSet) -> dict[str, Any]:
        """Where the other process reads a data set, which is written once."""
        if self._data is not data:
            file = Path(self._folder.name) / f"{data.sha256[:16]}.npz"
            np.savez(file, allow_pickle=False, **data.arrays)
            self._data, self._stored = data, {"file": str(file), "units": data.units}
        return self._stored

    def load(self, data: DataSet) -> None:
        """Write the data; the other process loads them before it starts its clock."""
        self.stored(data)

    def run(self) -> Mapping[str, float]:
        """Run once; seconds by stage."""
        said = self.ask("run", data=self._stored)
        self.last_run_s = float(said["seconds"])
        stages: dict[str, float] = said["stages"]
        return stages

    def own_seconds(self) -> float | None:
        """By the clock of the other process."""
        return self.last_run_s

    def outputs(self) -> Arrays:
        """What it computed."""
        file = Path(self._folder.name) / "outputs.npz"
        self.ask("outputs", file=str(file))
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def poison(self) -> None:
        """Overwrite the outputs."""
        self.ask("poison")

    def close(self) -> None:
        """End the process and remove its files."""
        self._end()

    def ask(self, what: str, **about: Any) -> dict[str, Any]:
        """Send a message and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **about}) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            reason = f"its process ended: {self._last_words()}"
            raise CheckFailedError(f"rival {self.rival}: {reason}") from None
        if "error" in answer:
            raise CheckFailedError(f"rival {self.rival}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def environment() -> dict[str, str]:
    """Ours without what makes an interpreter this one."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in ours}


def _end(
    process: subprocess.Popen[str], log: IO[bytes], folder: tempfile.TemporaryDirectory[str]
) -> None:
    process.terminate()
    for pipe in (process.stdin, process.stdout):
        # A process that has ended did not read its last message.
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    try:
        process.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    log.close()
    folder.cleanup()
