"""A program that runs traced: started, armed and disarmed on time, its signals and exit code kept."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Final

from assay.errors import InputError
from assay.observe.attach.injection import TraceFolder

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that the program gets in place of this process."""

_POLL_S: Final = 0.02
_END_MARK: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_GRACE_S: Final = 3.0
"""How long processes may take to end their shards once recording stops."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to record: from the start, or after a delay or once a file is there."""

    delay_s: float = 0.0
    duration_s: float | None = None
    """None records to the end."""
    arm_file: Path | None = None
    """Recording starts once it exists; the delay counts from then on."""


@dataclass(frozen=True, slots=True)
class Run:
    """A program that ended."""

    pid: int
    exit_code: int
    """128 plus the signal's number where a signal ended it."""
    armed_ns: int | None
    """When recording started; None where the program ended before."""
    disarmed_ns: int | None
    """When recording stopped; None where the program's end did."""


def run(
    command: Sequence[str],
    folder: TraceFolder,
    schedule: Schedule,
    *,
    output: IO[str] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Run:
    """Run a command traced, and wait for its end.

    `output` replaces the program's standard output.
    """
    immediate = schedule.delay_s == 0 and schedule.arm_file is None
    if immediate:
        folder.control(armed=True)
    program = _start(command, folder.environment(os.environ), output)
    with _forwarded(program):
        return _follow(program, folder, schedule, progress, time.time_ns() if immediate else None)


def _start(
    command: Sequence[str], environment: dict[str, str], output: IO[str] | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=environment, stdout=output)
    except FileNotFoundError:
        raise InputError(
            f'command "{command[0]}": expected a program, got no such file',
            "assay trace attach -- COMMAND ARGUMENTS",
        ) from None
    except OSError as error:
        raise InputError(f'command "{command[0]}" cannot be started: {error.strerror}') from None


@contextmanager
def _forwarded(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Give signals to the program; this process outlives it to store the trace."""

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        if program.poll() is None:
            program.send_signal(number)

    before = {}
    for number in FORWARDED:
        # A signal that is ignored here, as under nohup, is ignored there too.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(
    program: subprocess.Popen[bytes],
    folder: TraceFolder,
    schedule: Schedule,
    progress: Callable[[str], None],
    armed_ns: int | None,
) -> Run:
    """Arm and disarm while the program runs."""
    disarmed_ns = None
    due = None if schedule.arm_file else time.monotonic() + schedule.delay_s
    end = None
    if armed_ns is not None and schedule.duration_s is not None:
        end = time.monotonic() + schedule.duration_s
    while program.poll() is None:
        now = time.monotonic()
        if due is None and schedule.arm_file is not None and schedule.arm_file.exists():
            due = now + schedule.delay_s
        if armed_ns is None and due is not None and now >= due:
            folder.control(armed=True)
            armed_ns = time.time_ns()
            progress("recording")
            end = None if schedule.duration_s is None else now + schedule.duration_s
        if disarmed_ns is None and end is not None and now >= end:
            folder.control(armed=False)
            disarmed_ns = time.time_ns()
            progress("recorded; waiting for the program to end")
        try:
            program.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
    _await_children(folder)
    code = program.returncode
    return Run(program.pid, code if code >= 0 else 128 - code, armed_ns, disarmed_ns)


def _await_children(folder: TraceFolder) -> None:
    """Disarm, and wait until processes that outlive the program have ended their shards."""
    folder.control(armed=False)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        open_shards = [path for path in folder.shards() if not _is_ended(path)]
        if not any(_is_alive(path) for path in open_shards):
            return
        time.sleep(_POLL_S)


def _is_ended(path: Path) -> bool:
    """Whether a shard has its end mark: the continuation of an Arrow stream and no length."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(_END_MARK)))
        return file.read() == _END_MARK


def _is_alive(path: Path) -> bool:
    """Whether the process of a shard still runs."""
    number = path.name.split("-")[1]
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
