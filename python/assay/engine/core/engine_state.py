"""The components of an engine, built from its settings and rebuilt when these change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from assay._native import kernel_threads, limit_kernel_threads
from assay.engine.core import gpu_limits, kv_sizing, speculation_methods
from assay.engine.core.batch_scheduler import BatchScheduler
from assay.engine.core.knobs import AS_STORED, KNOBS, Settings
from assay.engine.core.step_pacing import StepPacer
from assay.engine.loading import ModelFiles
from assay.engine.loading.once import Once
from assay.engine.models import offloading, residence
from assay.engine.models.model import Model
from assay.engine.models.registry import build_model, fingerprint
from assay.engine.models.residence import Evicted
from assay.engine.requests.grammar import GrammarCompiler
from assay.engine.runner.degradations import Degradations
from assay.engine.runner.kv_memory import KvMemory
from assay.engine.runner.model_runner import InFlightStep, ModelRunner
from assay.engine.runner.recording import EngineRecorder
from assay.engine.speculation.proposer import Proposer
from assay.errors import InputError, OutOfMemoryError
from assay.lazy_import import LazyModule
from assay.runtime import Device, Stream
from assay.runtime.graphs import Graph

if TYPE_CHECKING:
    from assay.engine.loading.lora_adapter import LoraAdapter
    from assay.runtime import cuda
else:
    cuda = LazyModule("assay.runtime.cuda", globals(), "cuda")

FIRST_KV_TOKENS = 2048
"""Initial tokens of a KV cache whose size is not given; it grows on demand."""
MAX_KV_TOKENS: Final = 2**31 - 1
"""Slots of the cache are counted in 32 bits."""


class EngineState:
    """Model, KV memory, batch scheduler, model runner and in-flight step of an engine."""

    def __init__(
        self,
        files: ModelFiles,
        device: Device,
        settings: Settings,
        *,
        kv_tokens: int | None,
        prefix_caching: bool,
        adapters: Sequence[LoraAdapter] = (),
    ) -> None:
        """Build all components; without `kv_tokens` the cache grows up to the model's context."""
        gpu_limits.check_settings(device, settings)
        self.files = files
        self.device = device
        self.settings = settings
        self._grows = kv_tokens is None
        self._kv_tokens = kv_tokens
        self._prefix_caching = prefix_caching
        self.adapters: tuple[LoraAdapter | None, ...] = tuple(adapters)
        """LoRA adapters; a request's number is one more than an index here. None: unloaded."""
        self._growth_failed = False
        self._degradations = Degradations()
        self._recorder: EngineRecorder | None = None
        # The limit is the process's: without one here, another engine's stays in force.
        if settings.threads:
            limit_kernel_threads(settings.threads)
        self._keeps_resident: Graph | None = None
        """Keeps the weights of an engine that has slept on the device."""
        self.asleep: Evicted | None = None
        """What became of the weights; None while it is awake."""
        self._capture_streams: dict[str, Stream] = {}
        self._check_adapters(self.adapters)
        self._base_model = self._build_base_model()
        self.model = self._with_adapters(self._base_model)
        gpu_limits.check_shape(device, self.model.shape)
        vocabulary = self.model.shape.vocabulary
        self.grammars = Once(lambda: GrammarCompiler(files.tokenizer, vocabulary))
        """Compiles what outputs must look like, from the first request that says so."""
        self.kv = self._build_cache()
        self._runner: ModelRunner | None = self._build_runner()
        self.proposer: Proposer | None = self._build_proposer()
        self.scheduler = self._build_scheduler()
        self.in_flight: InFlightStep | None = None
        """The step that was launched and whose sampled tokens are not read back yet."""

    @property
    def runner(self) -> ModelRunner:
        """The model runner."""
        if self._runner is None:
            raise OutOfMemoryError(
                "engine: expected step buffers, got none: a change of settings ran out of memory",
                "close the engine and load it again",
            )
        return self._runner

    @property
    def recorder(self) -> EngineRecorder | None:
        """What times the steps; None while nothing does."""
        return self._recorder

    @recorder.setter
    def recorder(self, recorder: EngineRecorder | None) -> None:
        self._recorder = recorder
        if self._runner is not None:
            self._runner.recorder = recorder

    @property
    def async_scheduling(self) -> bool:
        """Whether a step is launched before the sampled tokens of the last one are read back."""
        overlap = self.settings.overlap
        return overlap == "on" or (
            overlap == "auto" and self.device.capabilities.executes_asynchronously
        )

    @property
    def must_grow(self) -> bool:
        """Whether the last step ran out of KV blocks and the cache may grow."""
        if not self.scheduler.ran_out_of_blocks or self._growth_failed:
            return False
        return self.can_grow(2 * self.kv.capacity)

    @property
    def degradations(self) -> list[str]:
        """What the engine does less well than configured, one line each."""
        found = [*self._degradations, *(self._runner.degradations if self._runner else ())]
        if self.proposer is not None:
            found += self.proposer.degradations
        if (
            self.device.capabilities.uses_cublaslt
            and (absent := cuda.cublaslt().missing) is not None
        ):
            found.append(f"GEMM of many rows runs on fallback kernels: {absent}")
        return found

    @property
    def context_limit(self) -> int:
        """Tokens that a prompt and its output may have together."""
        context = self.model.shape.context
        return context if self._grows else min(context, self.kv.capacity)

    def configure(self, settings: Settings) -> None:
        """Apply other settings; running requests are requeued where the cache is rebuilt."""
        gpu_limits.check_settings(self.device, settings)
        before = self.settings
        now, then = settings.as_dict(), before.as_dict()
        changed = {name for name, value in now.items() if then[name] != value}

        def roll_back() -> None:
            self.settings = before

        self.settings = settings
        components = {KNOBS[name].rebuilds for name in changed}
        if "max_batch" in changed and self.model.shape.state is not None:
            components.add("cache")
        self._rebuild(components, roll_back)
        if "threads" in changed:
            limit_kernel_threads(settings.threads or kernel_threads()[1])

    def grow_if_out_of_blocks(self) -> None:
        """Double a cache that may grow, if the last step ran out of blocks.

        If the device is out of memory, requests wait for blocks as in a cache of fixed size.
        """
        if not self.must_grow:
            return
        try:
            self.grow(2 * self.kv.capacity)
        except OutOfMemoryError as error:
            self._growth_failed = True
            self._degradations.note(
                f"the KV cache stays at {self.kv.capacity} tokens", error.message
            )

    def can_grow(self, tokens: int) -> bool:
        """Whether the cache may and must grow to hold this many tokens."""
        return self._grows and self.kv.capacity < min(tokens, self.model.shape.context)

    def grow(self, tokens: int) -> None:
        """Grow the cache to hold this many tokens, if it may; cached blocks are kept."""
        if not self.can_grow(tokens):
            return
        snapshot, before = self.kv.snapshot(), self._kv_tokens

        def roll_back() -> None:
            self._kv_tokens = before

        self._kv_tokens = min(max(tokens, 2 * self.kv.capacity), self.model.shape.context)
        try:
            self._rebuild({"cache"}, roll_back)
            self._growth_failed = False
        finally:
            self.kv.restore(snapshot)

    def fill_kv_cache(self, share: float) -> int:
        """Size the cache so that this share of the device's memory is in use, and keep it so."""
        before = self._kv_tokens, self._grows

        def roll_back() -> None:
            self._kv_tokens, self._grows = before

        if self.model.shape.state is None:
            settings = self.settings
            tokens = kv_sizing.tokens_that_fit(self.device, self.kv, self.model.shape, share)
            tokens = min(tokens, settings.max_batch * self.model.shape.context)
            size = settings.block_tokens
            self._kv_tokens, self._grows = max(tokens // size, 1) * size, False
            self._rebuild({"cache"}, roll_back)
        return self.kv.capacity

    def set_adapters(self, adapters: Sequence[LoraAdapter | None]) -> None:
        """Serve other adapters; those of requests under way must keep their places."""
        self._check_adapters(adapters)
        before = self.adapters

        def roll_back() -> None:
            self.adapters = before

        self.adapters = tuple(adapters)
        self._rebuild({"adapters"}, roll_back)
        self.kv.forget_identity()

    def sleep(self) -> Evicted:
        """Move the weights to the host and free everything else; no request may be under way."""
        if self.asleep is None:
            self._free()
            self.asleep = residence.evict(self.device, self._models)
            self.device.trim()
        return self.asleep

    def wake_up(self) -> None:
        """Move the weights back and build everything else; it stays asleep if memory is short."""
        if self.asleep is None:
            return
        try:
            self._keeps_resident = residence.restore(self._capture_stream("steps"), self._models)
            self.kv = self._build_cache()
            self._runner = self._build_runner()
            self.proposer = self._build_proposer()
        except BaseException as error:
            if isinstance(error, OutOfMemoryError):
                # Its frames keep what was built alive.
                error.__traceback__ = None
            self.asleep = None
            self.sleep()
            raise
        self.scheduler = self._build_scheduler()
        self.asleep = None

    @property
    def _models(self) -> list[Model]:
        """The models whose weights the engine uses."""
        return [self.model, *([] if self._draft_model is None else [self._draft_model])]

    def close(self) -> None:
        """Free the memory; the weights stay for other engines."""
        self._free()

    def _free(self) -> None:
        """Free all but the weights."""
        self._drop_proposer()
        self._drop_runner()
        self.kv.free()
        if self._keeps_resident is not None:
            self._keeps_resident.close()
            self._keeps_resident = None
        # The scratch memory of a stream lives as long as it.
        self._capture_streams.clear()

    def _capture_stream(self, purpose: str) -> Stream:
        """What graphs are captured on: kept over every rebuild, with the scratch memory that they share."""
        if purpose not in self._capture_streams:
            self._capture_streams[purpose] = self.device.stream()
        return self._capture_streams[purpose]

    def _rebuild(self, components: Collection[str], roll_back: Callable[[], None]) -> None:
        """Rebuild components; if that fails, rebuild them with the settings before."""
        try:
            self._build(components)
        except BaseException as error:
            if isinstance(error, OutOfMemoryError):
                # Its frames keep the new components alive, and their memory is needed.
                error.__traceback__ = None
            roll_back()
            self._build(components)
            raise

    def _build(self, components: Collection[str]) -> None:
        """Rebuild components from the settings; the old ones free their memory first."""
        before = self.scheduler
        self._drop_proposer()
        if not {"cache", "weights", "graphs", "adapters"}.isdisjoint(components):
            self._drop_runner()
        if "adapters" in components:
            self.model = self._with_adapters(self._base_model)
        if not {"cache", "weights"}.isdisjoint(components):
            before.requeue_all()
            self.kv.free()
            if "weights" in components:
                self._base_model = self._build_base_model()
                self.model = self._with_adapters(self._base_model)
            self.kv = self._build_cache()
        if self._runner is None:
            self._runner = self._build_runner()
        self.proposer = self._build_proposer()
        self.scheduler = self._build_scheduler()
        self.scheduler.adopt_requests(before)

    def _drop_runner(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _drop_proposer(self) -> None:
        if self.proposer is not None:
            self.proposer.close()
            self.proposer = self.scheduler.proposer = None

    def _check_adapters(self, adapters: Sequence[LoraAdapter | None]) -> None:
        if any(adapters):
            from assay.engine.models.adapters import check_adapters

            check_adapters(self.files, [adapter for adapter in adapters if adapter is not None])

    def _with_adapters(self, model: Model) -> Model:
        if not any(self.adapters):
            return model
        from assay.engine.models.adapters import with_adapters

        return with_adapters(model, self.files, self.adapters, self.device)

    def _build_base_model(self) -> Model:
        """The model of the files, without adapters."""
        format, offload_layers = self.settings.weight_format, self.settings.offload_layers
        offloading.check_layers(self.files, offload_layers)
        try:
            return build_model(
                self.files,
                self.device,
                None if format == AS_STORED else format,
                offload_layers=offload_layers,
            )
        except OutOfMemoryError as error:
            capacity = self.device.memory_report().pool_capacity_bytes
            raise offloading.explained(self.files, capacity, error) from None

    def _build_cache(self) -> KvMemory:
        blocks, block_tokens = self._cache_size()
        if blocks * block_tokens > MAX_KV_TOKENS:
            raise InputError(
                f"kv_tokens: expected at most {MAX_KV_TOKENS:,}, got {blocks * block_tokens:,}"
            )
        files, weight_format = self.files, self.settings.weight_format
        return KvMemory(
            self.device,
            self.model.shape,
            blocks=blocks,
            block_tokens=block_tokens,
            format=self.settings.kv_format,
            # The state of a sequence after a prefix of its tokens is gone.
            prefix_caching=self._prefix_caching and self.model.shape.state is None,
            owner=lambda: (
                fingerprint(files),
                weight_format,
                *(adapter and adapter.digest for adapter in self.adapters),
            ),
        )

    def _cache_size(self) -> tuple[int, int]:
        """How many blocks the cache has, and the tokens of each."""
        tokens, shape = self._kv_tokens, self.model.shape
        if shape.state is not None:
            # A sequence has one block, which holds its states; one more is for scoring a text.
            return self.settings.max_batch + 1, shape.context
        if tokens is None:
            tokens = min(shape.context, FIRST_KV_TOKENS)
        size = self.settings.block_tokens
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < size:
            raise InputError(f"kv_tokens: expected at least one block of {size}, got {tokens!r}")
        return -(-tokens // size), size

    def _build_scheduler(self) -> BatchScheduler:
        settings = self.settings
        return BatchScheduler(
            self.kv.block_manager,
            max_batch=settings.max_batch,
            token_budget=settings.token_budget,
            policy=settings.policy,
            speculation_depth=self._speculation_depth(),
            proposer=self.proposer,
            pacer=StepPacer(settings.max_step_ms / 1000.0),
        )

    def _build_proposer(self) -> Proposer | None:
        # Kept from one proposer to the next, so that its weights are packed once.
        self._draft_model = speculation_methods.draft_model(self.files, self.device, self.settings)
        if not self._speculation_depth():
            return None
        return speculation_methods.proposer(
            speculation_methods.Target(
                self.device,
                self.settings,
                self.model,
                self.kv,
                self.context_limit,
                self._prefix_caching,
                self._draft_model,
                self._capture_stream("drafts"),
            )
        )

    def _speculation_depth(self) -> int:
        """Draft tokens of a step; none for state-space layers, whose states cannot go back."""
        depth = self.settings.speculation_depth
        if not depth or self.model.shape.state is None:
            return depth
        self._degradations.note(
            "speculation is off", "the states of state-space layers cannot take tokens back"
        )
        return 0

    def _build_runner(self) -> ModelRunner:
        settings = self.settings
        max_num_samples = settings.max_batch * (1 + self._speculation_depth())
        runner = ModelRunner(
            self.model,
            self.device,
            self.kv,
            max_num_tokens=settings.token_budget,
            max_num_seqs=settings.max_batch,
            max_num_samples=min(max_num_samples, settings.token_budget),
            max_model_len=self.context_limit,
            batch_invariant=settings.deterministic,
            graph_buckets=settings.graph_buckets,
            captured_prefill=settings.captured_prefill,
            graphs_per_step=settings.graphs_per_step,
            # Splits are summed in another order: deterministic mode reads a context unsplit.
            num_splits=1 if settings.deterministic else settings.attention_split,
            capture_stream=self._capture_stream("steps"),
        )
        runner.recorder = self._recorder
        return runner
