"""The parts of an engine, built from its settings and built anew when these change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from assay._native import kernel_threads, limit_kernel_threads
from assay.engine.core import gpu_limits
from assay.engine.core.batch_scheduler import Batcher
from assay.engine.core.degradations import Degradations
from assay.engine.core.knobs import AS_STORED, KNOBS, Settings
from assay.engine.core.kv_memory import KvMemory
from assay.engine.loading import ModelFiles
from assay.engine.models.model import Model
from assay.engine.models.registry import build_model, fingerprint
from assay.engine.runner.model_runner import Flight, Runner
from assay.errors import InputError, OutOfMemoryError
from assay.lazy_import import LazyModule
from assay.runtime import Device

if TYPE_CHECKING:
    from assay.runtime import cuda
else:
    cuda = LazyModule("assay.runtime.cuda", globals(), "cuda")

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
        gpu_limits.check_settings(device, settings)
        self.files = files
        self.device = device
        self.settings = settings
        self._grows = kv_tokens is None
        self._kv_tokens = kv_tokens
        self._prefix_caching = prefix_caching
        self._is_stuck = False
        self._degradations = Degradations()
        # Another engine's limit stands where this one asks for none.
        if settings.threads:
            limit_kernel_threads(settings.threads)
        self.model = self._build_model()
        gpu_limits.check_shape(device, self.model.shape)
        self.kv = self._build_cache()
        self.batcher = self._build_batcher()
        self._runner: Runner | None = self._build_runner()
        self.flight: Flight | None = None
        """The step that is under way."""

    @property
    def runner(self) -> Runner:
        """What runs the steps."""
        if self._runner is None:
            raise OutOfMemoryError(
                "engine: expected the memory that steps work in, got none since a change that failed",
                "close it and load it again",
            )
        return self._runner

    @property
    def overlaps(self) -> bool:
        """Whether a step is launched before the tokens of the one before it are read."""
        chosen = self.settings.overlap
        return chosen == "on" or (chosen == "auto" and self.device.kind == "cuda")

    @property
    def must_grow(self) -> bool:
        """Whether the cache had too few blocks in the last step, and may have more."""
        if not self.batcher.short or self._is_stuck:
            return False
        return self.can_grow(2 * self.kv.capacity)

    @property
    def degradations(self) -> list[str]:
        """What was done less well than asked for, in one line each."""
        found = [*self._degradations, *(self._runner.degradations if self._runner else ())]
        if self.device.kind == "cuda" and (absent := cuda.products().missing) is not None:
            found.append(f"products of many rows run by kernels of Assay's own: {absent}")
        return found

    @property
    def context_limit(self) -> int:
        """Tokens that a prompt and its output may have together."""
        context = self.model.shape.context
        return context if self._grows else min(context, self.kv.capacity)

    def change(self, settings: Settings) -> None:
        """Go over to other settings; requests that ran are put back in line where they must."""
        gpu_limits.check_settings(self.device, settings)
        before = self.settings
        now, then = settings.as_dict(), before.as_dict()
        changed = {name for name, value in now.items() if then[name] != value}

        def go_back() -> None:
            self.settings = before

        self.settings = settings
        self._rebuild({KNOBS[name].rebuilds for name in changed}, go_back)
        if "threads" in changed:
            limit_kernel_threads(settings.threads or kernel_threads()[1])

    def grow_if_short(self) -> None:
        """Give a cache that may grow more blocks, if the last step had too few.

        Where the device has no memory for them, requests wait for blocks as in a cache that may
        not grow.
        """
        if not self.must_grow:
            return
        try:
            self.grow(2 * self.kv.capacity)
        except OutOfMemoryError as error:
            self._is_stuck = True
            kept = f"the KV cache stays at {self.kv.capacity} tokens"
            self._degradations.note(kept, error.message)

    def can_grow(self, tokens: int) -> bool:
        """Whether holding so many tokens would make the cache larger."""
        return self._grows and self.kv.capacity < min(tokens, self.model.shape.context)

    def grow(self, tokens: int) -> None:
        """Make the cache hold so many tokens, if it may grow that far; its content stays."""
        if not self.can_grow(tokens):
            return
        kept, before = self.kv.snapshot(), self._kv_tokens

        def go_back() -> None:
            self._kv_tokens = before

        self._kv_tokens = min(max(tokens, 2 * self.kv.capacity), self.model.shape.context)
        try:
            self._rebuild({"cache"}, go_back)
            self._is_stuck = False
        finally:
            self.kv.restore(kept)

    def close(self) -> None:
        """Give the memory back; the weights stay for other engines."""
        self._drop_runner()
        self.kv.free()

    def _rebuild(self, parts: Collection[str], go_back: Callable[[], None]) -> None:
        """Make parts anew, or as they were before where that fails."""
        try:
            self._build(parts)
        except BaseException as error:
            if isinstance(error, OutOfMemoryError):
                # Its frames hold what was built so far, and the memory is needed.
                error.__traceback__ = None
            go_back()
            self._build(parts)
            raise

    def _build(self, parts: Collection[str]) -> None:
        """Make parts anew from the settings, in the memory that those before them had."""
        before = self.batcher
        if not {"cache", "weights", "graphs"}.isdisjoint(parts):
            self._drop_runner()
        if not {"cache", "weights"}.isdisjoint(parts):
            before.requeue_all()
            self.kv.free()
            if "weights" in parts:
                self.model = self._build_model()
            self.kv = self._build_cache()
        self.batcher = self._build_batcher()
        self.batcher.take_over(before)
        if self._runner is None:
            self._runner = self._build_runner()

    def _drop_runner(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

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
