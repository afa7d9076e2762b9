"""The text of an output as its tokens come: whole characters, and nothing of a stop text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assay.engine.core.stop_strings import StopTexts

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Detokenizer


class OutputText:
    """What a request's tokens say; without a detokenizer they say nothing."""

    __slots__ = ("_detokenizer", "_stops")

    def __init__(self, detokenizer: Detokenizer | None = None, stops: Sequence[str] = ()) -> None:
        """Begin an output that ends at any of these texts."""
        self._detokenizer = detokenizer
        self._stops = StopTexts(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop text is complete."""
        return self._stops.found

    def push(self, token: int) -> str:
        """What can be shown now that a token came."""
        return "" if self._detokenizer is None else self._stops.push(self._detokenizer.push(token))

    def finish(self) -> str:
        """What was held back, when the output ends; nothing of a stop text."""
        if self._detokenizer is None or self.stopped:
            return ""
        return self._stops.push(self._detokenizer.finish()) + self._stops.flush()
