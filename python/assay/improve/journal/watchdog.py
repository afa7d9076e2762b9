"""A process that brings the engine to the safe state when the controller dies or hangs.

The controller holds one end of a pipe and writes into it how long it may be silent. The pipe closes
when the controller dies, however it dies. All waiting is by the monotonic clock: a jump of the wall
clock changes nothing. The watchdog has a session of its own, so that Ctrl-C does not reach it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from assay.improve.journal import active
from assay.improve.journal.faults import VARIABLE, fault_point
from assay.improve.journal.run_folder import RunFolder

SILENCE_S: Final = 900.0
"""How long a controller may be silent that did not say how long it would be."""
LOG_NAME: Final = "watchdog.log"
NOBODY: Final = 0
"""In the place of a controller's process: it is dead already."""
MODULE: Final = "assay.improve.journal.watchdog"


class Watchdog:
    """The controller's end: starts the process, tells it that the controller lives."""

    def __init__(self, run: RunFolder, on_loss: Callable[[str], None]) -> None:
        """Use `start`."""
        self._run = run
        self._on_loss = on_loss
        self._process = self._spawn()

    @classmethod
    def start(cls, run: RunFolder, on_loss: Callable[[str], None] = lambda text: None) -> Self:
        """Start the watchdog of a run; from here on the run is marked as under way.

        `on_loss` is told a sentence when the watchdog itself was killed and is started again.
        """
        return cls(run, on_loss)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def beat(self, seconds: float = SILENCE_S) -> None:
        """Tell the watchdog that the controller lives and may stay silent for `seconds`."""
        try:
            self._tell(f"{seconds:.3f}\n")
        except OSError:
            status = self._process.wait()
            self._close_pipe()
            self._process = self._spawn()
            self._on_loss(f"the watchdog ended with status {status} and was started again")
            self._tell(f"{seconds:.3f}\n")

    def close(self) -> None:
        """End the watchdog of a run that ended in a safe state."""
        with suppress(OSError):
            self._tell("done\n")
        self._close_pipe()
        self._process.wait()
        active.unmark(self._run)

    def _tell(self, text: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        os.write(pipe.fileno(), text.encode())

    def _close_pipe(self) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(OSError):
                pipe.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = _spawn(self._run, os.getpid(), subprocess.PIPE)
        active.mark(self._run, os.getpid(), process.pid)
        fault_point("watchdog.started")
        return process


def start_recovery(run: RunFolder) -> None:
    """Bring the engine of an abandoned run to the safe state, in a process of its own."""
    process = _spawn(run, NOBODY, subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin:
        # It waits until the pipe closes: done before, it would take away a marker that is written after.
        active.mark(run, NOBODY, process.pid)
    # It outlives this process: it is not waited for.
    process.returncode = 0


def _spawn(run: RunFolder, controller: int, stdin: int) -> subprocess.Popen[bytes]:
    # Faults are meant for the controller. The package comes from where this one came from.
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    places = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    with (run.path / LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(run.path), str(controller)],
            stdin=stdin,
            stdout=log,
            stderr=log,
            bufsize=0,
            start_new_session=True,
            env=environment,
        )


def watch(controller: int, pipe: int = 0) -> str | None:
    """Wait for the end of a controller; why the safe state must be restored, None if it need not.

    A controller that is silent for longer than it said is ended first.
    """
    try:
        process = os.pidfd_open(controller)
    except ProcessLookupError:
        return "the controller died"
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(process, select.POLLIN)
    deadline = time.monotonic() + SILENCE_S
    heard = b""
    while True:
        wait_ms = max(0.0, deadline - time.monotonic()) * 1000
        ready = {handle for handle, _ in poll.poll(min(wait_ms, 3_600_000))}
        if pipe in ready:
            content = os.read(pipe, 65536)
            if not content:
                # A controller that closed the pipe without a word is dead, or about to be.
                poll.unregister(pipe)
            *lines, heard = (heard + content).split(b"\n")
            if b"done" in lines:
                return None
            if lines:
                deadline = time.monotonic() + float(lines[-1])
        elif process in ready:
            # Only after the pipe is empty: its last word may have been that all is done.
            return "the controller died"
        if time.monotonic() >= deadline:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], 60.0)
            return "the controller hung and was ended"


def main(arguments: list[str]) -> int:
    """Watch over the controller of a run: RUN_FOLDER CONTROLLER_PID."""
    from assay.improve.journal.recovery import recover

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run, controller = RunFolder(Path(arguments[0])), int(arguments[1])
    why: str | None = "controller and watchdog died"
    if controller == NOBODY:
        # Closed by who has marked the run as attended, or is dead itself.
        os.read(0, 1)
    else:
        why = watch(controller)
    if why is None:
        return 0
    recovery = recover(run, by="watchdog", why=why)
    print(*(recovery.sentence, *recovery.problems), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
