"""The device memory of steps: inputs, activations, logits and sampled tokens.

Everything is allocated once, for the largest step. A smaller step uses the beginning of each
array: a captured graph finds its buffers at the same addresses, and no step allocates.
"""

from __future__ import annotations

from array import array

from assay.engine.models.input_layout import InputLayout
from assay.engine.models.model_shape import ModelShape
from assay.engine.models.part_buffers import allocate_parts
from assay.engine.models.step_buffers import (
    AdapterBuffers,
    ExpertBuffers,
    LatentBuffers,
    StateSpaceBuffers,
    StepBuffers,
    StepShape,
)
from assay.engine.models.views import view
from assay.runtime import Array, Device, allocation, dtypes
from assay.runtime.dtypes import DType

BUFFER_COUNT = 2
"""Inputs and outputs are double-buffered: one set is written while the other step runs."""


def activation_type(device: Device) -> DType:
    """The data type of activations: bfloat16 halves the bytes that GPUs read and write."""
    return device.capabilities.preferred_activation_dtype


class Workspace:
    """The memory of the largest step; `step_buffers` cuts it to a shape."""

    def __init__(
        self,
        device: Device,
        model_shape: ModelShape,
        *,
        max_num_tokens: int,
        max_num_seqs: int,
        max_num_samples: int,
        max_table_width: int,
    ) -> None:
        """Allocate for steps of up to this many tokens, sequences and samples."""
        self.device = device
        self.model_shape = model_shape
        self.max_shape = StepShape(
            max_num_tokens,
            max_num_seqs,
            max_num_samples,
            max_table_width,
            adapted=model_shape.adapters is not None,
        )
        words = InputLayout(self.max_shape).num_words
        self.staging = memoryview(array("i", bytes(4 * words)))
        """The inputs in host memory."""
        self.staging_floats = self.staging.cast("B").cast("f")
        self.inputs = [self._array((words,), dtypes.int32) for _ in range(BUFFER_COUNT)]
        self.outputs = [
            self._array((2 * max_num_samples,), dtypes.int32) for _ in range(BUFFER_COUNT)
        ]
        self.readback = memoryview(array("i", bytes(8 * max_num_samples)))
        """The outputs in host memory: tokens, then the bits of their log-probabilities."""
        hidden = model_shape.hidden
        self.widths = {
            "hidden": hidden,
            "attention_residual": hidden,
            "normed": hidden,
            **_attention_widths(model_shape),
            "intermediate": max(model_shape.inner, 1),
        }
        self.activation_type = activation_type(device)
        self.activations = {
            name: self._array((max_num_tokens, width), self.activation_type)
            for name, width in self.widths.items()
        }
        self.sampled_hidden = self._array((max_num_samples, hidden), self.activation_type)
        self.logits = self._array((max_num_samples, model_shape.vocabulary))
        self.token_counts: Array | None = None
        self.prompt_mask: Array | None = None
        self.logits_bias: Array | None = None
        self.token_masks: Array | None = None
        self.expert_arrays = self._allocate_experts()
        self.adapter_arrays = {
            name: self._array((max_num_tokens, width), self.activation_type)
            for name, width in self._adapter_widths().items()
        }
        self.part_buffers = allocate_parts(
            device, self.activation_type, max_num_tokens, model_shape.splits
        )
        self.latent_arrays = self._allocate_latents()
        self.state_arrays = {
            name: self._array((max_num_tokens, width), self.activation_type)
            for name, width in _state_widths(model_shape).items()
        }

    def allocate_bias(self) -> Array:
        """What is added to logits, allocated when the first request needs it."""
        if self.logits_bias is None:
            self.logits_bias = self._array(self.logits.shape)
        return self.logits_bias

    def allocate_masks(self) -> Array:
        """A bit for each token, whether it may be sampled; allocated when the first request needs it."""
        if self.token_masks is None:
            rows, vocabulary = self.logits.shape
            self.token_masks = self._array((rows, -(-vocabulary // 32)), dtypes.int32)
        return self.token_masks

    def _expert_extents(self, tokens: int) -> dict[str, tuple[tuple[int, int], DType]]:
        """The shapes and types of the arrays of `ExpertBuffers`."""
        shape = self.model_shape.experts
        if shape is None:
            return {}
        rows, kind = tokens * shape.top_k, self.activation_type
        return {
            "logits": ((tokens, shape.experts), dtypes.float32),
            "experts": ((tokens, shape.top_k), dtypes.int32),
            "weights": ((tokens, shape.top_k), dtypes.float32),
            "intermediate": ((rows, shape.inner), kind),
            "outputs": ((rows, self.model_shape.hidden), kind),
            "shared_output": ((tokens if shape.shared else 1, self.model_shape.hidden), kind),
            "shared_gates": ((tokens if shape.shared else 1, 1), dtypes.float32),
        }

    def _adapter_widths(self) -> dict[str, int]:
        """The widths of the arrays of `AdapterBuffers` that a layer writes."""
        shape = self.model_shape.adapters
        if shape is None:
            return {}
        return {
            "low": shape.rank,
            "delta": shape.outputs,
            "product": shape.outputs,
            "total": shape.activated,
        }

    def _adapter_buffers(self, tokens: int, indices: Array) -> AdapterBuffers | None:
        if not self.adapter_arrays:
            return None
        views = {
            name: view(self.adapter_arrays[name], self.activation_type, (tokens, width))
            for name, width in self._adapter_widths().items()
        }
        return AdapterBuffers(indices, **views)

    def _allocate_experts(self) -> dict[str, Array]:
        extents = self._expert_extents(self.max_shape.num_tokens)
        return {name: self._array(shape, dtype) for name, (shape, dtype) in extents.items()}

    def _expert_buffers(self, tokens: int) -> ExpertBuffers | None:
        if not self.expert_arrays:
            return None
        views = {
            name: view(self.expert_arrays[name], dtype, shape)
            for name, (shape, dtype) in self._expert_extents(tokens).items()
        }
        return ExpertBuffers(**views)

    def _latent_extents(self, tokens: int) -> dict[str, tuple[int, int]]:
        """The shapes of the arrays of `LatentBuffers`, all but the numbers of heads."""
        shape, heads = self.model_shape.latent, self.model_shape.heads
        if shape is None:
            return {}
        return {
            "query_down": (tokens, max(shape.query_rank, 1)),
            "query_nope": (tokens, heads * shape.nope_dim),
            "query_rope": (tokens, heads * shape.rope_dim),
            "kv": (tokens, shape.rank + shape.rope_dim),
            "query_latent": (tokens * heads, shape.rank),
            "output": (tokens * heads, shape.rank),
        }

    def _allocate_latents(self) -> dict[str, Array]:
        extents = self._latent_extents(self.max_shape.num_tokens)
        arrays = {name: self._array(shape, self.activation_type) for name, shape in extents.items()}
        if arrays:
            numbers = array("i", range(self.model_shape.heads)) * self.max_shape.num_tokens
            arrays["heads"] = self._array((len(numbers),), dtypes.int32)
            self.device.upload("workspace", memoryview(numbers), arrays["heads"].buffer, 0)
        return arrays

    def _latent_buffers(self, tokens: int) -> LatentBuffers | None:
        arrays, heads = self.latent_arrays, self.model_shape.heads
        if not arrays:
            return None
        views = {
            name: view(arrays[name], self.activation_type, shape)
            for name, shape in self._latent_extents(tokens).items()
        }
        return LatentBuffers(heads=view(arrays["heads"], dtypes.int32, (tokens, heads)), **views)

    def _state_buffers(self, tokens: int, block_tables: Array) -> StateSpaceBuffers | None:
        if not self.state_arrays:
            return None
        views = {
            name: view(array, self.activation_type, (tokens, array.shape[1]))
            for name, array in self.state_arrays.items()
        }
        # Every sequence has one block: the tables have one column.
        slots = view(block_tables, dtypes.int32, (block_tables.size,))
        return StateSpaceBuffers(slots=slots, **views)

    def allocate_penalties(self) -> None:
        """Allocate the inputs of penalties, when the first request needs them."""
        if self.token_counts is None:
            extents = (self.max_shape.num_samples, self.model_shape.vocabulary)
            self.token_counts = self._array(extents, dtypes.int32)
            self.prompt_mask = self._array(extents, dtypes.uint8)

    def step_buffers(
        self,
        shape: StepShape,
        buffer_index: int,
        key_caches: tuple[Array, ...],
        value_caches: tuple[Array, ...],
        *,
        batch_invariant: bool,
        num_splits: int,
    ) -> StepBuffers:
        """The arrays of a step of this shape, over one set of input and output buffers."""
        layout = InputLayout(shape)
        samples = shape.num_samples
        inputs, outputs = self.inputs[buffer_index], self.outputs[buffer_index]
        previous_outputs = self.outputs[1 - buffer_index]

        def integers(words: slice, *extents: int) -> Array:
            return view(inputs, dtypes.int32, extents or (words.stop - words.start,), words.start)

        sampling = {name: integers(layout.integers[name]) for name in ("top_k", "steps")}
        for name, words in layout.floats.items():
            sampling[name] = view(inputs, dtypes.float32, (samples,), words.start)
        sampling["seeds"] = view(inputs, dtypes.int64, (samples,), layout.seeds.start)
        vocabulary = self.model_shape.vocabulary
        token_counts = prompt_mask = None
        if shape.penalties and self.token_counts is not None and self.prompt_mask is not None:
            token_counts = view(self.token_counts, dtypes.int32, (samples, vocabulary))
            prompt_mask = view(self.prompt_mask, dtypes.uint8, (samples, vocabulary))
        logits_bias = token_masks = None
        if shape.biased:
            logits_bias = view(self.allocate_bias(), dtypes.float32, (samples, vocabulary))
        if shape.masked:
            masks = self.allocate_masks()
            token_masks = view(masks, dtypes.int32, (samples, masks.shape[1]))
        block_tables = integers(layout.block_tables, shape.num_seqs, shape.block_table_width)
        return StepBuffers(
            shape=shape,
            batch_invariant=batch_invariant,
            num_splits=num_splits,
            input_ids=integers(layout.input_ids),
            previous_tokens=view(previous_outputs, dtypes.int32, (self.max_shape.num_samples,)),
            positions=integers(layout.positions),
            slot_mapping=integers(layout.slot_mapping),
            query_start_loc=integers(layout.query_start_loc),
            seq_lens=integers(layout.seq_lens),
            block_tables=block_tables,
            logits_indices=integers(layout.integers["logits_indices"])
            if shape.gathers_samples
            else None,
            sampled_hidden=view(
                self.sampled_hidden, self.activation_type, (samples, self.model_shape.hidden)
            ),
            logits=view(self.logits, dtypes.float32, (samples, vocabulary)),
            logits_bias=logits_bias,
            token_masks=token_masks,
            sampling=sampling,
            token_counts=token_counts,
            prompt_mask=prompt_mask,
            sampled_tokens=view(outputs, dtypes.int32, (samples,)),
            sampled_logprobs=view(outputs, dtypes.float32, (samples,), samples)
            if shape.logprobs
            else None,
            key_caches=key_caches,
            value_caches=value_caches,
            experts=self._expert_buffers(shape.num_tokens),
            adapters=self._adapter_buffers(shape.num_tokens, integers(layout.adapters))
            if shape.adapted
            else None,
            latent=self._latent_buffers(shape.num_tokens),
            state_space=self._state_buffers(shape.num_tokens, block_tables),
            parts=self.part_buffers,
            **{
                name: view(array, self.activation_type, (shape.num_tokens, self.widths[name]))
                for name, array in self.activations.items()
            },
        )

    def _array(self, extents: tuple[int, ...], dtype: DType = dtypes.float32) -> Array:
        return allocation.empty(self.device, extents, dtype, "workspace")


def _state_widths(shape: ModelShape) -> dict[str, int]:
    """The widths of the arrays of `StateSpaceBuffers`."""
    if (state := shape.state) is None:
        return {}
    return {"projected": state.inner + state.channels + state.heads, "convolved": state.channels}


def _attention_widths(shape: ModelShape) -> dict[str, int]:
    """The widths of what attention reads and writes."""
    if shape.latent is not None:
        # Queries and latents are in buffers of their own.
        return {"qkv": 1, "queries": 1, "attention_output": shape.heads * shape.latent.value_dim}
    if shape.state is not None:
        return {"qkv": 1, "queries": 1, "attention_output": shape.state.inner}
    attention, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {"qkv": attention + 2 * kv, "queries": attention, "attention_output": attention}
