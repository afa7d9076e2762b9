"""The layers that architectures are made of: each queues its operations, labeled, on a step."""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.engine.runner.step_buffers import Step
from assay.runtime import Array

FEW_HEADS = 32
"""Heads of keys of all sequences up to which blocks of a GPU that turn them too do not delay others."""


class Norm(NamedTuple):
    """A norm of rows: by the root mean square, or with a bias and the mean taken off."""

    weight: Array
    epsilon: float
    bias: Array | None = None
    centered: bool = False
    """Whether the mean is taken off first; such a norm is an operation of its own."""

    def run(self, x: Array, out: Array, label: str, *, residual: Array | None = None) -> None:
        """Write the centered norm of `x`, or of the residual after `x` was added to it."""
        ops.layer_norm(
            x, self.weight, self.bias, self.epsilon, residual=residual, out=out, label=label
        )


class Linear(NamedTuple):
    """A product with weights, and what is fused to its ends."""

    weights: ops.Weights
    bias: Array | None = None
    activation: str | None = None

    def run(
        self,
        x: Array,
        out: Array,
        label: str,
        step: Step,
        *,
        norm: Norm | None = None,
        residual: Array | None = None,
    ) -> None:
        """Write the products of all rows, after their norm and with the residual added."""
        if norm is not None and norm.centered:
            norm.run(x, step.normed, f"{label}.norm")
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
            batch_invariant=step.invariant,
        )


class Attention(NamedTuple):
    """Self-attention over the paged cache; heads of keys may serve several heads of queries."""

    qkv: Linear
    output: Linear
    heads: int
    kv_heads: int
    head_dim: int
    rotation: ops.RopeTable | None
    query_norm: Array | None = None
    key_norm: Array | None = None
    epsilon: float = 0.0

    def run(self, step: Step, layer: int, label: str, norm: Norm) -> None:
        """Add the attention of `step.hidden` to it, as `step.middle`."""
        self.qkv.run(step.hidden, step.qkv, f"{label}.qkv", step, norm=norm)
        if step.size.single and self._turns_while_attending(step):
            self._decode(step, layer, label)
        else:
            self._attend(step, layer, label)
        self.output.run(step.attended, step.middle, f"{label}.output", step, residual=step.hidden)

    def _turns_while_attending(self, step: Step) -> bool:
        """Whether one kernel of a GPU turns new tokens and attends, and is quicker than two."""
        whole = self.rotation is None or self.rotation.rotary_dim == self.head_dim
        few = step.size.sequences * self.kv_heads <= FEW_HEADS
        return step.qkv.device.kind == "cuda" and whole and few

    def _decode(self, step: Step, layer: int, label: str) -> None:
        """One new token of each sequence, in one operation."""
        keys, values = step.keys[layer], step.values[layer]
        ops.decode_attention(
            step.qkv,
            self.rotation,
            keys,
            values,
            step.tables,
            step.query_starts,
            step.lengths,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            block_tokens=keys.shape[1],
            query_norm=self.query_norm,
            key_norm=self.key_norm,
            epsilon=self.epsilon,
            num_splits=step.split,
            metadata_ready=True,
            out=step.attended,
            label=f"{label}.paged",
        )

    def _attend(self, step: Step, layer: int, label: str) -> None:
        keys, values = step.keys[layer], step.values[layer]
        ops.rope_write(
            step.qkv,
            step.positions,
            step.slots,
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
            step.tables,
            step.query_starts,
            step.lengths,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            block_tokens=keys.shape[1],
            # A row alone in a mixed step goes the way of the rows of prompts, as beside others.
            max_query_len=1 if step.size.single else max(step.size.rows, 2),
            num_splits=step.split,
            metadata_ready=True,
            out=step.attended,
            label=f"{label}.paged",
        )


class Mlp(NamedTuple):
    """Two products with an activation between them: of each number, or of gates and ups."""

    up: Linear
    down: Linear
    name: str
    """What the first product is called."""

    def run(self, step: Step, label: str, norm: Norm) -> None:
        """Add what it makes of `step.middle` to it, as `step.hidden`."""
        self.up.run(step.middle, step.inner, f"{label}.{self.name}", step, norm=norm)
        self.down.run(step.inner, step.hidden, f"{label}.down", step, residual=step.middle)


class Block(NamedTuple):
    """Attention and a feed-forward part, each after a norm and added to the residual."""

    attention_norm: Norm
    attention: Attention
    mlp_norm: Norm
    mlp: Mlp
