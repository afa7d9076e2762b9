"""Messages between the controller and the agents: one JSON object a line, read with a deadline."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Final

from assay.improve.journal.chain import plain

MOST_BYTES: Final = 1 << 28
"""The longest line; a workload travels in one."""


class LineReader:
    """Lines of a file descriptor, each waited for no longer than said."""

    def __init__(self, handle: int) -> None:
        """Read from `handle`, which is not closed here."""
        self._handle = handle
        self._parts: list[bytes] = []
        self._size = 0
        self._lines: list[bytes] = []

    def read(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message; None where none came in time. Raises `EOFError` at the end.

        What is no message ends the conversation as well: nothing after it can be trusted.
        """
        deadline = time.monotonic() + timeout_s
        while not self._lines:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._handle], [], [], max(left, 0.0))
            if not ready:
                return None
            self._take(os.read(self._handle, 1 << 16))
        line = self._lines.pop(0)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise EOFError(f"expected a message, got {line[:100]!r}") from None
        if not isinstance(message, dict):
            raise EOFError(f"expected a message, got {line[:100]!r}")
        return message

    def _take(self, content: bytes) -> None:
        if not content:
            raise EOFError("the other side is gone")
        self._size += len(content)
        if self._size > MOST_BYTES:
            raise EOFError("the message is too long")
        *whole, rest = content.split(b"\n")
        for part in whole:
            self._lines.append(b"".join([*self._parts, part]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)


def send(handle: int, message: dict[str, Any]) -> None:
    """Write a message; raises `OSError` where nobody reads."""
    content = json.dumps(plain(message), separators=(",", ":")).encode() + b"\n"
    while content:
        content = content[os.write(handle, content) :]
