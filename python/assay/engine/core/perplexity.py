"""How well a model predicts a text, and what a format of weights changes about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from assay.engine.core.engine import Engine
from assay.engine.core.logprobs import log_softmax
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine.loading import ModelFiles
    from assay.runtime import Device

ROWS = 64
"""Tokens whose logits a step gives at most: as many rows as the head has to work on."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What weights of one format make of a text, beside those of the first format."""

    weight_format: str
    weight_bytes: int
    perplexity: float
    """e to the mean of what each token's probability lacks, in nats."""
    divergence: float
    """Mean of the Kullback-Leibler divergence from the first format, in nats per token."""
    agreement: float
    """Share of tokens after which the likeliest next one is the same."""
    tokens: int
    """Tokens that were predicted."""
    notes: tuple[str, ...]
    """What of the weights is computed on in another format."""


class _Sums:
    def __init__(self) -> None:
        self.surprise = self.divergence = 0.0
        self.same = self.tokens = 0

    def add(
        self,
        chances: npt.NDArray[np.float64],
        reference: npt.NDArray[np.float64],
        following: Sequence[int],
    ) -> None:
        self.surprise -= float(chances[np.arange(len(following)), list(following)].sum())
        self.divergence += float((np.exp(reference) * (reference - chances)).sum())
        self.same += int((chances.argmax(axis=1) == reference.argmax(axis=1)).sum())
        self.tokens += len(following)


def compare_formats(
    files: ModelFiles,
    device: Device | str,
    tokens: Sequence[int],
    formats: Sequence[str],
    *,
    window: int = 256,
) -> list[Quality]:
    """Read a text in windows with weights of each format; the first one is what others are held to.

    A window knows nothing of the one before it. All formats are in memory at once.
    """
    if window < 2:
        raise InputError(f"window: expected at least 2 tokens, got {window}")
    if len(tokens) < 2:
        raise InputError(f"text: expected at least 2 tokens, got {len(tokens)}")
    if not formats:
        raise InputError("formats: expected at least one, got none")
    bos = files.tokenizer.bos_id if files.tokenizer.add_bos else None
    begin = [] if bos is None else [bos]
    engines = [
        Engine.load(files, device, weight_format=one, max_batch=ROWS, prefix_caching=False)
        for one in formats
    ]
    sums = [_Sums() for _ in formats]
    try:
        for first in range(0, len(tokens) - 1, window):
            # The first token of a window is given and not predicted.
            read = list(tokens[first : first + window])
            if len(read) < 2:
                break
            reference: npt.NDArray[np.float64] | None = None
            for engine, each in zip(engines, sums, strict=True):
                logits = engine.logits([*begin, *read])
                chances = log_softmax(logits[len(begin) : -1])
                reference = chances if reference is None else reference
                each.add(chances, reference, read[1:])
        return [
            Quality(
                weight_format=one,
                weight_bytes=engine.model.weight_bytes,
                perplexity=float(np.exp(each.surprise / each.tokens)),
                divergence=each.divergence / each.tokens,
                agreement=each.same / each.tokens,
                tokens=each.tokens,
                notes=tuple(engine.model.notes),
            )
            for one, engine, each in zip(formats, engines, sums, strict=True)
        ]
    finally:
        for engine in engines:
            engine.close()
