"""Multi-head latent attention as a layer of the model, in its absorbed form.

A score is (W_uk c) q = c (W_uk^T q) for a latent c: queries are multiplied by the up projection of
keys instead of every latent, and the weighted sum of latents by the up projection of values. Decode
then reads one latent for each token, whatever the number of heads. Prefill computes the same form:
a score costs `rank` multiplications rather than `nope_dim`, a few times more than with keys made
from the latents.
"""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.engine.models.layers import Block, Linear
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import LatentBuffers, StepBuffers
from assay.engine.models.views import as_rows
from assay.errors import InputError
from assay.runtime import Array


class LatentAttention(NamedTuple):
    """Projections to latents and back, one matrix for each head behind another."""

    query_down: Linear | None
    query_down_norm: Norm | None
    query_nope: Linear
    query_rope: Linear
    kv_down: Linear
    kv_norm: Norm
    key_up: ops.Weights
    """From the part of a query without RoPE to latent space, for every head."""
    value_up: ops.Weights
    """From latent space to a value, for every head."""
    output: Linear
    heads: int
    rotation: ops.RopeTable
    scale: float

    def forward(self, step: StepBuffers, layer: int, label: str, block: Block) -> None:
        """Write `step.attention_residual`: the residual stream plus attention over it."""
        buffers, cache = step.latent, step.key_caches[layer]
        if buffers is None:
            raise InputError("latent attention: expected buffers of latents, got none")
        self._project(step, buffers, label, block.attention_norm)
        ops.latent_write(
            buffers.kv,
            buffers.query_rope,
            step.positions,
            step.slot_mapping,
            self.rotation,
            self.kv_norm.weight,
            cache,
            heads=self.heads,
            epsilon=self.kv_norm.epsilon,
            label=f"{label}.latent_write",
        )
        nope = as_rows(buffers.query_nope, self.key_up.shape[1])
        self._by_head(nope, self.key_up, buffers.query_latent, step, f"{label}.key_up")
        ops.latent_attention(
            buffers.query_latent,
            buffers.query_rope,
            cache,
            step.block_tables,
            step.query_start_loc,
            step.seq_lens,
            heads=self.heads,
            scale=self.scale,
            # A batch-invariant step takes the same kernel for any number of rows.
            max_query_len=1 if step.shape.decode_only else max(step.shape.num_tokens, 2),
            num_splits=step.num_splits,
            out=buffers.output,
            label=f"{label}.paged",
        )
        values = as_rows(step.attention_output, step.attention_output.shape[1] // self.heads)
        self._by_head(buffers.output, self.value_up, values, step, f"{label}.value_up")
        self.output.add(
            step.attention_output,
            step.hidden,
            step.attention_residual,
            f"{label}.output",
            step,
            norm=block.attention_post_norm,
            factor=block.residual_scale,
        )

    def _project(
        self, step: StepBuffers, buffers: LatentBuffers, label: str, norm: Norm | None
    ) -> None:
        """Write queries, and the latents of keys and values."""
        x, x_norm = step.hidden, norm
        if self.query_down is not None:
            x, x_norm = buffers.query_down, self.query_down_norm
            self.query_down.forward(step.hidden, x, f"{label}.query_down", step, norm=norm)
        self.query_nope.forward(x, buffers.query_nope, f"{label}.query_nope", step, norm=x_norm)
        self.query_rope.forward(x, buffers.query_rope, f"{label}.query_rope", step, norm=x_norm)
        self.kv_down.forward(step.hidden, buffers.kv, f"{label}.kv_down", step, norm=norm)

    def _by_head(
        self, x: Array, weights: ops.Weights, out: Array, step: StepBuffers, label: str
    ) -> None:
        """Multiply the row of each head by the matrix of that head."""
        assert step.latent is not None
        ops.grouped_linear(
            x,
            weights,
            step.latent.heads,
            experts_count=self.heads,
            out=out,
            label=label,
            batch_invariant=step.batch_invariant,
        )
