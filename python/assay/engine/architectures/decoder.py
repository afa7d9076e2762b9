"""A decoder-only transformer as data: its layers, the tensors of each, and what they compute.

An architecture turns a configuration into a `Decoder`. Files are validated against its tensors, and
`assay.engine.models` builds the model from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Shapes = dict[str, tuple[int, ...]]

MXFP4_BLOCK = 32
"""Values that share a scale."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer: the names of the matrices that it is fused from, by rows, and their rows."""

    names: tuple[str, ...]
    """Tensor names without ".weight"."""
    rows: tuple[int, ...]
    inputs: int
    bias: bool = False

    @property
    def outputs(self) -> int:
        """Rows of all matrices."""
        return sum(self.rows)

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        for name, rows in zip(self.names, self.rows, strict=True):
            yield f"{name}.weight", (rows, self.inputs)
            if self.bias:
                yield f"{name}.bias", (rows,)


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm, or LayerNorm, of rows of this width."""

    name: str
    """The tensor's name without ".weight"."""
    width: int
    layer_norm: bool = False
    bias: bool = False
    epsilon: float | None = None
    """None: that of the model."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        yield f"{self.name}.weight", (self.width,)
        if self.bias:
            yield f"{self.name}.bias", (self.width,)


@dataclass(frozen=True, slots=True)
class Rotary:
    """RoPE: how many dimensions of a head it rotates, its base and its scaling."""

    dimensions: int
    base: float
    scaling: Mapping[str, Any] | None = None
    interleaved: bool = False
    """Whether adjacent dimensions are paired, as in GPT-J, rather than the halves of a head."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Self-attention of one layer."""

    qkv: Linear
    output: Linear
    heads: int
    kv_heads: int
    head_dim: int
    rotary: Rotary | None = None
    scale: float | None = None
    """The factor of scores; None is 1 / sqrt(head_dim)."""
    window: int = 0
    """Tokens that a query sees, itself included; 0 means all before it."""
    softcap: float = 0.0
    """The bound of scores, by tanh; 0 means none."""
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    """RMSNorms before RoPE: of each head, or of all heads together, as their width says."""
    sinks: str | None = None
    """The tensor of attention sinks, one logit for each head."""
    alibi: bool = False

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        yield from self.qkv.tensors()
        yield from self.output.tensors()
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                yield from norm.tensors()
        if self.sinks is not None:
            yield self.sinks, (self.heads,)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434) of one layer.

    Keys and values of all heads are made from one latent of each token, which the cache holds with
    a key of a few dimensions that has RoPE and that all heads share.
    """

    query: Linear
    """A head is `nope_dim` dimensions without RoPE, then `rope_dim` with it."""
    kv_down: Linear
    """To the latent, and to the shared key behind it."""
    kv_norm: Norm
    kv_up: Linear
    """From the latent to `nope_dim` dimensions of a key, and to a value, for every head."""
    output: Linear
    heads: int
    rank: int
    """Dimensions of the latent."""
    nope_dim: int
    rope_dim: int
    value_dim: int
    rotary: Rotary
    scale: float
    query_down: Linear | None = None
    """To a latent of queries, which `query` reads normed; None: `query` reads the hidden state."""
    query_norm: Norm | None = None

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        for part in (
            self.query_down,
            self.query_norm,
            self.query,
            self.kv_down,
            self.kv_norm,
            self.kv_up,
            self.output,
        ):
            if part is not None:
                yield from part.tensors()


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A Mamba-2 mixer (Dao and Gu 2024, arXiv:2405.21060) in the place of attention."""

    input: Linear
    """To a gate, to x, B and C, which are convolved, and to a step size for each head."""
    convolution: str
    """The tensor of the filters without ".weight": channels x 1 x taps."""
    convolution_bias: bool
    scan: str
    """How the names of the scan's vectors begin: A_log, D and dt_bias, a number for each head."""
    norm: Norm
    """Of the scan's output times the gate."""
    output: Linear
    heads: int
    head_dim: int
    groups: int
    """Of heads that share B and C."""
    state_size: int
    taps: int
    dt_limit: tuple[float, float]

    @property
    def channels(self) -> int:
        """Columns that are convolved."""
        return self.heads * self.head_dim + 2 * self.groups * self.state_size

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        yield from self.input.tensors()
        yield f"{self.convolution}.weight", (self.channels, 1, self.taps)
        if self.convolution_bias:
            yield f"{self.convolution}.bias", (self.channels,)
        for name in ("A_log", "D", "dt_bias"):
            yield f"{self.scan}.{name}", (self.heads,)
        yield from self.norm.tensors()
        yield from self.output.tensors()


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense MLP: gate and up in one linear layer where the activation is gated, then down."""

    up: Linear
    down: Linear
    activation: str

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        yield from self.up.tensors()
        yield from self.down.tensors()


@dataclass(frozen=True, slots=True)
class Routing:
    """How a token's experts are chosen and weighed."""

    experts: int
    top_k: int
    sigmoid: bool = False
    """Whether scores are sigmoids of the logits; else their softmax."""
    normalize: bool = True
    """Whether the weights of a token's experts are divided by their sum."""
    groups: int = 1
    top_groups: int = 1
    top_two_groups: bool = False
    """Whether groups are ranked by the sum of their two best experts; else by the best one."""
    factor: float = 1.0
    bias: str | None = None
    """The tensor that is added to the scores for the choice only."""


