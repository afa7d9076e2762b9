"""The dimensions of a model that decide how much memory it, its buffers and its KV cache take."""

from __future__ import annotations

from typing import NamedTuple

from assay.engine.architectures.decoder import Decoder, Experts, Mlp


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

    @property
    def kv_values(self) -> int:
        """Elements that one token adds to the KV cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def model_shape(decoder: Decoder) -> ModelShape:
    """The dimensions of a decoder, whose layers all have the same heads."""
    attention = decoder.blocks[0].attention
    dense = [block.mlp for block in decoder.blocks if isinstance(block.mlp, Mlp)]
    sparse = [block.mlp for block in decoder.blocks if isinstance(block.mlp, Experts)]
    dense += [experts.shared for experts in sparse if experts.shared is not None]
    return ModelShape(
        vocabulary=decoder.vocabulary,
        hidden=decoder.hidden,
        inner=max((mlp.down.inputs for mlp in dense), default=0),
        layers=len(decoder.blocks),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        context=decoder.context,
        experts=_expert_shape(sparse),
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
