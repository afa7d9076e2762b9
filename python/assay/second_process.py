"""A second process of this program, with a socket to it: it ends when the socket closes.

It needs nothing but the standard library, so that a command can start it before its own imports.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that the first process handles for both."""
_BUFFER_BYTES: Final = 1 << 22
"""What the socket holds, where the kernel allows it."""
_END_SECONDS: Final = 5.0


class SecondProcess:
    """`python -m MODULE FD`, where FD is its end of the socket; leaving the context ends it."""

    def __init__(self, module: str) -> None:
        """Start it."""
        self.link, theirs = socket.socketpair()
        self.link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        with theirs, _blocked_signals():
            # It inherits that they are blocked: a ctrl-c, which the terminal sends to both, is for this process.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.link.close()
        try:
            # After an error nobody waits for what it still imports or reads.
            self._process.wait(_END_SECONDS if kind is None else 0.0)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        return self._process.wait()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()


@contextmanager
def _blocked_signals() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
