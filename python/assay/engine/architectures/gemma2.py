"""Gemma 2: norms before and behind each layer, softcaps, and a window in every other layer."""

from __future__ import annotations

import math

from assay.engine.architectures.decoder import Attention, Block, Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, norm, rotary
from assay.engine.architectures.schema import Architecture, Config, layer_windows, llama_schema

SHARED = {
    "tie_word_embeddings": True,
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}


def build(config: Config) -> Decoder:
    """Even layers have the window."""
    rope = rotary(config)
    windows = layer_windows(config, lambda layer: layer % 2 == 0)
    blocks = [
        block(
            config,
            layer,
            attention(
                config,
                layer,
                rope,
                bias=config["attention_bias"],
                output_bias=config["attention_bias"],
                window=window,
                scale=config["query_pre_attn_scalar"] ** -0.5,
                softcap=config["attn_logit_softcapping"] or 0.0,
            ),
        )
        for layer, window in enumerate(windows)
    ]
    return model(config, blocks)


def block(config: Config, layer: int, attention: Attention) -> Block:
    """Attention and MLP with a norm before and behind each."""
    return Block(
        attention=attention,
        mlp=mlp(config, layer),
        attention_norm=norm(config, layer, "input_layernorm"),
        attention_post_norm=norm(config, layer, "post_attention_layernorm"),
        mlp_norm=norm(config, layer, "pre_feedforward_layernorm"),
        mlp_post_norm=norm(config, layer, "post_feedforward_layernorm"),
    )


def model(config: Config, blocks: list[Block]) -> Decoder:
    """Embeddings times the root of their width, and bounded logits."""
    return decoder(
        config,
        blocks,
        embedding_scale=math.sqrt(config["hidden_size"]),
        logits_softcap=config["final_logit_softcapping"] or 0.0,
    )


ARCHITECTURE = Architecture(
    models="Gemma 2",
    schema=llama_schema(
        "head_dim",
        "sliding_window",
        required=("rms_norm_eps", "query_pre_attn_scalar"),
        **SHARED,
        hidden_activation="gelu_pytorch_tanh",
    ),
    decoder=build,
    small={
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 64,
        "sliding_window": 256,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "attention_bias": False,
        "tie_word_embeddings": True,
    },
    norm_offset=1.0,
    gguf="gemma2",
)