@dataclass(frozen=True, slots=True)
class StackedLinear:
    """The linear layers of all experts, stored as one tensor, with biases."""

    name: str
    experts: int
    outputs: int
    """Of one expert."""
    inputs: int
    packed: bool
    """Whether it is stored as MXFP4 blocks and their scales, rather than as inputs by outputs."""
    interleaved: bool = False
    """Whether gates and ups alternate, rather than gates coming first."""
    parts: tuple[str, ...] = ()
    """Tensors that hold gates and ups apart, outputs by inputs, where a file has them so."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        if self.parts:
            rows = self.outputs // len(self.parts)
            for part in self.parts:
                yield f"{part}.weight", (self.experts, rows, self.inputs)
                yield f"{part}.bias", (self.experts, rows)
            return
        yield f"{self.name}_bias", (self.experts, self.outputs)
        if not self.packed:
            yield self.name, (self.experts, self.inputs, self.outputs)
            return
        blocks = self.inputs // MXFP4_BLOCK
        yield f"{self.name}_blocks", (self.experts, self.outputs, blocks, MXFP4_BLOCK // 2)
        yield f"{self.name}_scales", (self.experts, self.outputs, blocks)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts, with shared experts beside them where an architecture has some."""

    routing: Routing
    router: Linear
    up: Linear | StackedLinear
    """Gate and up of every expert, one expert below the other."""
    down: Linear | StackedLinear
    inner: int
    """Width of one expert."""
    activation: str
    shared: Mlp | None = None
    shared_gate: Linear | None = None
    """Its sigmoid multiplies the output of the shared experts."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        yield from self.router.tensors()
        yield from self.up.tensors()
        yield from self.down.tensors()
        if self.routing.bias is not None:
            yield self.routing.bias, (self.routing.experts,)
        if self.shared is not None:
            yield from self.shared.tensors()
        if self.shared_gate is not None:
            yield from self.shared_gate.tensors()


@dataclass(frozen=True, slots=True)
class Block:
    """Attention and MLP, with the norms before and behind each, where there are some."""

    attention: Attention | LatentAttention | StateSpace
    mlp: Mlp | Experts | None
    """None: a state-space layer has none."""
    attention_norm: Norm | None = None
    attention_post_norm: Norm | None = None
    mlp_norm: Norm | None = None
    mlp_post_norm: Norm | None = None
    parallel: bool = False
    """Whether the MLP reads what attention reads, and both are added to the residual."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        for norm in (
            self.attention_norm,
            self.attention_post_norm,
            self.mlp_norm,
            self.mlp_post_norm,
        ):
            if norm is not None:
                yield from norm.tensors()
        yield from self.attention.tensors()
        if self.mlp is not None:
            yield from self.mlp.tensors()


@dataclass(frozen=True, slots=True)
class Decoder:
    """A whole model."""

    vocabulary: int
    hidden: int
    context: int
    """The most tokens of a text."""
    epsilon: float
    """Of every norm."""
    embedding: str
    """Tensor name without ".weight"."""
    blocks: tuple[Block, ...]
    norm: Norm
    head: str | None
    """The output projection; None where it is the embedding."""
    positions: str | None = None
    """Learned position embeddings."""
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    """Multiplies what attention and MLP add to the residual stream."""
    logits_scale: float = 1.0
    logits_softcap: float = 0.0

    def tensors(self) -> Shapes:
        """Every tensor of the model; matrices are outputs by inputs."""
        shapes: Shapes = {f"{self.embedding}.weight": (self.vocabulary, self.hidden)}
        if self.positions is not None:
            shapes[f"{self.positions}.weight"] = (self.context, self.hidden)
        shapes.update(self.norm.tensors())
        for block in self.blocks:
            shapes.update(block.tensors())
        if self.head is not None:
            shapes[f"{self.head}.weight"] = (self.vocabulary, self.hidden)
        return shapes
