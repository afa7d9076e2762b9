"""Scans JSON objects character by character: where they end, and the call that one describes."""

from __future__ import annotations

import json
from typing import Final

_NAME: Final = "name"
_ARGUMENTS: Final = ("arguments", "parameters")


class ObjectScanner:
    """Follows a JSON value to its end, without building it."""

    def __init__(self) -> None:
        """Start before the value."""
        self.depth = 0
        self.in_string = False
        self._escaped = False

    def push(self, character: str) -> bool:
        """Advance by a character; whether it closes the outermost bracket."""
        if self.in_string:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self.in_string = False
            return False
        if character == '"':
            self.in_string = True
        elif character in "{[":
            self.depth += 1
        elif character in "}]":
            self.depth -= 1
            return self.depth <= 0
        return False


class CallScanner:
    """One call as a JSON object with a name and arguments, in any order.

    `arguments` is the text of the arguments that has arrived and was not taken yet.
    """

    def __init__(self) -> None:
        """Start before the opening brace."""
        self.name: str | None = None
        self.arguments = ""
        self.is_done = False
        self.text = ""
        """The object so far, as it was written."""
        self._scanner = ObjectScanner()
        self._key: str | None = None
        self._item = ""
        """The key or value that is being read, at the outermost level."""

    @property
    def is_call(self) -> bool:
        """Whether it is known to be a call: it has a name, and nothing but a call so far."""
        return self.name is not None

    def push(self, character: str) -> None:
        """Advance by a character."""
        self.text += character
        inside = self._scanner.depth, self._scanner.in_string
        self.is_done = self._scanner.push(character)
        if inside == (0, False):
            return
        if inside == (1, False) and (self.is_done or character in ",:"):
            self._end_item(character)
            return
        self._item += character
        if self._key in _ARGUMENTS and self._item.lstrip()[:1] not in ("", '"'):
            self.arguments += character if self._item.strip() != character else character.lstrip()

    def _end_item(self, character: str) -> None:
        item, self._item = self._item.strip(), ""
        if character == ":":
            self._key = _text_of(item)
            return
        if self._key == _NAME:
            self.name = _text_of(item)
        elif self._key in _ARGUMENTS and item.startswith('"'):
            # Some models write the arguments as a JSON text inside a string.
            self.arguments += _text_of(item) or ""
        self._key = None


def _text_of(item: str) -> str | None:
    try:
        value = json.loads(item)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
