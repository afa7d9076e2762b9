"""The layers of the architectures: each queues its operations, labeled, over a step's buffers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from assay import ops
from assay.engine.models.adapted_linear import AdapterFactors, forward_adapted
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import StepBuffers
from assay.engine.models.views import narrowed, part, row_columns
from assay.errors import InputError
from assay.runtime import Array, dtypes


class Linear(NamedTuple):
    """A linear layer, with a fused norm before it and bias, activation and residual behind it."""

    weights: ops.Weights
    bias: Array | None = None
    activation: str | None = None
    adapters: AdapterFactors | None = None
    rest: tuple[ops.Weights, ...] = ()
    """Matrices of other formats than `weights`, whose outputs follow those of it."""

    @property
    def outputs(self) -> int:
        """Outputs of all matrices, before the activation."""
        return self.weights.shape[0] + sum(one.shape[0] for one in self.rest)

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
        if self.adapters is not None and step.adapters is not None:
            forward_adapted(
                self._replace(activation=None, adapters=None),
                self.adapters,
                step.adapters,
                x,
                out,
                label,
                step,
                activation=self.activation,
                norm=norm,
                residual=residual,
            )
            return
        if norm is not None and norm.is_layer_norm:
            norm.forward(x, step.normed, f"{label}.norm")
            x, norm = step.normed, None
        if self.rest:
            self._forward_parts(x, out, label, step, norm)
            return
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

    def _forward_parts(
        self, x: Array, out: Array, label: str, step: StepBuffers, norm: Norm | None
    ) -> None:
        """One product for each format, into columns of `out`.

        The columns of a single row are contiguous, and products are written there; those of several
        rows are written one below the other first.
        """
        buffers, rows = step.parts, out.shape[0]
        if buffers is None:
            raise InputError("parts: expected buffers of a model with several formats, got none")
        first, split = 0, []
        for weights in (self.weights, *self.rest):
            count = weights.shape[0]
            ops.linear(
                x,
                weights,
                norm=None if norm is None else norm.weight,
                epsilon=0.0 if norm is None else norm.epsilon,
                bias=None if self.bias is None else part(self.bias, first, count),
                out=row_columns(out, first, count)
                if rows == 1
                else buffers.target(rows, first, count),
                label=label,
                batch_invariant=step.batch_invariant,
            )
            first += count
            split.append(count)
        if rows > 1:
            buffers.join(tuple(split), out, f"{label}.join")

    def add(
        self,
        x: Array,
        residual: Array,
        out: Array,
        label: str,
        step: StepBuffers,
        *,
        norm: Norm | None,
        factor: float,
    ) -> None:
        """Write the residual plus x @ weights.T, which is normed and scaled before it is added."""
        if norm is None and factor == 1.0:
            self.forward(x, out, label, step, residual=residual)
            return
        self.forward(x, step.normed, label, step)
        ops.add_residual(
            step.normed,
            residual,
            norm=None if norm is None else norm.weight,
            epsilon=0.0 if norm is None else norm.epsilon,
            factor=factor,
            out=out,
            label=f"{label}.add",
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
    query_row_norm: Array | None = None
    key_row_norm: Array | None = None
    """RMSNorm of all query heads together, and of all key heads."""
    epsilon: float = 0.0
    scale: float | None = None
    window: int = 0
    softcap: float = 0.0
    sinks: Array | None = None

    def forward(self, step: StepBuffers, layer: int, label: str, block: Block) -> None:
        """Write `step.attention_residual`: the residual stream plus attention over it."""
        norm = block.attention_norm
        self.qkv.forward(step.hidden, step.qkv, f"{label}.qkv", step, norm=norm)
        self._norm_rows(step, f"{label}.qk_norm")
        if step.shape.decode_only and self._fuses_rope(step):
            self._decode(step, layer, label)
        else:
            self._attend(step, layer, label)
        self.output.add(
            step.attention_output,
            step.hidden,
            step.attention_residual,
            f"{label}.output",
            step,
            norm=block.attention_post_norm,
            factor=block.residual_scale,
        )

    def _norm_rows(self, step: StepBuffers, label: str) -> None:
        """Norm all query heads together, and all key heads, where the architecture does so."""
        if self.query_row_norm is not None:
            ops.norm_columns(step.qkv, self.query_row_norm, self.epsilon, first=0, label=label)
        if self.key_row_norm is not None:
            first = self.heads * self.head_dim
            ops.norm_columns(step.qkv, self.key_row_norm, self.epsilon, first=first, label=label)

    def _fuses_rope(self, step: StepBuffers) -> bool:
        """Whether decode attention with fused RoPE and cache write is supported and faster."""
        rotates_all = self.rotation is None or self.rotation.rotary_dim == self.head_dim
        limit = step.qkv.device.capabilities.fused_decode_attention_max_kv_heads
        # The fused kernel has no scales of tokens.
        writes_cache = step.key_caches[0].dtype is not dtypes.int8
        return rotates_all and writes_cache and step.shape.num_seqs * self.kv_heads <= limit

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
            scale=self.scale,
            window=self.window,
            softcap=self.softcap,
            sinks=self.sinks,
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
            scale=self.scale,
            window=self.window,
            softcap=self.softcap,
            sinks=self.sinks,
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

    @property
    def routed_bytes(self) -> int:
        """Every token reads all of the weights."""
        return 0

    def forward(self, step: StepBuffers, label: str, block: Block) -> None:
        """Write `step.hidden`: the residual stream plus the MLP of it."""
        x, norm = step.attention_residual, block.mlp_norm
        if block.parallel:
            x, norm = step.hidden, block.attention_norm
            if norm is not None and norm.is_layer_norm:
                # What attention read; nothing has overwritten it.
                x, norm = step.normed, None
        inner = self._intermediate(step)
        self.up.forward(x, inner, f"{label}.{self.name}", step, norm=norm)
        self.down.add(
            inner,
            step.attention_residual,
            step.hidden,
            f"{label}.down",
            step,
            norm=block.mlp_post_norm,
            factor=block.residual_scale,
        )

    def project(self, x: Array, step: StepBuffers, out: Array, label: str) -> None:
        """Write the MLP of rows that are normed already, without residual."""
        inner = self._intermediate(step)
        self.up.forward(x, inner, f"{label}_up", step)
        self.down.forward(inner, out, f"{label}_down", step)

    def _intermediate(self, step: StepBuffers) -> Array:
        """The buffer between the two layers, which the widest MLP of the model fills."""
        return narrowed(step.intermediate, self.down.weights.shape[1])


class SparseMlp(Protocol):
    """A mixture of experts in the place of the MLP."""

    @property
    def down(self) -> Linear:
        """The down projections of all experts."""

    @property
    def routed_bytes(self) -> int:
        """Bytes of the weights of all experts, of which a token reads a few."""

    def forward(self, step: StepBuffers, label: str, block: Block) -> None:
        """Write `step.hidden`."""


class TokenMixer(Protocol):
    """What mixes tokens in the place of attention over keys and values."""

    @property
    def output(self) -> Linear:
        """The projection of its output."""

    def forward(self, step: StepBuffers, layer: int, label: str, block: Block) -> None:
        """Write `step.attention_residual`."""


class Block(NamedTuple):
    """A transformer block: attention and MLP, each added to the residual stream."""

    attention_norm: Norm | None
    attention: Attention | TokenMixer
    mlp_norm: Norm | None
    mlp: Mlp | SparseMlp | None
    attention_post_norm: Norm | None = None
    mlp_post_norm: Norm | None = None
    """Norms of what is added."""
    residual_scale: float = 1.0
    """Multiplies what is added."""
    parallel: bool = False
    """Whether the MLP reads what attention reads."""
