"""Splits the text of 30 seconds at its timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.speech.log_mel import FRAMES_PER_SECOND
from assay.speech.transcript import Word
from assay.speech.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens between two timestamps, and their times in the recording."""

    start: float
    end: float
    tokens: tuple[int, ...]
    words: tuple[Word, ...] = ()


def split(
    tokens: Sequence[int], vocabulary: Vocabulary, began: int, size: int
) -> tuple[list[Piece], int, bool]:
    """Pieces, the frame to go on from, and whether the text ends with a timestamp alone.

    `began` is the frame that the tokens' times count from, and `size` the frames they were heard in.
    """
    first = vocabulary.first_timestamp
    offset = began / FRAMES_PER_SECOND

    def seconds(token: int) -> float:
        return (token - first) * SECONDS_PER_TIMESTAMP

    ends_in_time = len(tokens) >= 2 and tokens[-2] < first <= tokens[-1]
    cuts = [
        place
        for place in range(1, len(tokens))
        if tokens[place] >= first and tokens[place - 1] >= first
    ]
    if not cuts:
        times = [token for token in tokens if token >= first]
        end = seconds(times[-1]) if times and times[-1] != first else size / FRAMES_PER_SECOND
        return [Piece(offset, offset + end, tuple(tokens))], began + size, ends_in_time
    if ends_in_time:
        cuts.append(len(tokens))
    pieces = []
    for start, cut in zip([0, *cuts], cuts, strict=False):
        part = tuple(tokens[start:cut])
        pieces.append(Piece(offset + seconds(part[0]), offset + seconds(part[-1]), part))
    if ends_in_time:
        # Nobody speaks behind the last timestamp.
        return pieces, began + size, True
    # What follows the last pair was not finished: it is heard again from there on.
    frames_per_time = round(SECONDS_PER_TIMESTAMP * FRAMES_PER_SECOND)
    return pieces, began + (tokens[cuts[-1] - 1] - first) * frames_per_time, False
