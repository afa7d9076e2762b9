"""The likeliest tokens beside the one that was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy", globals(), "np")

TopLogprobs = tuple[tuple[int, float], ...]


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Log-probabilities of every token of every row, in double precision."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    chances: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return chances


def top_logprobs(logits: npt.NDArray[np.float32], count: int) -> list[TopLogprobs]:
    """Of every row the `count` likeliest tokens with their log-probabilities, best first."""
    chances = log_softmax(logits)
    best = np.argsort(-chances, axis=1, kind="stable")[:, :count]
    return [
        tuple((int(token), float(row[token])) for token in tokens)
        for row, tokens in zip(chances, best, strict=True)
    ]
