"""The dimensions of a model that decide how much memory it, its buffers and its KV cache take."""

from __future__ import annotations

from typing import NamedTuple

from assay.engine.architectures.decoder import Decoder, Experts, LatentAttention, Mlp, StateSpace


class ExpertShape(NamedTuple):
    """Dimensions of a mixture of experts."""

    experts: int
    top_k: int
    inner: int
    """Width of one expert."""
    shared: bool
    """Whether there are shared experts beside them."""


class AdapterShape(NamedTuple):
    """Dimensions of a model's LoRA adapters: the largest of all layers."""

    adapters: int
    rank: int
    outputs: int
    activated: int
    """Outputs of the layers with an activation, before it."""


class LatentShape(NamedTuple):
    """Dimensions of multi-head latent attention."""

    rank: int
    """Of the latent that is cached."""
    rope_dim: int
    """Of the shared key that is cached behind it."""
    nope_dim: int
    value_dim: int
    query_rank: int
    """Of the latent of queries; 0 where there is none."""


class StateShape(NamedTuple):
    """Dimensions of state-space layers, which have a state for each sequence instead of a cache."""

    heads: int
    head_dim: int
    groups: int
    state_size: int
    taps: int

    @property
    def inner(self) -> int:
        """Elements of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Columns that are convolved."""
        return self.inner + 2 * self.groups * self.state_size


class ModelShape(NamedTuple):
    """Dimensions that decide how much memory a model and its KV cache take."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    """Maximum positions: longer texts cannot be computed."""
    experts: ExpertShape | None = None
    adapters: AdapterShape | None = None
    latent: LatentShape | None = None
    """Where attention is over latents; `kv_heads` and `head_dim` are then those of the cache."""

    state: StateShape | None = None
    """Where layers have a state for each sequence, and no KV cache."""
    splits: tuple[tuple[int, ...], ...] = ()
    """Outputs of the parts of layers whose matrices have several formats, each once."""

    def block_extents(self, block_tokens: int) -> list[tuple[int, ...]]:
        """The shape of a block in each array of a layer; a sequence's states are one block."""
        if (state := self.state) is not None:
            return [
                (state.taps - 1, state.channels),
                (state.heads, state.head_dim, state.state_size),
            ]
        if self.latent is not None:
            return [(block_tokens, self.head_dim)]
        return [(block_tokens, self.kv_heads, self.head_dim)] * 2


def model_shape(decoder: Decoder) -> ModelShape:
    """The dimensions of a decoder, whose layers all have the same heads."""
    attention = decoder.blocks[0].attention
    latent, state = None, None
    kv_heads, head_dim = 1, 1
    if isinstance(attention, LatentAttention):
        head_dim, latent = attention.rank + attention.rope_dim, _latent_shape(attention)
    elif isinstance(attention, StateSpace):
        state = _state_shape(attention)
    else:
        kv_heads, head_dim = attention.kv_heads, attention.head_dim
    dense = [block.mlp for block in decoder.blocks if isinstance(block.mlp, Mlp)]
    sparse = [block.mlp for block in decoder.blocks if isinstance(block.mlp, Experts)]
    dense += [experts.shared for experts in sparse if experts.shared is not None]
    return ModelShape(
        vocabulary=decoder.vocabulary,
        hidden=decoder.hidden,
        inner=max((mlp.down.inputs for mlp in dense), default=0),
        layers=len(decoder.blocks),
        heads=attention.heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=decoder.context,
        experts=_expert_shape(sparse),
        latent=latent,
        state=state,
    )


def _state_shape(layer: StateSpace) -> StateShape:
    return StateShape(layer.heads, layer.head_dim, layer.groups, layer.state_size, layer.taps)


def _latent_shape(attention: LatentAttention) -> LatentShape:
    down = attention.query_down
    return LatentShape(
        attention.rank,
        attention.rope_dim,
        attention.nope_dim,
        attention.value_dim,
        0 if down is None else down.outputs,
    )


def _expert_shape(layers: list[Experts]) -> ExpertShape | None:
    if not layers:
        return None
    routing = layers[0].routing
    return ExpertShape(
        routing.experts,
        routing.top_k,
        max(experts.inner for experts in layers),
        any(experts.shared is not None for experts in layers),
    )
