"""Incremental detokenization of an output: whole characters, nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.engine.requests.stop_strings import StopStrings

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Detokenizer


class OutputText:
    """The text of a request's output; empty without a detokenizer."""

    __slots__ = ("_detokenizer", "_stops")

    def __init__(self, detokenizer: Detokenizer | None = None, stops: Sequence[str] = ()) -> None:
        """Start an output that ends at any of these stop strings."""
        self._detokenizer = detokenizer
        self._stops = StopStrings(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has occurred."""
        return self._stops.found

    def push(self, token: int) -> str:
        """Append a token; returns the text that can be shown now."""
        return "" if self._detokenizer is None else self._stops.push(self._detokenizer.push(token))

    def finish(self) -> str:
        """End the output; returns the text held back, without any stop string."""
        if self._detokenizer is None or self.stopped:
            return ""
        return self._stops.push(self._detokenizer.finish()) + self._stops.flush()
