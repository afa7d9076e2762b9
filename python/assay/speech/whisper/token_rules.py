"""Which tokens may come next: what is not said, blanks, and the order of timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np
from assay.speech.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

NEVER: Final = -1e30
"""The logit of a token that may not come: no exponential of it is above zero."""


class TokenRules:
    """The rules of `whisper/decoding.py` of openai/whisper.

    Timestamps come in pairs, except before the end, and do not decrease. Where all timestamps
    together are likelier than any other token, one of them comes.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        timestamps: bool,
        suppress: Sequence[int],
        latest_start: float,
        allow_blank: bool = False,
    ) -> None:
        """Rules for text with or without times; the first time is `latest_start` at most."""
        self._vocabulary = vocabulary
        self._timestamps = timestamps
        self._suppressed = np.array(sorted(set(suppress)), np.int64)
        self._blank = np.array([] if allow_blank else vocabulary.blank, np.int64)
        latest = round(latest_start / SECONDS_PER_TIMESTAMP)
        self._latest = vocabulary.first_timestamp + latest

    def apply(self, logits: Floats, written: Sequence[Sequence[int]]) -> Floats:
        """Log-probabilities of the next token of each row, given what it has written."""
        logits[:, self._suppressed] = NEVER
        for row, tokens in zip(logits, written, strict=True):
            if not tokens:
                row[self._blank] = NEVER
            if self._timestamps:
                self._limit(row, tokens)
        scores = log_softmax(logits)
        if self._timestamps:
            for row, score, tokens in zip(logits, scores, written, strict=True):
                if tokens and self._must_be_time(score, tokens):
                    row[: self._vocabulary.first_timestamp] = NEVER
                    score[:] = log_softmax(row[None])[0]
        return scores

    def _limit(self, row: Floats, tokens: Sequence[int]) -> None:
        first, end = self._vocabulary.first_timestamp, self._vocabulary.transcript_end
        row[self._vocabulary.no_timestamps] = NEVER
        if not tokens:
            row[:first] = NEVER
            row[self._latest + 1 :] = NEVER
            return
        last = tokens[-1]
        if last < first:
            earlier = next((token for token in reversed(tokens) if token >= first), None)
            if earlier is not None:
                row[first : earlier + 1] = NEVER
        elif len(tokens) < 2 or tokens[-2] >= first:
            row[first:] = NEVER
        else:
            row[:end] = NEVER
            row[first:last] = NEVER

    def _must_be_time(self, scores: Floats, tokens: Sequence[int]) -> bool:
        first = self._vocabulary.first_timestamp
        if tokens[-1] >= first and (len(tokens) < 2 or tokens[-2] >= first):
            return False
        times = scores[first:]
        largest = times.max()
        if largest <= NEVER / 2:
            return False
        together = largest + np.log(np.exp(times - largest).sum())
        return bool(together > scores[:first].max())


def log_softmax(logits: Floats) -> Floats:
    """Logarithms of the probabilities of each row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    sums = np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float32)
    scores: Floats = shifted - np.log(sums)
    return scores
