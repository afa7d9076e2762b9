"""GPT-2: learned position embeddings, LayerNorm and an MLP without gate."""

from __future__ import annotations

from assay.engine.models.layers import Attention, Block, Linear, Mlp, Norm
from assay.engine.models.model import Model
from assay.engine.models.model_shape import ModelShape
from assay.engine.models.weights import WeightSource
from assay.errors import UnsupportedError

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}
"""Activations by their name in configurations."""


def build(source: WeightSource) -> Model:
    """A GPT-2 model."""
    config = source.files.config
    name = config["activation_function"]
    if name not in ACTIVATIONS:
        raise UnsupportedError(
            f'{source.files.name}: expected a known activation_function, got "{name}"',
            f"one of: {', '.join(ACTIVATIONS)}",
        )
    shape = ModelShape(
        vocabulary=config["vocab_size"],
        hidden=config["n_embd"],
        inner=config["n_inner"],
        layers=config["n_layer"],
        heads=config["n_head"],
        kv_heads=config["n_head"],
        head_dim=config["n_embd"] // config["n_head"],
        context=config["n_positions"],
    )
    embedding = source.table("transformer.wte")
    blocks = [_block(source, index, shape, ACTIVATIONS[name]) for index in range(shape.layers)]
    return Model(
        architecture="gpt2",
        shape=shape,
        embedding=embedding,
        positions=source.table("transformer.wpe"),
        blocks=blocks,
        norm=_norm(source, "transformer.ln_f"),
        head=Linear(embedding if config["tie_word_embeddings"] else source.matrix("lm_head")),
        weight_format=source.format or blocks[0].mlp.down.weights.format,
        weight_bytes=source.nbytes,
        notes=tuple(source.notes),
    )


def _block(source: WeightSource, index: int, shape: ModelShape, activation: str) -> Block:
    base = f"transformer.h.{index}"
    return Block(
        attention_norm=_norm(source, f"{base}.ln_1"),
        attention=Attention(
            qkv=_linear(source, f"{base}.attn.c_attn"),
            output=_linear(source, f"{base}.attn.c_proj"),
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            rotation=None,
        ),
        mlp_norm=_norm(source, f"{base}.ln_2"),
        mlp=Mlp(
            up=_linear(source, f"{base}.mlp.c_fc", activation),
            down=_linear(source, f"{base}.mlp.c_proj"),
            name="up",
        ),
    )


def _linear(source: WeightSource, name: str, activation: str | None = None) -> Linear:
    return Linear(source.matrix(name), source.vector(f"{name}.bias"), activation)


def _norm(source: WeightSource, name: str) -> Norm:
    epsilon = source.files.config["layer_norm_epsilon"]
    return Norm(source.vector(f"{name}.weight"), epsilon, source.vector(f"{name}.bias"), True)
