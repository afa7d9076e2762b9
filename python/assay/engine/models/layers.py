"""The layers of the architectures: each queues its operations, labeled, over a step's buffers."""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.engine.runner.step_buffers import StepBuffers
from assay.runtime import Array


class Norm(NamedTuple):
    """RMSNorm, or LayerNorm: mean subtracted and a bias added."""

    weight: Array
    epsilon: float
    bias: Array | None = None
    is_layer_norm: bool = False
    """Whether it is a LayerNorm, an operation of its own; RMSNorm is fused into the next GEMM."""

    def forward(self, x: Array, out: Array, label: str, *, residual: Array | None = None) -> None:
        """Write the LayerNorm of `x`, or of `residual` after `x` is added to it."""
        ops.layer_norm(
            x, self.weight, self.bias, self.epsilon, residual=residual, out=out, label=label
        )


class Linear(NamedTuple):
    """A linear layer, with a fused norm before it and bias, activation and residual behind it."""

    weights: ops.Weights
    bias: Array | None = None
    activation: str | None = None

    def forward(
        self,
        x: Array,
        out: Array,
        label: str,
        step: StepBuffers,
        *,
        norm: Norm | None = None,
        residual: Array | None = None,
    ) -> None:
        """Write x @ weights.T of the normed rows, with the epilogue applied."""
        if norm is not None and norm.is_layer_norm:
            norm.forward(x, step.normed, f"{label}.norm")
            x, norm = step.normed, None
        ops.linear(
            x,
            self.weights,
            norm=None if norm is None else norm.weight,
            epsilon=0.0 if norm is None else norm.epsilon,
            bias=self.bias,
            activation=self.activation,
            residual=residual,
            out=out,
            label=label,
            batch_invariant=step.batch_invariant,
        )


class Attention(NamedTuple):
    """Self-attention over the paged KV cache, grouped-query where there are fewer KV heads."""

    qkv: Linear
    output: Linear
    heads: int
    kv_heads: int
    head_dim: int
    rotation: ops.RopeTable | None
    query_norm: Array | None = None
    key_norm: Array | None = None
    epsilon: float = 0.0

    def forward(self, step: StepBuffers, layer: int, label: str, norm: Norm) -> None:
        """Write `step.attention_residual`: the residual stream plus attention over it."""
        self.qkv.forward(step.hidden, step.qkv, f"{label}.qkv", step, norm=norm)
        if step.shape.decode_only and self._fuses_rope(step):
            self._decode(step, layer, label)
        else:
            self._attend(step, layer, label)
        self.output.forward(
            step.attention_output,
            step.attention_residual,
            f"{label}.output",
            step,
            residual=step.hidden,
        )

    def _fuses_rope(self, step: StepBuffers) -> bool:
        """Whether decode attention with fused RoPE and cache write is supported and faster."""
        rotates_all = self.rotation is None or self.rotation.rotary_dim == self.head_dim
        limit = step.qkv.device.capabilities.fused_decode_attention_max_kv_heads
        return rotates_all and step.shape.num_seqs * self.kv_heads <= limit

    def _decode(self, step: StepBuffers, layer: int, label: str) -> None:
        """Decode: RoPE, cache write and attention of one new token per sequence, in one kernel."""
        keys, values = step.key_caches[layer], step.value_caches[layer]
        ops.decode_attention(
            step.qkv,
            self.rotation,
            keys,
            values,
            step.block_tables,
            step.query_start_loc,
            step.seq_lens,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            block_tokens=keys.shape[1],
            query_norm=self.query_norm,
            key_norm=self.key_norm,
            epsilon=self.epsilon,
            num_splits=step.num_splits,
            metadata_ready=True,
            out=step.attention_output,
            label=f"{label}.paged",
        )

    def _attend(self, step: StepBuffers, layer: int, label: str) -> None:
        keys, values = step.key_caches[layer], step.value_caches[layer]
        ops.rope_write(
            step.qkv,
            step.positions,
            step.slot_mapping,
            self.rotation,
            keys,
            values,
            step.queries,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            query_norm=self.query_norm,
            key_norm=self.key_norm,
            epsilon=self.epsilon,
            metadata_ready=True,
            label=f"{label}.rope_write",
        )
        ops.paged_attention(
            step.queries,
            keys,
            values,
            step.block_tables,
            step.query_start_loc,
            step.seq_lens,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            block_tokens=keys.shape[1],
            # A batch-invariant step takes the prefill kernel, even for a single row.
            max_query_len=1 if step.shape.decode_only else max(step.shape.num_tokens, 2),
            num_splits=step.num_splits,
            metadata_ready=True,
            out=step.attention_output,
            label=f"{label}.paged",
        )


class Mlp(NamedTuple):
    """The MLP: up projection with activation (SwiGLU: gate and up in one GEMM), down projection."""

    up: Linear
    down: Linear
    name: str
    """The label of the first GEMM."""

    def forward(self, step: StepBuffers, label: str, norm: Norm) -> None:
        """Write `step.hidden`: the residual stream plus the MLP of it."""
        self.up.forward(
            step.attention_residual, step.intermediate, f"{label}.{self.name}", step, norm=norm
        )
        self.down.forward(
            step.intermediate, step.hidden, f"{label}.down", step, residual=step.attention_residual
        )


class Block(NamedTuple):
    """A transformer block: attention and MLP, each pre-normed and added to the residual."""

    attention_norm: Norm
    attention: Attention
    mlp_norm: Norm
    mlp: Mlp
