"""Ending an output at a text, without showing any part of it."""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """Lets text through until one of the stop texts is complete.

    >>> stops = StopTexts(["END"])
    >>> [stops.push("the E"), stops.push("N"), stops.push("D of it"), stops.found]
    ['the ', '', '', True]
    """

    __slots__ = ("_held", "_stops", "found")

    def __init__(self, stops: Sequence[str]) -> None:
        """Watch for these texts."""
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """What can be shown now that `text` came; nothing once a stop text was found."""
        if not self._stops:
            return text
        if self.found:
            return ""
        self._held += text
        first = min((at for stop in self._stops if (at := self._held.find(stop)) >= 0), default=-1)
        if first >= 0:
            self.found = True
            shown, self._held = self._held[:first], ""
            return shown
        keep = max(self._begun(stop) for stop in self._stops)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def flush(self) -> str:
        """What was held back, when the output ends otherwise."""
        shown, self._held = self._held, ""
        return shown

    def _begun(self, stop: str) -> int:
        """Characters at the end of the held text that may be the beginning of `stop`."""
        for length in range(min(len(stop) - 1, len(self._held)), 0, -1):
            if self._held.endswith(stop[:length]):
                return length
        return 0
