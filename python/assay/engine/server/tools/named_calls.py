"""Calls that are written as a header with the name, then the arguments as a JSON object."""

from __future__ import annotations

from collections.abc import Callable

from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event, held_back
from assay.engine.server.tools.json_scanner import ObjectScanner


class NamedCalls:
    """A start marker, a header up to the first brace, and the arguments; other markers are dropped."""

    def __init__(
        self, start: str, name_of: Callable[[str], str], dropped: tuple[str, ...] = ()
    ) -> None:
        """`name_of` finds the name in the header."""
        self._start = start
        self._name_of = name_of
        self._dropped = dropped
        self._text = ""
        self._scanner: ObjectScanner | None = None
        self._in_header = False
        self._after_call = False

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""
        self._text += text
        events: list[Event] = []
        while self._advance(events):
            pass
        return events

    def finish(self) -> list[Event]:
        """What was held back: a beginning of a marker, or a header without arguments."""
        rest = self._start + self._text if self._in_header else self._text
        if self._scanner is not None or self._after_call:
            rest = ""
        return [Content(rest)] if rest else []

    def _advance(self, events: list[Event]) -> bool:
        if not self._text:
            return False
        if self._scanner is not None:
            return self._in_arguments(self._scanner, events)
        if self._in_header:
            return self._read_header(events)
        return self._in_content(events)

    def _in_content(self, events: list[Event]) -> bool:
        markers = (self._start, *self._dropped)
        found = {marker: self._text.find(marker) for marker in markers}
        present = {marker: index for marker, index in found.items() if index >= 0}
        if present:
            marker = min(present, key=lambda one: present[one])
            self._emit(events, self._text[: present[marker]])
            self._text = self._text[present[marker] + len(marker) :]
            self._in_header = marker == self._start
            return True
        cut = len(self._text) - held_back(self._text, markers)
        self._emit(events, self._text[:cut])
        self._text = self._text[cut:]
        return False

    def _read_header(self, events: list[Event]) -> bool:
        brace = self._text.find("{")
        if brace < 0:
            return False
        events.append(CallStart(self._name_of(self._text[:brace])))
        self._text = self._text[brace:]
        self._in_header = False
        self._scanner = ObjectScanner()
        return True

    def _in_arguments(self, scanner: ObjectScanner, events: list[Event]) -> bool:
        for index, character in enumerate(self._text):
            if scanner.push(character):
                events.append(CallArguments(self._text[: index + 1]))
                self._text = self._text[index + 1 :]
                self._scanner = None
                self._after_call = True
                return True
        events.append(CallArguments(self._text))
        self._text = ""
        return False

    def _emit(self, events: list[Event], text: str) -> None:
        # Between and after calls there are only line breaks and code fences.
        if self._after_call:
            text = text.strip("`\n ")
        if text:
            self._after_call = False
            events.append(Content(text))
