"""Command R7B and Command A (Cohere 2): attention and MLP in parallel, RoPE in windowed layers only."""

from __future__ import annotations

from assay.engine.architectures.decoder import Block, Decoder, Norm
from assay.engine.architectures.llama_layers import MODEL, attention, decoder, mlp, norm, rotary
from assay.engine.architectures.schema import Architecture, Config, layer_windows, llama_schema


def build(config: Config) -> Decoder:
    """LayerNorm without bias; every fourth layer sees everything, without RoPE."""
    rope, bias = rotary(config, interleaved=True), config["attention_bias"]
    pattern = config["sliding_window_pattern"]
    windows = layer_windows(config, lambda layer: (layer + 1) % pattern != 0)
    blocks = [
        Block(
            attention=attention(
                config, layer, rope if window else None, bias=bias, output_bias=bias, window=window
            ),
            mlp=mlp(config, layer),
            attention_norm=norm(config, layer, "input_layernorm", layer_norm=True),
            parallel=True,
        )
        for layer, window in enumerate(windows)
    ]
    return decoder(
        config,
        blocks,
        epsilon=config["layer_norm_eps"],
        norm=Norm(f"{MODEL}.norm", config["hidden_size"], layer_norm=True),
        logits_scale=float(config["logit_scale"]),
    )


ARCHITECTURE = Architecture(
    models="Command R7B, Command A",
    schema=llama_schema(
        "sliding_window",
        required=("layer_norm_eps", "hidden_act"),
        tie_word_embeddings=True,
        attention_bias=False,
        logit_scale=0.0625,
        sliding_window_pattern=4,
    ),
    decoder=build,
    small={
        "layer_norm_eps": 1e-5,
        "sliding_window": 256,
        "sliding_window_pattern": 2,
        "attention_bias": False,
        "logit_scale": 0.0625,
        "tie_word_embeddings": True,
    },
    gguf="cohere2",
)
