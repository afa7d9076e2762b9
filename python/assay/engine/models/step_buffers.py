"""The arrays that the operations of a step work on, and the shape that they are cut to."""

from __future__ import annotations

from typing import NamedTuple

from assay.engine.models.part_buffers import PartBuffers
from assay.engine.models.views import first_rows
from assay.runtime import Array


class StepShape(NamedTuple):
    """The padded size of a step and the options that change its operations: a graph's key."""

    num_tokens: int
    num_seqs: int
    num_samples: int
    """Rows that are sampled."""
    block_table_width: int
    """Blocks in a row of the block tables, which bounds the longest context of the step."""
    gathers_samples: bool = False
    """Whether sampled rows are gathered; False where they are all rows in order."""
    penalties: bool = False
    masked: bool = False
    """Whether some tokens of some sequences may not be sampled."""
    biased: bool = False
    """Whether something is added to the logits."""
    logprobs: bool = False
    decode_only: bool = False
    """Whether every sequence has one new token."""
    adapted: bool = False
    """Whether any sequence has a LoRA adapter."""

    @property
    def defers_sampling(self) -> bool:
        """Whether sampling waits for masks or biases, in which case it is not captured."""
        return self.masked or self.biased


class ExpertBuffers(NamedTuple):
    """The arrays of a mixture of experts, for one layer at a time."""

    logits: Array
    """Of the router, in float32."""
    experts: Array
    """Experts of each token, best first."""
    weights: Array
    intermediate: Array
    """A row for each expert of each token, as in `outputs`."""
    outputs: Array
    shared_output: Array
    shared_gates: Array

    def cut(self, tokens: int, fewer: int) -> ExpertBuffers:
        """The arrays for fewer tokens; what has one row for all keeps it."""
        return ExpertBuffers(
            *(first_rows(each, max(1, each.shape[0] * fewer // tokens)) for each in self)
        )


class AdapterBuffers(NamedTuple):
    """The arrays of LoRA adapters, for one layer at a time."""

    indices: Array
    """The adapter of each token; 0 is none."""
    low: Array
    """A x."""
    delta: Array
    """B A x."""
    product: Array
    """W x, with the layer's bias and residual."""
    total: Array
    """The sum of both, where an activation follows."""


class LatentBuffers(NamedTuple):
    """The arrays of multi-head latent attention, for one layer at a time."""

    query_down: Array
    """The latents of queries."""
    query_nope: Array
    query_rope: Array
    kv: Array
    """The latents of keys and values, and the shared keys behind them."""
    query_latent: Array
    """A row for each head of each token, as in `output`."""
    output: Array
    heads: Array
    """0, 1, 2 and so on for each token: which matrices its heads are multiplied by."""


class StateSpaceBuffers(NamedTuple):
    """The arrays of state-space layers, for one layer at a time."""

    projected: Array
    convolved: Array
    slots: Array
    """Where the states of each sequence are: the number of its only block."""


class StepBuffers(NamedTuple):
    """The arrays that the operations of a step of one shape work on."""

    shape: StepShape
    batch_invariant: bool
    """Whether a row's result must not depend on the other rows of the batch."""
    num_splits: int
    """Splits of a long context in attention; 0 lets the device choose."""
    input_ids: Array
    previous_tokens: Array
    """Tokens that the step before sampled, for the input IDs of pending tokens."""
    positions: Array
    slot_mapping: Array
    query_start_loc: Array
    seq_lens: Array
    block_tables: Array
    logits_indices: Array | None
    """Rows that are sampled; None where they are all rows in order."""
    hidden: Array
    """The residual stream."""
    attention_residual: Array
    """The residual stream after attention, before the MLP."""
    normed: Array
    qkv: Array
    queries: Array
    attention_output: Array
    intermediate: Array
    sampled_hidden: Array
    logits: Array
    logits_bias: Array | None
    token_masks: Array | None
    sampling: dict[str, Array]
    token_counts: Array | None
    prompt_mask: Array | None
    sampled_tokens: Array
    sampled_logprobs: Array | None
    key_caches: tuple[Array, ...]
    value_caches: tuple[Array, ...]
    experts: ExpertBuffers | None = None
    """Where the model has a mixture of experts."""
    adapters: AdapterBuffers | None = None
    """Where any sequence of the step has an adapter."""
    latent: LatentBuffers | None = None
    """Where the model has multi-head latent attention."""
    state_space: StateSpaceBuffers | None = None
    """Where the model has state-space layers."""
    parts: PartBuffers | None = None
    """Where layers have matrices of several formats."""

    def of_samples(self) -> StepBuffers:
        """The step of the sampled rows alone, whose residual stream is in `sampled_hidden`.

        It begins behind attention: queries and positions are those of the whole step.
        """
        indices, rows = self.logits_indices, self.shape.num_samples
        assert indices is not None
        return self._replace(
            shape=self.shape._replace(num_tokens=rows, gathers_samples=False),
            # What tells rows of padding apart: they are negative in both.
            slot_mapping=indices,
            logits_indices=None,
            hidden=first_rows(self.hidden, rows),
            attention_residual=self.sampled_hidden,
            normed=first_rows(self.normed, rows),
            intermediate=first_rows(self.intermediate, rows),
            experts=self.experts and self.experts.cut(self.shape.num_tokens, rows),
        )
