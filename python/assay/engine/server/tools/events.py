"""What a parser of tool calls finds in an output, as it arrives."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Content(NamedTuple):
    """Text for the user."""

    text: str


class Thought(NamedTuple):
    """Reasoning, of formats that have it among the calls."""

    text: str


class CallStart(NamedTuple):
    """A call of a tool begins."""

    name: str


class CallArguments(NamedTuple):
    """More of the arguments of the last call: JSON text."""

    text: str


Event = Content | Thought | CallStart | CallArguments


class ToolParser(Protocol):
    """Parses one output."""

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""

    def finish(self) -> list[Event]:
        """The events of the text that was held back, at the end of the output."""


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """Characters at the end of a text that may be the beginning of a marker.

    >>> held_back("so <tool", ("<tool_call>",))
    5
    """
    longest = max((len(marker) for marker in markers), default=0)
    for length in range(min(longest - 1, len(text)), 0, -1):
        tail = text[-length:]
        if any(marker.startswith(tail) and len(marker) > length for marker in markers):
            return length
    return 0
