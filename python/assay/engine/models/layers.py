"""The layers that architectures are made of: each queues its operations, labelled, on a step."""

from __future__ import annotations

from dataclasses import dataclass

from assay import ops
from assay.engine.step import Step
from assay.runtime import Array


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm of rows: by the root mean square, or with a bias and the mean taken off."""

    weight: Array
    epsilon: float
    bias: Array | None = None
    centred: bool = False

    def run(self, x: Array, out: Array, label: str, *, residual: Array | None = None) -> None:
        """Write the norm of `x`, or of the residual after `x` was added to it."""
        if self.centred:
            ops.layer_norm(
                x, self.weight, self.bias, self.epsilon, residual=residual, out=out, label=label
            )
        else:
            ops.rms_norm(x, self.weight, self.epsilon, residual=residual, out=out, label=label)


@dataclass(frozen=True, slots=True)
class Linear:
    """A product with weights, and what is fused to its end."""

    weights: ops.Weights
    bias: Array | None = None
    activation: str | None = None

    def run(self, x: Array, out: Array, label: str, step: Step) -> None:
        """Write the products of all rows."""
        ops.linear(
            x,
            self.weights,
            bias=self.bias,
            activation=self.activation,
            out=out,
            label=label,
            invariant=step.invariant,
        )


@dataclass(frozen=True, slots=True)
class Attention:
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

    def run(self, step: Step, layer: int, label: str) -> None:
        """Turn `step.normed` into `step.branch`."""
        keys, values = step.keys[layer], step.values[layer]
        self.qkv.run(step.normed, step.qkv, f"{label}.qkv", step)
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
            most_queries=1 if step.size.single else None,
            out=step.attended,
            label=f"{label}.paged",
        )
        self.output.run(step.attended, step.branch, f"{label}.output", step)


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """silu(gate) times up, projected down."""

    gate_up: Linear
    down: Linear

    def run(self, step: Step, label: str) -> None:
        """Turn `step.normed` into `step.branch`."""
        self.gate_up.run(step.normed, step.gate_up, f"{label}.gate_up", step)
        ops.swiglu(step.gate_up, step.inner, label=f"{label}.swiglu")
        self.down.run(step.inner, step.branch, f"{label}.down", step)


@dataclass(frozen=True, slots=True)
class Mlp:
    """An activation between two products."""

    up: Linear
    down: Linear

    def run(self, step: Step, label: str) -> None:
        """Turn `step.normed` into `step.branch`."""
        self.up.run(step.normed, step.inner, f"{label}.up", step)
        self.down.run(step.inner, step.branch, f"{label}.down", step)


@dataclass(frozen=True, slots=True)
class Block:
    """Attention and a feed-forward part, each after a norm and added to the residual."""

    attention_norm: Norm
    attention: Attention
    mlp_norm: Norm
    mlp: GatedMlp | Mlp
