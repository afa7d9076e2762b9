"""Llama 2 and 3, SmolLM2, TinyLlama; Mistral and Qwen are built by the same function."""

from __future__ import annotations

from assay import ops
from assay.engine.loading.tensor_shapes import LM_HEAD
from assay.engine.models.layers import Attention, Block, Linear, Mlp, Norm
from assay.engine.models.model import Model
from assay.engine.models.model_shape import llama_shape
from assay.engine.models.rotary_embedding import rope_table
from assay.engine.models.weights import WeightSource
from assay.errors import UnsupportedError


def build(source: WeightSource) -> Model:
    """A model of the Llama family; biases and QK norms are optional, as the file has them."""
    files = source.files
    config = files.config
    if config["hidden_act"] != "silu":
        raise UnsupportedError(
            f'{files.name}: expected hidden_act "silu", got "{config["hidden_act"]}"'
        )
    shape = llama_shape(config)
    rope = rope_table(files, source.device, shape.context)
    embedding = source.table("model.embed_tokens")
    blocks = [_block(source, index, rope) for index in range(shape.layers)]
    head = embedding if config["tie_word_embeddings"] else source.matrix(LM_HEAD[: -len(".weight")])
    return Model(
        architecture=files.architecture,
        shape=shape,
        embedding=embedding,
        positions=None,
        blocks=blocks,
        norm=Norm(source.vector("model.norm.weight"), config["rms_norm_eps"]),
        head=Linear(head),
        weight_format=source.format or blocks[0].mlp.down.weights.format,
        weight_bytes=source.nbytes,
        notes=tuple(source.notes),
    )


def _block(source: WeightSource, index: int, rope: ops.RopeTable) -> Block:
    config = source.files.config
    epsilon = config["rms_norm_eps"]
    base = f"model.layers.{index}"
    attention, mlp = f"{base}.self_attn", f"{base}.mlp"
    return Block(
        attention_norm=Norm(source.vector(f"{base}.input_layernorm.weight"), epsilon),
        attention=Attention(
            qkv=_linear(
                source, f"{attention}.q_proj", f"{attention}.k_proj", f"{attention}.v_proj"
            ),
            output=_linear(source, f"{attention}.o_proj"),
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            rotation=rope,
            query_norm=source.optional_vector(f"{attention}.q_norm.weight"),
            key_norm=source.optional_vector(f"{attention}.k_norm.weight"),
            epsilon=epsilon,
        ),
        mlp_norm=Norm(source.vector(f"{base}.post_attention_layernorm.weight"), epsilon),
        mlp=Mlp(
            up=_linear(source, f"{mlp}.gate_proj", f"{mlp}.up_proj", activation="swiglu"),
            down=_linear(source, f"{mlp}.down_proj"),
            name="gate_up",
        ),
    )


def _linear(source: WeightSource, *names: str, activation: str | None = None) -> Linear:
    bias = source.optional_vector(*(f"{name}.bias" for name in names))
    return Linear(source.matrix(*names), bias, activation)
