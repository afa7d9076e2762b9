"""New output of a choice, merged until it is passed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from assay.engine.requests.outputs import Chunk

LEAST_LOGPROB: Final = -9999.0
"""Stands for minus infinity, the log-probability of masked tokens, which JSON cannot hold."""


class OutputDelta:
    """The new output of one choice since the last read."""

    __slots__ = ("_scored", "_texts", "finish_reason", "token_count")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._scored: list[Chunk] = []
        self.token_count = 0
        """The number of new tokens."""
        self.finish_reason: str | None = None
        """Why the choice finished, if it did."""

    @property
    def text(self) -> str:
        """The new text."""
        return "".join(self._texts)

    @property
    def logprobs(self) -> Iterator[tuple[int, float, Sequence[tuple[int, float]]]]:
        """Each token, its log-probability and the top tokens, where the request asked for them."""
        for chunk in self._scored:
            if chunk.token_id is not None and chunk.logprob is not None:
                top = [(token, max(value, LEAST_LOGPROB)) for token, value in chunk.top_logprobs]
                yield chunk.token_id, max(chunk.logprob, LEAST_LOGPROB), top

    def add_text(self, text: str, tokens: int) -> None:
        """Append the text of tokens of which nothing else is known."""
        self._texts.append(text)
        self.token_count += tokens

    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Append tokens, or the end."""
        for chunk in chunks:
            self._texts.append(chunk.text)
            self.token_count += chunk.token_id is not None
            self.finish_reason = chunk.finish_reason
            if chunk.logprob is not None:
                self._scored.append(chunk)

    def extend(self, later: OutputDelta) -> None:
        """Append what came later."""
        self._texts += later._texts
        self._scored += later._scored
        self.token_count += later.token_count
        self.finish_reason = later.finish_reason
