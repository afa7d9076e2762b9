"""Calls that are written as JSON objects with a name and arguments, one or a list of them."""

from __future__ import annotations

from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event, held_back
from assay.engine.server.tools.json_scanner import CallScanner


class JsonCalls:
    """Objects after a start marker, up to an end marker, the end of their list or of the output.

    Without a start marker an output that begins with an object is calls as a whole, separated by
    semicolons. An object that is no call is content.
    """

    def __init__(self, start: str | None, end: str | None = None, *, prefix: str = "") -> None:
        """`prefix` is a marker that may stand before calls that need none."""
        self._start = start
        self._markers = tuple(marker for marker in (start, end) if marker)
        self._end = end
        self._prefix = prefix
        self._text = ""
        self._scanner: CallScanner | None = None
        self._in_calls = False
        self._is_plain = False
        """Whether the rest is content: the output did not begin with an object."""
        self._named = False

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""
        self._text += text
        events: list[Event] = []
        while self._advance(events):
            pass
        return events

    def finish(self) -> list[Event]:
        """What was held back: a beginning of a marker, or an object that never became a call."""
        rest = self._text
        scanner, self._scanner = self._scanner, None
        if scanner is not None and not self._named:
            rest = scanner.text + rest
        elif self._in_calls:
            rest = ""
        return [Content(rest)] if rest else []

    def _advance(self, events: list[Event]) -> bool:
        """Work on the buffered text; whether there is more to do."""
        if not self._text:
            return False
        if self._scanner is not None:
            self._scan(self._scanner, events)
            return bool(self._text)
        if self._in_calls:
            return self._between_calls()
        return self._in_content(events)

    def _in_content(self, events: list[Event]) -> bool:
        if self._start is None and not self._is_plain:
            return self._begin_without_marker(events)
        start = self._start
        found = -1 if start is None else self._text.find(start)
        if start is not None and found >= 0:
            self._emit(events, self._text[:found])
            self._text = self._text[found + len(start) :]
            self._in_calls = True
            return True
        keep = 0 if start is None else held_back(self._text, (start,))
        cut = len(self._text) - keep
        self._emit(events, self._text[:cut])
        self._text = self._text[cut:]
        return False

    def _begin_without_marker(self, events: list[Event]) -> bool:
        text = self._text.lstrip()
        if self._prefix and text.startswith(self._prefix):
            self._text = text[len(self._prefix) :]
            self._in_calls = True
            return True
        if not text or (self._prefix and self._prefix.startswith(text)):
            return False
        self._in_calls = text.startswith("{")
        self._is_plain = not self._in_calls
        return True

    def _between_calls(self) -> bool:
        """Skip what separates calls; a bracket or marker ends them."""
        text = self._text.lstrip(" \t\r\n[,;")
        self._text = text
        if not text:
            return False
        if text.startswith("{"):
            self._scanner = CallScanner()
            self._named = False
            return True
        if text.startswith("]"):
            self._text = text[1:]
            self._leave()
            return True
        if self._end is not None and text.startswith(self._end):
            self._text = text[len(self._end) :]
            self._leave()
            return True
        if self._start is not None and text.startswith(self._start):
            self._text = text[len(self._start) :]
            return True
        if any(marker.startswith(text) for marker in self._markers):
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        self._in_calls = False
        self._is_plain = True

    def _scan(self, scanner: CallScanner, events: list[Event]) -> None:
        for index, character in enumerate(self._text):
            scanner.push(character)
            if scanner.is_done:
                self._text = self._text[index + 1 :]
                self._take(scanner, events)
                if not self._named:
                    self._emit(events, scanner.text)
                self._scanner = None
                return
        self._text = ""
        self._take(scanner, events)

    def _take(self, scanner: CallScanner, events: list[Event]) -> None:
        """The call's name once it is known, and the arguments that have arrived."""
        if not self._named and scanner.is_call and (scanner.arguments or scanner.is_done):
            self._named = True
            events.append(CallStart(scanner.name or ""))
            if scanner.is_done and not scanner.arguments:
                scanner.arguments = "{}"
        if self._named and scanner.arguments:
            events.append(CallArguments(scanner.arguments))
            scanner.arguments = ""

    @staticmethod
    def _emit(events: list[Event], text: str) -> None:
        if text:
            events.append(Content(text))
