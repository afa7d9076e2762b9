"""Mistral's calls: a list of objects after a marker, or since version 11 a name and its arguments."""

from __future__ import annotations

from typing import Final

from assay.engine.server.tools.events import Content, Event, ToolParser, held_back
from assay.engine.server.tools.json_calls import JsonCalls
from assay.engine.server.tools.named_calls import NamedCalls

MARKER: Final = "[TOOL_CALLS]"


class MistralCalls:
    """The character after the first marker tells which of the two it is."""

    def __init__(self) -> None:
        """Start before the marker."""
        self._held = ""
        self._parser: ToolParser | None = None

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""
        if self._parser is not None:
            return self._parser.push(text)
        before, marker, after = (self._held + text).partition(MARKER)
        begin = after.lstrip()
        if not marker:
            cut = len(before) - held_back(before, (MARKER,))
            before, self._held = before[:cut], before[cut:]
        else:
            self._held = marker + after
        events: list[Event] = [Content(before)] if before else []
        if begin:
            is_list = begin.startswith(("[", "{"))
            self._parser = JsonCalls(MARKER) if is_list else NamedCalls(MARKER, _name_of)
            events += self._parser.push(self._held)
        return events

    def finish(self) -> list[Event]:
        """What was held back."""
        if self._parser is not None:
            return self._parser.finish()
        return [Content(self._held)] if self._held else []


def _name_of(header: str) -> str:
    return header.partition("[ARGS]")[0].partition("[CALL_ID]")[0].strip()
