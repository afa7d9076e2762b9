"""Perplexity of a model on a text, and how quantized weights and KV caches change its predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.array_types import Floats
from assay.engine.core.engine import Engine
from assay.engine.core.knobs import KNOBS
from assay.engine.core.logprobs import log_softmax
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine.loading import ModelFiles
    from assay.runtime import Device

DECODE_BATCH = int(KNOBS["max_batch"].default)
"""Tokens of a step, unless told: kernels of more rows may round less than those that decode."""


@dataclass(frozen=True, slots=True)
class FormatQuality:
    """Predictions with weights and KV cache of one format, compared with those of the first."""

    weight_format: str
    kv_format: str
    weight_bytes: int
    perplexity: float
    """exp of the mean negative log-likelihood."""
    divergence: float
    """Mean Kullback-Leibler divergence from the first format, in nats per token."""
    agreement: float
    """Share of tokens after which the most likely next token is the same."""
    tokens: int
    """Predicted tokens."""
    notes: tuple[str, ...]
    """Which weights are computed in another format."""


class _Sums:
    def __init__(self) -> None:
        self.negative_log_likelihood = self.divergence = 0.0
        self.agreements = self.tokens = 0

    def add(self, logprobs: Floats, reference: Floats, next_tokens: Sequence[int]) -> None:
        rows = np.arange(len(next_tokens))
        self.negative_log_likelihood -= float(logprobs[rows, list(next_tokens)].sum())
        self.divergence += float((np.exp(reference) * (reference - logprobs)).sum())
        self.agreements += int((logprobs.argmax(axis=1) == reference.argmax(axis=1)).sum())
        self.tokens += len(next_tokens)


def _knobs(format: str) -> dict[str, Any]:
    """The knobs of a format of weights, or of weights and KV cache."""
    weights, separator, kv_cache = format.partition("/")
    return {"weight_format": weights} | ({"kv_format": kv_cache} if separator else {})


def compare_formats(
    files: ModelFiles,
    device: Device | str,
    tokens: Sequence[int],
    formats: Sequence[str],
    *,
    window: int = 256,
    batch: int = DECODE_BATCH,
    progress: Callable[[str], None] = lambda text: None,
) -> list[FormatQuality]:
    """Evaluate a text in windows with weights of each format; the first is the reference.

    `file/fp8` has the weights of the file and a KV cache of fp8. Windows are independent of each
    other, and computed `batch` tokens at a time, by the kernels that decode that many requests. All
    formats are in memory at once.
    """
    if window < 2:
        raise InputError(f"window: expected at least 2 tokens, got {window}")
    if len(tokens) < 2:
        raise InputError(f"text: expected at least 2 tokens, got {len(tokens)}")
    if not formats:
        raise InputError("formats: expected at least one, got none")
    bos = files.tokenizer.bos_id if files.tokenizer.add_bos else None
    prefix = [] if bos is None else [bos]
    engines = [
        Engine.load(files, device, max_batch=batch, prefix_caching=False, **_knobs(one))
        for one in formats
    ]
    sums = [_Sums() for _ in formats]
    try:
        for first in range(0, len(tokens) - 1, window):
            progress(f"read {first:,} of {len(tokens):,} tokens")
            # The first token of a window is given and not predicted.
            chunk = list(tokens[first : first + window])
            if len(chunk) < 2:
                break
            reference: Floats | None = None
            for engine, each in zip(engines, sums, strict=True):
                logits = engine.logits([*prefix, *chunk])
                logprobs = log_softmax(logits[len(prefix) : -1])
                reference = logprobs if reference is None else reference
                each.add(logprobs, reference, chunk[1:])
        return [
            FormatQuality(
                weight_format=one.split("/")[0],
                kv_format=engine.settings.kv_format,
                weight_bytes=engine.model.weight_bytes,
                perplexity=float(np.exp(each.negative_log_likelihood / each.tokens)),
                divergence=each.divergence / each.tokens,
                agreement=each.agreements / each.tokens,
                tokens=each.tokens,
                notes=tuple(engine.model.notes),
            )
            for one, engine, each in zip(formats, engines, sums, strict=True)
        ]
    finally:
        for engine in engines:
            engine.close()
