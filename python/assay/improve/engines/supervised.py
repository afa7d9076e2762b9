"""A server under supervision: started until it answers, watched while it works, stopped whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.http_client import ServerError
from assay.improve.engines import failures, process
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.process import Process, ServerRecord
from assay.improve.engines.protocol import EngineLostError, Failure
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange

_HEALTH_S: Final = 2.0
"""How long one health check of a starting server may take."""
_POLL_S: Final = 0.1
_PORT_S: Final = 15.0
"""How long a port may stay taken after its server ended."""


class SupervisedServer:
    """The process behind an address: one that was found there, or one that was started."""

    def __init__(
        self,
        address: ServerAddress,
        adapter: Adapter,
        *,
        on_start: Callable[[ServerRecord], None] | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.address, self.adapter, self.on_start = address, adapter, on_start
        self.record: ServerRecord | None = None
        """None for a server on another machine, or of another user."""
        self.was_found = False
        """Whether the server ran before: then it is left running in the end."""
        self.was_ended = False
        """Whether a server was stopped here: one that was found has to be started again."""
        self.started = 0
        self.start_seconds: float | None = None
        """Of the last start."""
        self._process: Process | None = None
        self._say = say

    @property
    def log(self) -> Path | None:
        """The log of the server that runs; None for one that somebody else started."""
        return Path(self.record.log) if self.record is not None and self.record.log else None

    def find(self) -> bool:
        """Take over the server that answers already; False where none does."""
        if not self.is_healthy():
            return False
        self.was_found = True
        port = self.address.place.effective_port
        pid = process.listener(port) if is_local(self.address) else None
        self.record = None if pid is None else process.identify(pid)
        return True

    def is_healthy(self, timeout_s: float = _HEALTH_S) -> bool:
        """Whether the server answers its health check with success."""
        try:
            exchange(self.address, self.adapter.health, timeout_s=timeout_s)
        except ServerError:
            return False
        return True

    def replace(self, record: ServerRecord) -> None:
        """Stop the server and start another in its place.

        Raises `EngineLostError` as `start` does; where the command has no program to run, before
        anything is stopped.
        """
        try:
            process.check_startable(record)
        except InputError as error:
            raise _refused(error) from None
        self.stop()
        self.start(record)

    def start(self, record: ServerRecord) -> None:
        """Start a server and wait until it is healthy.

        Raises `EngineLostError` with the kind of failure and the log's last lines; nothing runs then.
        """
        self._await_port()
        try:
            self.record, self._process = process.start(record)
        except InputError as error:
            raise _refused(error) from None
        self.started += 1
        # Written down before it serves: a watchdog must find it whatever happens next.
        if self.on_start is not None:
            self.on_start(self.record)
        begin = time.monotonic()
        try:
            self._await_health(self._process, begin, record.start_timeout_s)
        except KeyboardInterrupt:
            # Nobody has the server yet who would stop it.
            self.stop()
            raise
        self.start_seconds = time.monotonic() - begin

    def _await_health(self, started: Process, begin: float, timeout_s: float) -> None:
        while not self.is_healthy():
            if started.poll() is not None:
                self._lose("at start", was_serving=False)
            if time.monotonic() > begin + timeout_s:
                self.stop()
                raise self._lost("timeout", f"not healthy {timeout_s:g} s after its start")
            self._say(f"waiting for the server, {time.monotonic() - begin:.0f} s")
            time.sleep(_POLL_S)
        if started.poll() is not None:
            # Another server answered at this address: ours could not listen there.
            self._lose("at start", was_serving=False)

    def stop(self) -> None:
        """End the server; does nothing where none runs."""
        if self.record is None:
            return
        self.was_ended = True
        process.stop(self.record, self.adapter.stop_grace_s, self._process)
        self._process = None

    def is_running(self) -> bool:
        """Whether the process runs; a server elsewhere is asked for its health."""
        if self.record is None:
            return self.is_healthy(self.adapter.hang_timeout_s)
        return process.is_running(self.record)

    def check(self, doing: str) -> None:
        """Raise `EngineLostError` where the server ended."""
        if self.record is not None and not process.is_running(self.record):
            self._lose(doing, was_serving=True)
        if self.record is None and not self.is_running():
            raise EngineLostError(
                f"{self.address.url}: expected health, got no answer {doing}", failure="hang"
            )

    @contextmanager
    def watched(self, doing: str) -> Iterator[None]:
        """Watch the server while the block works: one that hangs is ended, so that requests end.

        Raises `EngineLostError` after the block where the server ended or was ended.
        """
        stop = threading.Event()
        hung: list[float] = []

        def watch() -> None:
            answered = time.monotonic()
            interval = min(self.adapter.hang_timeout_s / 4, 5.0)
            while not stop.wait(interval):
                if not self.is_running() and self.record is not None:
                    return
                if self.is_healthy(max(interval, _HEALTH_S)):
                    answered = time.monotonic()
                elif time.monotonic() - answered > self.adapter.hang_timeout_s:
                    hung.append(time.monotonic() - answered)
                    self.stop()
                    return

        thread = threading.Thread(target=watch, name="assay-hang-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if hung:
                raise self._lost("hang", f"no answer to health checks for {hung[0]:.0f} s {doing}")
        self.check(doing)

    def _await_port(self) -> None:
        """Wait until the last server has let go of the port; another's server is refused."""
        port = self.address.place.port
        if port is None or not is_local(self.address):
            return
        if not process.wait_until(lambda: process.listener(port) is None, _PORT_S):
            raise EngineLostError(
                f"port {port}: expected it to be free, got process {process.listener(port)}",
                "another server listens there; stop it, or choose another port",
                failure="refused",
            )

    def _lose(self, doing: str, *, was_serving: bool) -> None:
        """Raise the error for a process that ended."""
        code = None if self._process is None else self._process.poll()
        lines = failures.tail(self.log)
        if said := failures.memory_line(self.log):
            lines.append(said)
        kind = failures.classify(code, lines, self.adapter.refusals, was_serving=was_serving)
        # Workers that a crashed server left behind hold its memory.
        self.stop()
        raise self._lost(kind, f"{failures.ending(code)} {doing}")

    def _lost(self, kind: Failure, what: str) -> EngineLostError:
        lines = failures.tail(self.log)
        hint = None
        if self.log is not None:
            said = failures.memory_line(self.log) if kind == "OOM" else None
            last = f"; its last words: {lines[-1]}" if lines else ""
            hint = f"the log is {self.log}" + (f"; it says: {said}" if said else last)
        error = EngineLostError(f"server ({kind}): {what}", hint, failure=kind)
        error.add_note("\n".join(lines))
        return error


def _refused(error: InputError) -> EngineLostError:
    """A command that nothing can be started by, as a failure of the engine."""
    return EngineLostError(error.message, error.hint, failure="refused")


def is_local(address: ServerAddress) -> bool:
    """Whether a server is on this machine, by its name."""
    return address.host in ("localhost", "::1", "0.0.0.0", "::") or address.host.startswith("127.")
