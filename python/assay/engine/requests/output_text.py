"""Incremental detokenization of an output: whole characters, nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Detokenizer


class StopStrings:
    """Passes text through until a stop string is complete.

    >>> stops = StopStrings(["END"])
    >>> [stops.push("the E"), stops.push("N"), stops.push("D of it"), stops.found]
    ['the ', '', '', True]
    """

    __slots__ = ("_buffer", "_stops", "found")

    def __init__(self, stops: Sequence[str]) -> None:
        """Watch for these strings."""
        self._stops = tuple(stops)
        self._buffer = ""
        self.found = False

    def push(self, text: str, *, watched: bool = True) -> str:
        """Append text; returns what can be shown now, nothing once a stop string was found.

        A text that is not watched passes as it is, with what was held back.
        """
        if not self._stops:
            return text
        if not watched:
            return self.flush() + text
        if self.found:
            return ""
        self._buffer += text
        found = (self._buffer.find(stop) for stop in self._stops)
        first = min((index for index in found if index >= 0), default=-1)
        if first >= 0:
            self.found = True
            shown, self._buffer = self._buffer[:first], ""
            return shown
        keep = max(self._partial_match(stop) for stop in self._stops)
        cut = len(self._buffer) - keep
        shown, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return shown

    def flush(self) -> str:
        """The text held back, when the output ends for another reason."""
        shown, self._buffer = self._buffer, ""
        return shown

    def _partial_match(self, stop: str) -> int:
        """Characters at the end of the buffer that may start `stop`."""
        for length in range(min(len(stop) - 1, len(self._buffer)), 0, -1):
            if self._buffer.endswith(stop[:length]):
                return length
        return 0


class OutputText:
    """The text of a request's output; empty without a detokenizer."""

    __slots__ = ("_detokenizer", "_stops", "can_stop")

    def __init__(self, detokenizer: Detokenizer | None = None, stops: Sequence[str] = ()) -> None:
        """Start an output that ends at any of these stop strings."""
        self._detokenizer = detokenizer
        self._stops = StopStrings(stops)
        self.can_stop = bool(stops)
        """Whether there are stop strings."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string has occurred."""
        return self._stops.found

    def push(self, token: int, *, watched: bool = True) -> str:
        """Append a token; returns the text that can be shown now.

        Unless it is `watched`, no stop string is looked for.
        """
        if self._detokenizer is None:
            return ""
        text = self._detokenizer.push(token)
        return self._stops.push(text, watched=watched) if self.can_stop else text

    def finish(self) -> str:
        """End the output; returns the text held back, without any stop string."""
        if self._detokenizer is None or self.stopped:
            return ""
        return self._stops.push(self._detokenizer.finish()) + self._stops.flush()
