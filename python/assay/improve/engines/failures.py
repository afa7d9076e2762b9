"""How a server failed: crash, OOM, hang, timeout or refused, from its exit and its last words."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.escaping import clipped
from assay.improve.engines.protocol import Failure

OUT_OF_MEMORY: Final = (
    "out of memory",
    "outofmemoryerror",
    "std::bad_alloc",
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "failed to allocate",
    "unable to allocate",
    "cannot allocate memory",
    "no available memory for the cache blocks",
    "is less than desired gpu memory utilization",
    "not enough memory",
    "memoryerror",
)
"""Texts with which servers say that memory ran out, in lower case."""

_MOST_BYTES: Final = 16 << 20
"""Of a log that are searched for these texts."""
TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 64 << 10
_LINE: Final = 300


def tail(log: Path | None, lines: int = TAIL_LINES, after: int = 0) -> list[str]:
    """The last lines of a log that are not empty, from byte `after` on, safe to print."""
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(after, size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    written = [clipped(line.rstrip(), _LINE) for line in text.splitlines() if line.strip()]
    return written[-lines:]


def memory_line(log: Path | None) -> str | None:
    """The line of a log that says that memory ran out, safe to print.

    It is seldom one of the last: a server that lost its engine fails every request under way, at length.
    """
    if log is None:
        return None
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _MOST_BYTES))
            for raw in file:
                line = raw.decode("utf-8", "replace")
                if any(words in line.lower() for words in OUT_OF_MEMORY):
                    return clipped(line.strip(), _LINE)
    except OSError:
        return None
    return None


def classify(
    exit_code: int | None, lines: Sequence[str], refusals: Sequence[str], *, was_serving: bool
) -> Failure:
    """What kind of failure an ended server had.

    The kernel's OOM killer sends SIGKILL, and leaves no words in the log. A server that refuses its
    arguments says so before it serves.
    """
    said = "\n".join(lines).lower()
    if any(words in said for words in OUT_OF_MEMORY) or exit_code == -signal.SIGKILL:
        return "OOM"
    if not was_serving and any(words.lower() in said for words in refusals):
        return "refused"
    return "crash"


def ending(exit_code: int | None) -> str:
    """How a process ended, in words.

    >>> ending(-9), ending(1)
    ('killed by SIGKILL', 'exited with 1')
    """
    if exit_code is None:
        return "ended"
    if exit_code >= 0:
        return f"exited with {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"
