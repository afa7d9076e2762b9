"""Gemma 3 (text): Gemma 2 with QK norm in place of softcaps, and another RoPE in windowed layers."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder, Rotary
from assay.engine.architectures.gemma2 import SHARED, block, model
from assay.engine.architectures.llama_layers import attention, rotary
from assay.engine.architectures.schema import Architecture, Config, layer_windows, llama_schema


def build(config: Config) -> Decoder:
    """Every sixth layer sees everything, with the scaled RoPE; the others have a window."""
    rope = rotary(config)
    local = Rotary(config["head_dim"], config["rope_local_base_freq"])
    pattern = config["sliding_window_pattern"]
    windows = layer_windows(config, lambda layer: (layer + 1) % pattern != 0)
    blocks = [
        block(
            config,
            layer,
            attention(
                config,
                layer,
                local if window else rope,
                bias=config["attention_bias"],
                output_bias=config["attention_bias"],
                window=window,
                norms="head",
                scale=config["query_pre_attn_scalar"] ** -0.5,
                softcap=config["attn_logit_softcapping"] or 0.0,
            ),
        )
        for layer, window in enumerate(windows)
    ]
    return model(config, blocks)


ARCHITECTURE = Architecture(
    models="Gemma 3 (text: 270M, 1B, and the text models of the others)",
    schema=llama_schema(
        "head_dim",
        "sliding_window",
        required=("rms_norm_eps", "query_pre_attn_scalar"),
        **SHARED,
        hidden_activation="gelu_pytorch_tanh",
        rope_local_base_freq=10000.0,
        sliding_window_pattern=6,
    ),
    decoder=build,
    small={
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 64,
        "sliding_window": 256,
        "rope_local_base_freq": 10000.0,
        "sliding_window_pattern": 6,
        "num_hidden_layers": 6,
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "tie_word_embeddings": True,
    },
    norm_offset=1.0,
    gguf="gemma3",
)
