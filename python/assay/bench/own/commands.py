"""Commands as programs: the data are a file or standard input, outputs what is printed or written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import numpy as np

from assay.bench.claims.claim import OwnWork
from assay.bench.claims.reading_work import INPUT, OUTPUT, SEED
from assay.bench.harness.case import Unit
from assay.bench.harness.program_check import SeparateProgram
from assay.bench.own.values import BYTES, OwnData, as_file
from assay.errors import InputError
from assay.workloads.contract import Arrays, DataSet

_LONG_AGO_NS: Final = 10**18
"""When inputs were written, as their files have it: a later write sets the present time."""


class CommandProgram(SeparateProgram):
    """One run of a command in the folder of the claim."""

    def __init__(
        self,
        words: tuple[str, ...],
        folder: Path,
        work: OwnWork,
        unit: Unit | None = None,
        *,
        is_per_call: bool = True,
        is_of_work: bool = True,
    ) -> None:
        """Look for the program; `unit` is that of the value which the command reports.

        A value that is not of its work (of bytes where rows are counted) cannot be held against
        the time that the command ran.
        """
        self.text = " ".join(words)
        self.folder = folder.resolve()
        self.work = work
        self.unit = unit if work.value else None
        self.is_per_call, self.is_of_work = is_per_call, is_of_work
        self.last_run_s = 0.0
        """Seconds from start to end, or those that the value stands for."""
        self.last_wall_s = 0.0
        self._words = (_program(self.text, words[0], self.folder), *words[1:])
        place = Path(tempfile.mkdtemp(prefix="assay-claim-"))
        self._end = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._input, self._output = place / "input", place / "output"
        self._data: OwnData | None = None
        self._given: tuple[int, ...] = ()
        self._written: bytes | None = None

    def load(self, data: DataSet) -> None:
        """Write the data to the file that the command reads, unless it is there as it was written."""
        assert isinstance(data, OwnData)
        if data is self._data and _mark(self._input) == self._given:
            return
        self._input.unlink(missing_ok=True)
        self._input.write_bytes(as_file(data.values[0]))
        # Clocks of file systems tick too rarely to tell a write that follows at once.
        os.utime(self._input, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
        self._data, self._given = data, _mark(self._input)

    def run(self) -> Mapping[str, float]:
        """Run the command; its time is from start to end, without what is read of it."""
        assert self._data is not None
        words = [self._filled(word, self._data) for word in self._words]
        reads = not any(INPUT in word for word in self._words)
        self.poison()
        source = self._input if reads else Path(os.devnull)
        with source.open("rb") as given:
            start = time.perf_counter()
            done = self._run(words, given)
            self.last_wall_s = time.perf_counter() - start
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = said[-1] if said else "it said nothing"
            raise InputError(f"{self.text}: expected exit code 0, got {done.returncode}: {why}")
        printed = done.stdout
        self.last_run_s = self.last_wall_s
        if self.unit is not None:
            printed, value = self._reported(done.stdout)
            self.last_run_s = self._seconds(value, self.unit, self._data)
        self._written = printed
        if any(OUTPUT in word for word in self._words):
            if not self._output.is_file():
                raise InputError(f"{self.text}: expected the file {OUTPUT}, got none")
            self._written = self._output.read_bytes()
        return {}

    def _run(self, words: list[str], given: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
        limit = self.work.timeout_s
        try:
            return subprocess.run(
                words, cwd=self.folder, stdin=given, capture_output=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{self.text}: expected an end within {limit:g} s, got none",
                "work.timeout_s is the limit",
            ) from None
        except OSError as error:
            raise InputError(f"{self.text}: cannot be run: {error.strerror}") from None

    def _filled(self, word: str, data: OwnData) -> str:
        filled = {
            INPUT: str(self._input),
            OUTPUT: str(self._output),
            SEED: str(data.seed),
            "{size}": str(data.size),
            "{python}": sys.executable,
        }
        for name, value in filled.items():
            word = word.replace(name, value)
        return word

    def _reported(self, printed: bytes) -> tuple[bytes, float]:
        """What was printed before the last line, and the value of that line."""
        before, _, last = printed.rstrip().rpartition(b"\n")
        name = self.work.value
        try:
            value = json.loads(last)[name]
        except (ValueError, TypeError, KeyError):
            value = None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            got = last.decode("utf-8", "replace")[:80]
            raise InputError(
                f'{self.text}: expected a last line such as {{"{name}": 1.5}}, got {got!r}'
            )
        if not 0 < value < 1e300:
            raise InputError(
                f"{self.text}: {name}: expected a finite number above 0, got {value}",
                "figures are divided by each other",
            )
        return (before + b"\n" if before else b""), float(value)

    def _seconds(self, value: float, unit: Unit, data: OwnData) -> float:
        """What the clock of a harness would have read for the figure to be this value."""
        if unit.kind == "rate":
            seconds = data.units / (value * unit.scale)
        else:
            seconds = value * unit.scale
            if unit.kind == "time" and not self.is_per_call:
                seconds *= data.units
        is_of_a_run = unit.kind in ("rate", "time") and self.is_of_work
        if is_of_a_run and seconds > self.last_wall_s:
            raise InputError(
                f"{self.text}: {self.work.value}: expected at most the {self.last_wall_s:.3g} s that the "
                f"command ran, got {seconds:.3g} s",
                "metric names the unit of the value",
            )
        return seconds

    def own_seconds(self) -> float | None:
        """The time of the last run, or what it reported."""
        return self.last_run_s

    def outputs(self) -> Arrays:
        """What it printed or wrote."""
        if self._written is None:
            return {}
        return {f"0/{BYTES}": np.frombuffer(self._written, np.uint8)}

    def poison(self) -> None:
        """Forget what it wrote."""
        self._written = None
        self._output.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove its files."""
        self._end()


def _mark(path: Path) -> tuple[int, ...]:
    """What a file has until somebody writes to it or replaces it; nothing where there is none."""
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _program(text: str, word: str, folder: Path) -> str:
    """Where a program is: beside the claim if it has a slash, else on PATH."""
    if word == "{python}":
        return word
    place = folder / word
    program = shutil.which(str(place) if "/" in word else word)
    if program is None:
        raise InputError(
            f"{text}: expected the program {word}, got none",
            f"it is looked for {'at ' + str(place) if '/' in word else 'on PATH'}",
        )
    return program
