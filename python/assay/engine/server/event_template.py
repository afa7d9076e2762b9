"""Server-sent events that differ in a text and an index only: one template, filled for each."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import Final

from pydantic import BaseModel

from assay.engine.server.streaming import event

MARKED_INDEX: Final = 987_654_321
MARKED_TEXT: Final = "\u2766"
"""What stands in the model of an event where its index and its text go."""


class EventTemplate:
    """The bytes of an event around its index and its text."""

    __slots__ = ("_parts",)

    def __init__(self, marked: BaseModel) -> None:
        """Take the bytes of an event whose index and text are marked."""
        text = event(marked.model_dump()).decode()
        # The last ones: a model may be called like a mark.
        head, rest = text.rsplit(str(MARKED_INDEX), 1)
        middle, tail = rest.rsplit(encode_basestring_ascii(MARKED_TEXT), 1)
        self._parts = (head, middle, tail)

    def fill(self, index: int, text: str) -> bytes:
        """The event of this index and text."""
        head, middle, tail = self._parts
        return f"{head}{index}{middle}{encode_basestring_ascii(text)}{tail}".encode()
