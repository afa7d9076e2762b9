"""Log-probabilities of the most likely tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.array_types import Floats
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

TopLogprobs = tuple[tuple[int, float], ...]


def log_softmax(logits: npt.NDArray[np.float32]) -> Floats:
    """Log-probabilities of every token of every row, in float64."""
    exact = logits.astype(np.float64)
    shifted = exact - exact.max(axis=1, keepdims=True)
    normalizer = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    logprobs: Floats = shifted - normalizer
    return logprobs


def top_logprobs(logits: npt.NDArray[np.float32], count: int) -> list[TopLogprobs]:
    """The `count` most likely tokens of each row with their log-probabilities, best first."""
    return [_top(row, count) for row in log_softmax(logits)]


def _top(row: Floats, count: int) -> TopLogprobs:
    # Sorting the vocabulary would take longer than computing its logits.
    least = np.partition(row, -count)[-count] if count < len(row) else -np.inf
    candidates = np.flatnonzero(row >= least)
    best = candidates[np.argsort(-row[candidates], kind="stable")[:count]]
    return tuple((int(token), float(row[token])) for token in best)
