"""Times of words: a path of dynamic time warping through the cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Array, transfer
from assay.speech.log_mel import FRAMES_PER_SECOND
from assay.speech.products import linear
from assay.speech.transcript import Word
from assay.speech.whisper.decoder import Encoded
from assay.speech.whisper.loading import WhisperModel
from assay.speech.whisper.segments import Piece
from assay.speech.whisper.vocabulary import SECONDS_PER_TIMESTAMP

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_MEDIAN_WIDTH: Final = 7
"""States that the attention is smoothed over."""
_LONGEST_MEDIAN: Final = 0.7
"""Seconds: a median word that is longer is not one."""
_PREPENDED: Final = "\"'\u201c\u00bf([{-"
_FULL_WIDTH: Final = "\uff0c\uff01\uff1f\uff1a"
"""Comma, exclamation mark, question mark and colon of Chinese and Japanese text."""
_APPENDED: Final = "\"'.\u3002,!?:\u201d)]}\u3001" + _FULL_WIDTH
_SENTENCE_ENDS: Final = ".\u3002!?" + _FULL_WIDTH[1:3]
_TOLERANCE: Final = 0.5
"""Seconds that the times of a segment and of its words may differ by."""


def with_words(
    model: WhisperModel,
    encoded: Encoded,
    pieces: Sequence[Piece],
    language: str,
    began: int,
    frames: int,
    last_end: float,
) -> list[Piece]:
    """The pieces with their words; `last_end` is when the word before them ended."""
    vocabulary = model.vocabulary
    texts = [
        [token for token in piece.tokens if token < vocabulary.transcript_end] for piece in pieces
    ]
    tokens = [token for text in texts for token in text]
    # A frame alone is less than a state, and there is nothing to align with.
    has_states = frames >= 2
    words = _aligned(model, encoded, tokens, language, frames) if tokens and has_states else []
    durations = np.array([word.end - word.start for word, _ in words if word.end > word.start])
    median = min(_LONGEST_MEDIAN, float(np.median(durations))) if durations.size else 0.0
    if durations.size:
        words = _shortened(words, 2 * median)
    words = _merged(words)
    offset = began / FRAMES_PER_SECOND
    timed: list[Piece] = []
    place = 0
    for piece, text in zip(pieces, texts, strict=True):
        taken = 0
        own: list[Word] = []
        while place < len(words) and taken < len(text):
            word, count = words[place]
            if word.text:
                own.append(
                    replace(
                        word, start=round(offset + word.start, 2), end=round(offset + word.end, 2)
                    )
                )
            taken += count
            place += 1
        if own:
            piece = _fitted(piece, own, median, last_end)
            last_end = piece.end
        timed.append(piece)
    return timed


def _aligned(
    model: WhisperModel, encoded: Encoded, tokens: Sequence[int], language: str, frames: int
) -> list[tuple[Word, int]]:
    """Words with their times from the start of the 30 seconds, and how many tokens each has."""
    vocabulary = model.vocabulary
    start = vocabulary.start(language, "transcribe")
    attention, probabilities = _attention(
        model,
        encoded,
        [*start, vocabulary.no_timestamps, *tokens, vocabulary.transcript_end],
        frames,
    )
    rows, columns = warped_path(-attention[len(start) :][: len(tokens) + 1])
    words = vocabulary.words([*tokens, vocabulary.transcript_end], language)
    if len(words) < 2:
        return []
    # The first column of each row is when its token begins.
    jumps = np.diff(rows, prepend=rows[0] - 1) > 0
    times = columns[jumps] * SECONDS_PER_TIMESTAMP
    bounds = [0, *accumulate(len(parts) for _, parts in words[:-1])]
    likelihoods = probabilities[len(start) :]
    return [
        (
            Word(
                text, float(times[begin]), float(times[end]), float(np.mean(likelihoods[begin:end]))
            ),
            end - begin,
        )
        for (text, _), (begin, end) in zip(words, pairwise(bounds), strict=False)
    ]


def _attention(
    model: WhisperModel, encoded: Encoded, tokens: Sequence[int], frames: int
) -> tuple[Floats, Floats]:
    """Smoothed attention of each token over states, and the probability of the token after it."""
    heads = model.files.alignment_heads
    if not heads:
        raise InputError(
            f"{model.files.path.name}: expected alignment heads for the times of words, got a "
            "file that does not say them and a size that is not known"
        )
    decoder = model.decoder
    cross: list[Array] = []
    hidden, _ = decoder.forward(
        [tokens], [np.empty(0, np.int32)], encoded, decoder.cache(0), cross_queries=cross
    )
    states = frames // 2
    scale = decoder.head_dim**-0.5
    chosen = []
    for layer, head in heads:
        query = np.asarray(cross[layer].to_numpy()[:, head], np.float32)
        key = np.ascontiguousarray(transfer.values(encoded.keys[layer])[:states, head], np.float32)
        scores = linear(query, key) * scale
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        chosen.append(scores / scores.sum(axis=1, keepdims=True))
    weights = np.stack(chosen).astype(np.float32)
    # Each state's attention relative to that of the other tokens.
    mean = weights.mean(axis=1, keepdims=True)
    deviation = weights.std(axis=1, keepdims=True)
    weights = (weights - mean) / np.where(deviation > 0, deviation, 1.0)
    smoothed = median_filter(weights, _MEDIAN_WIDTH).mean(axis=0)
    end = model.vocabulary.transcript_end
    logits = decoder.logits(hidden)[:, :end]
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    shifted /= shifted.sum(axis=1, keepdims=True)
    following = np.array([*tokens[1:], 0])
    probabilities = shifted[np.arange(len(tokens)), np.where(following < end, following, 0)]
    return smoothed, probabilities


def median_filter(values: Floats, width: int) -> Floats:
    """Medians of `width` neighbors along the last axis, reflected at both ends."""
    half = width // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    medians: Floats = np.partition(windows, half, axis=-1)[..., half]
    return medians


def warped_path(cost: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of the cheapest path from the first to the last element.

    A step goes to the next row, the next column, or both.
    """
    count, length = cost.shape
    total = np.full((count + 1, length + 1), np.inf)
    total[0, 0] = 0.0
    choice = np.zeros((count + 1, length + 1), np.int8)
    # Along antidiagonals, whose elements do not depend on each other.
    for diagonal in range(2, count + length + 1):
        rows = np.arange(max(1, diagonal - length), min(count, diagonal - 1) + 1)
        columns = diagonal - rows
        both, down, right = (
            total[rows - 1, columns - 1],
            total[rows - 1, columns],
            total[rows, columns - 1],
        )
        # On a tie the path goes on in its row.
        chosen = np.where(
            (both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2)
        )
        best = np.choose(chosen, (both, down, right))
        total[rows, columns] = cost[rows - 1, columns - 1] + best
        choice[rows, columns] = chosen
    choice[0, :], choice[:, 0] = 2, 1
    row, column = count, length
    path = []
    while row > 0 or column > 0:
        path.append((row - 1, column - 1))
        step = choice[row, column]
        row -= step in (0, 1)
        column -= step in (0, 2)
    rows, columns = np.array(path[::-1]).T
    return rows, columns


