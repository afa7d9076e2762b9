"""The engine that the cases of a GPU share, loaded once for each weight format."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

from assay._native import Buffer
from assay.bench.harness.case import Settings

if TYPE_CHECKING:
    from assay.engine import Engine

MODEL: Final = "llama-3-8b-shape"
PROMPT: Final = 128
OUTPUT: Final = 144
BATCHES: Final = (1, 8, 64, 256)
READ_PIECE: Final = 256 << 20
READ_PIECES: Final = 16
"""Memory of the read ceiling: pieces of random bytes."""


class EngineCache:
    """Loads an engine once for all cases of a weight format; holds one engine at a time."""

    def __init__(self, settings: Settings) -> None:
        self.source = settings.model or MODEL
        self.device = settings.device
        self._format: str | None = None
        self._engine: Engine | None = None

    def engine(
        self, weight_format: str, *, kv_format: str = "bf16", deterministic: bool = False
    ) -> Engine:
        """The engine with these weights; closes one with other weights first."""
        from assay.engine import Engine

        if self._engine is None or self._format != weight_format:
            if self._engine is not None:
                self._engine.close()
                self._engine = None
            self._engine = Engine.load(
                self.source,
                self.device,
                kv_tokens=BATCHES[-1] * (PROMPT + OUTPUT) + 32_768,
                prefix_caching=False,
                max_batch=BATCHES[-1],
                token_budget=2048,
                weight_format=weight_format,
            )
            self._format = weight_format
        settings = self._engine.settings
        if settings.deterministic != deterministic:
            self._engine.configure({"deterministic": deterministic})
        if settings.kv_format != kv_format:
            self._engine.configure({"kv_format": kv_format})
        return self._engine

    @functools.cached_property
    def read(self) -> Buffer:
        """The buffer that the read ceiling reads."""
        piece = np.random.default_rng(0).integers(0, 256, READ_PIECE, np.uint8)
        buffer = self.device.allocate(READ_PIECES * READ_PIECE)
        for index in range(READ_PIECES):
            self.device.upload("read", piece, buffer, index * READ_PIECE)
        return buffer
