"""The overhead of `assay trace attach`: the injected library, idle and recording.

The program that is traced is our own runtime in a child process, so that no other library is
needed. An idle library is compared with none, in two processes that take turns; recording is
turned on and off in one process through the control file.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from assay._native import read_event_shard
from assay.bench.harness.case import Case, Check, PreparedCase, Subject
from assay.bench.harness.clocks import SelfTimedClock
from assay.errors import InputError
from assay.observe.attach.injection import TraceFolder

WORKLOADS: Final = {
    "decode graph": "ms",
    "decode eager": "ms",
    "gemm": "us",
    "small kernels one by one": "us",
    "small kernels in a graph": "us",
}
"""Workloads of the program, and the unit of each."""

MAX_SECONDS: Final = 600.0
_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.01
_SETTLE_S: Final = 0.1
"""From a new shard until CUPTI records: the session is started right after it."""

_SELF_TIMED: Final = SelfTimedClock()


class AttachedProgram:
    """A program that runs a block for each line it is given, with or without the library."""

    def __init__(self, command: Sequence[str], folder: TraceFolder | None) -> None:
        """Start it; with a folder the CUDA driver loads the library into it."""
        self.folder = folder
        self.missing = 0
        """Kernels of recorded blocks that no shard has."""
        environment = dict(os.environ) if folder is None else folder.environment(os.environ)
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # The program ends with its standard input, also where nobody closes it.
        self._end = weakref.finalize(self, _end, self._process, folder)

    def run(self, workload: str) -> tuple[float, int]:
        """Mean seconds of a step of one block, and how many kernels it launched."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{workload}\n")
            self._process.stdin.flush()
            said = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            raise InputError(
                f"the traced program ended in the workload {workload}: exit code "
                f"{self._process.wait()}",
                "what it said is on standard error",
            ) from None
        return float(said["seconds"]), int(said["kernels"])

    def recorded(self, workload: str) -> float:
        """The same while every kernel is recorded."""
        assert self.folder is not None
        self.folder.control(armed=True)
        try:
            _wait("the traced program to record", lambda: self._shards(1))
            time.sleep(_SETTLE_S)
            seconds, kernels = self.run(workload)
        finally:
            self.folder.control(armed=False)
        _wait("the traced program to stop recording", lambda: self._is_ended())
        (shard,) = self.folder.shards()
        self.missing += max(0, kernels - len(read_event_shard(shard)[0]))
        shard.unlink()
        return seconds

    def close(self) -> None:
        """End the program and remove its shards."""
        self._end()

    def _shards(self, count: int) -> bool:
        return self.folder is not None and len(self.folder.shards()) == count

    def _is_ended(self) -> bool:
        assert self.folder is not None
        return all(read_event_shard(path)[2] for path in self.folder.shards())


def _end(process: subprocess.Popen[str], folder: TraceFolder | None) -> None:
    """Close the program's input and output, and wait for it."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if folder is not None:
        folder.remove()


def _wait(what: str, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise InputError(
                f"waited {_TIMEOUT_S:g} s for {what}",
                'pip install "assay[gpu]" brings CUPTI, with which it records',
            )
        time.sleep(_POLL_S)


class Programs:
    """The programs of all cases: one with the library, one without."""

    def __init__(self, model: str, device: str, steps: int) -> None:
        module = "assay.bench.suites.attached_workload"
        self.command = [sys.executable, "-m", module, device, model, str(steps)]

    @functools.cached_property
    def plain(self) -> AttachedProgram:
        """A program without the library."""
        return AttachedProgram(self.command, None)

    @functools.cached_property
    def traced(self) -> AttachedProgram:
        """A program with the library."""
        return AttachedProgram(self.command, TraceFolder(Path(tempfile.gettempdir())))


def cases(model: str, device: str, steps: int, blocks: int) -> list[Case]:
    """Every workload: the library idle, and recording."""
    programs = Programs(model, device, steps)
    return [
        Case(
            f"attached, {state}: {workload}",
            unit,
            functools.partial(prepare, programs, workload),
            {"model": model, "steps": steps, "blocks": blocks, "attached": state},
            blocks,
            MAX_SECONDS,
        )
        for state, prepare in (("idle", _idle), ("recording", _recording))
        for workload, unit in WORKLOADS.items()
    ]


def _idle(programs: Programs, workload: str) -> PreparedCase:
    # The first block sets the workload up.
    programs.plain.run(workload)
    programs.traced.run(workload)
    return PreparedCase(
        Subject("library idle", lambda _: programs.traced.run(workload)[0], _SELF_TIMED),
        Check(
            "shards of an idle library: none",
            lambda _: float(len(programs.traced.folder.shards() if programs.traced.folder else ())),
            0.0,
        ),
        rivals=[Subject("no library", lambda _: programs.plain.run(workload)[0], _SELF_TIMED)],
        note="two processes that take turns",
    )


def _recording(programs: Programs, workload: str) -> PreparedCase:
    program = programs.traced
    program.run(workload)
    program.recorded(workload)
    return PreparedCase(
        Subject("recording", lambda _: program.recorded(workload), _SELF_TIMED),
        Check("kernels that no shard has", lambda _: float(program.missing), 0.0),
        rivals=[Subject("not recording", lambda _: program.run(workload)[0], _SELF_TIMED)],
        note="alternating blocks of one process; kernels, copies and fills are recorded",
    )