def _shortened(words: list[tuple[Word, int]], longest: float) -> list[tuple[Word, int]]:
    """Words at the ends of sentences, which take the silence there, cut to `longest`."""
    out = words[:1]
    for (before, _), (word, count) in pairwise(words):
        if word.end - word.start > longest:
            if word.text in _SENTENCE_ENDS:
                word = replace(word, end=word.start + longest)
            elif before.text in _SENTENCE_ENDS:
                word = replace(word, start=word.end - longest)
        out.append((word, count))
    return out


def _merged(words: Sequence[tuple[Word, int]]) -> list[tuple[Word, int]]:
    """Words with the punctuation around them."""
    joined: list[tuple[Word, int]] = []
    opening: list[tuple[Word, int]] = []
    for word, count in words:
        is_opening = word.text.startswith(" ") and word.text.strip() in _PREPENDED
        if is_opening:
            opening.append((word, count))
            continue
        if opening:
            text = "".join(mark.text for mark, _ in opening) + word.text
            word = replace(word, text=text)
            count += sum(marks for _, marks in opening)
            opening = []
        elif joined and word.text in _APPENDED and not joined[-1][0].text.endswith(" "):
            before, taken = joined[-1]
            joined[-1] = (replace(before, text=before.text + word.text), taken + count)
            continue
        joined.append((word, count))
    return joined + opening


def _fitted(piece: Piece, words: list[Word], median: float, last_end: float) -> Piece:
    """The piece with its words; a first or last word that is too long takes the piece's time."""
    longest = 2 * median
    first = words[0]
    is_long = first.end - first.start > longest
    are_long = len(words) > 1 and words[1].end - first.start > 2 * longest
    if first.end - last_end > 4 * median and (is_long or are_long):
        if len(words) > 1 and words[1].end - words[1].start > longest:
            boundary = max(words[1].end / 2, words[1].end - longest)
            first = replace(first, end=boundary)
            words[1] = replace(words[1], start=boundary)
        first = replace(first, start=max(0.0, first.end - longest))
        words[0] = first
    start, end = piece.start, piece.end
    if start < first.end and start - _TOLERANCE > first.start:
        words[0] = replace(first, start=max(0.0, min(first.end - median, start)))
    else:
        start = first.start
    last = words[-1]
    if end > last.start and end + _TOLERANCE < last.end:
        words[-1] = replace(last, end=max(last.start + median, end))
    else:
        end = last.end
    return replace(piece, start=start, end=end, words=tuple(words))
