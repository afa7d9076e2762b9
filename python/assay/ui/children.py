"""Commands that answer requests in processes of their own.

A long computation in a thread of the server would hold the interpreter's lock, so that other pages
stall, and ctrl-c would have to wait for it. A child process does neither, and ends with the server.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from assay.errors import AssayError

MOST_AT_ONCE: Final = 2
"""Children that run at a time; the others wait."""

_HINT: Final = "hint: "
"""What the line begins with that commands print behind an error."""
_SLOTS: Final = threading.BoundedSemaphore(MOST_AT_ONCE)
_CHILDREN: Final[set[subprocess.Popen[bytes]]] = set()
_LOCK: Final = threading.Lock()
_CLOSING: Final = threading.Event()


class ChildError(AssayError):
    """A command that did not print its answer."""


def run_command(words: Sequence[str]) -> bytes:
    """What `assay WORDS` prints; raises `ChildError` where it fails or the server ends."""
    with _SLOTS:
        with _LOCK:
            if _CLOSING.is_set():
                raise ChildError("the server is ending")
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "assay", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            _CHILDREN.add(child)
        try:
            printed, said = child.communicate()
        finally:
            with _LOCK:
                _CHILDREN.discard(child)
    if child.returncode != 0:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if not line.startswith(_HINT)] or ["it said nothing"]
        hints = [line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)]
        raise ChildError(
            f"assay {' '.join(words)}: expected an answer, got exit code {child.returncode}: "
            f"{errors[-1]}",
            hints[-1] if hints else None,
        )
    return printed


def end_children() -> None:
    """End every child; those that wait for their turn do not start."""
    _CLOSING.set()
    with _LOCK:
        for child in _CHILDREN:
            child.terminate()
