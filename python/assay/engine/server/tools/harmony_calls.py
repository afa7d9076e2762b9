"""Calls, reasoning and text of gpt-oss: Harmony's messages as events."""

from __future__ import annotations

from typing import Final

from assay.engine.requests.harmony import HarmonyParser, Part
from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event, Thought

_EVENTS: Final[dict[str, type[Content | Thought | CallStart | CallArguments]]] = {
    "content": Content,
    "thought": Thought,
    "call": CallStart,
    "arguments": CallArguments,
}


class HarmonyCalls:
    """One output in Harmony; without tools it has no calls."""

    def __init__(self, prompt: str = "") -> None:
        """Continue a rendered conversation."""
        self._parser = HarmonyParser(prompt)

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""
        return _events(self._parser.push(text))

    def finish(self) -> list[Event]:
        """What was held back."""
        return _events(self._parser.finish())


def _events(parts: list[Part]) -> list[Event]:
    return [_EVENTS[part.kind](part.text) for part in parts]
