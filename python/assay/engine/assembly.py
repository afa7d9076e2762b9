"""The parts of an engine, built from its settings and built anew when these change."""

from __future__ import annotations

from assay._native import kernel_threads, limit_kernel_threads
from assay.engine.knobs import AS_STORED, KNOBS, Settings
from assay.engine.kv_memory import KvMemory
from assay.engine.loading import ModelFiles
from assay.engine.models import Model, build_model
from assay.engine.models.building import fingerprint
from assay.engine.runner import Flight, Runner
from assay.engine.scheduling import Batcher
from assay.errors import InputError
from assay.runtime import Device

FIRST_KV_TOKENS = 2048
"""Tokens that the KV cache begins with where its size is not given; it grows as it is needed."""


class Assembly:
    """Model, KV cache, batcher and runner of an engine."""

    def __init__(
        self,
        files: ModelFiles,
        device: Device,
        settings: Settings,
        *,
        kv_tokens: int | None,
        prefix_caching: bool,
    ) -> None:
        """Build everything; without `kv_tokens` the cache grows up to the model's context."""
        self.files = files
        self.device = device
        self.settings = settings
        self._grows = kv_tokens is None
        self._kv_tokens = kv_tokens
        self._prefix_caching = prefix_caching
        # Another engine's limit stands where this one asks for none.
        if settings.threads:
            limit_kernel_threads(settings.threads)
        self.model = self._build_model()
        self.kv = self._build_cache()
        self.batcher = self._build_batcher()
        self.runner = self._build_runner()
        self.flight: Flight | None = None
        """The step that is under way."""

    @property
    def overlaps(self) -> bool:
        """Whether a step is launched before the tokens of the one before it are read."""
        chosen = self.settings.overlap
        return chosen == "on" or (chosen == "auto" and self.device.kind == "cuda")

    @property
    def must_grow(self) -> bool:
        """Whether the cache had too few blocks in the last step, and may have more."""
        return self.batcher.short and self.can_grow(2 * self.kv.capacity)

    @property
    def context_limit(self) -> int:
        """Tokens that a prompt and its output may have together."""
        context = self.model.shape.context
        return context if self._grows else min(context, self.kv.capacity)

    def change(self, settings: Settings) -> None:
        """Go over to other settings; requests that ran are put back in line where they must."""
        before = self.settings
        now, then = settings.as_dict(), before.as_dict()
        changed = {name for name, value in now.items() if then[name] != value}
        parts: set[str] = {KNOBS[name].rebuilds for name in changed}
        self.settings = settings
        try:
            self._rebuild(parts)
        except BaseException:
            self.settings = before
            self._rebuild(parts)
            raise
        if "threads" in changed:
            limit_kernel_threads(settings.threads or kernel_threads()[1])

    def grow_if_short(self) -> None:
        """Give a cache that may grow more blocks, if the last step had too few."""
        if self.must_grow:
            self.grow(2 * self.kv.capacity)

    def can_grow(self, tokens: int) -> bool:
        """Whether holding so many tokens would make the cache larger."""
        return self._grows and self.kv.capacity < min(tokens, self.model.shape.context)

    def grow(self, tokens: int) -> None:
        """Make the cache hold so many tokens, if it may grow that far; its content stays."""
        if not self.can_grow(tokens):
            return
        kept = self.kv.snapshot()
        self._kv_tokens = min(max(tokens, 2 * self.kv.capacity), self.model.shape.context)
        self._rebuild({"cache"})
        self.kv.restore(kept)

    def close(self) -> None:
        """Give the memory back; the weights stay for other engines."""
        self.runner.close()
        self.kv.free()

    def _rebuild(self, parts: set[str]) -> None:
        before = self.batcher
        if parts & {"cache", "weights"}:
            before.requeue_all()
            self.runner.close()
            self.kv.free()
            if "weights" in parts:
                self.model = self._build_model()
            self.kv = self._build_cache()
        elif "graphs" in parts:
            self.runner.close()
        self.batcher = self._build_batcher()
        self.batcher.take_over(before)
        if parts & {"cache", "weights", "graphs"}:
            self.runner = self._build_runner()

    def _build_model(self) -> Model:
        chosen = self.settings.weight_format
        return build_model(self.files, self.device, None if chosen == AS_STORED else chosen)

    def _build_cache(self) -> KvMemory:
        tokens = self._kv_tokens
        if tokens is None:
            tokens = min(self.model.shape.context, FIRST_KV_TOKENS)
        size = self.settings.block_tokens
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < size:
            raise InputError(f"kv_tokens: expected at least one block of {size}, got {tokens!r}")
        files, weight_format = self.files, self.settings.weight_format
        return KvMemory(
            self.device,
            self.model.shape,
            blocks=-(-tokens // size),
            block_tokens=size,
            format=self.settings.kv_format,
            prefix_caching=self._prefix_caching,
            owner=lambda: (fingerprint(files), weight_format),
        )

    def _build_batcher(self) -> Batcher:
        settings = self.settings
        return Batcher(
            self.kv.books,
            max_batch=settings.max_batch,
            token_budget=settings.token_budget,
            policy=settings.policy,
            speculation=settings.speculation_depth,
        )

    def _build_runner(self) -> Runner:
        settings = self.settings
        samples = settings.max_batch * (1 + settings.speculation_depth)
        return Runner(
            self.model,
            self.device,
            self.kv,
            rows=settings.token_budget,
            sequences=settings.max_batch,
            samples=min(samples, settings.token_budget),
            context=self.context_limit,
            invariant=settings.deterministic,
            buckets=settings.graph_buckets,
            # Where nothing may depend on what else runs, contexts are read in one piece.
            split=1 if settings.deterministic else settings.attention_split,
        )
