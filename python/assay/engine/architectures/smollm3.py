"""SmolLM3: Llama where some layers have no RoPE (NoPE)."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, pre_norm_block, rotary
from assay.engine.architectures.qwen2 import windows
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """A layer whose entry of `no_rope_layers` is 0 has no RoPE."""
    rope, bias = rotary(config), config["attention_bias"]
    flags, interval = config["no_rope_layers"], config["no_rope_layer_interval"]
    if flags is None:
        flags = [(layer + 1) % interval for layer in range(config["num_hidden_layers"])]
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(
                config,
                layer,
                rope if flags[layer] else None,
                bias=bias,
                output_bias=bias,
                window=window,
            ),
            mlp(config, layer, bias=config["mlp_bias"]),
        )
        for layer, window in enumerate(windows(config))
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="SmolLM3",
    schema=llama_schema(
        rope_theta=2000000.0,
        tie_word_embeddings=True,
        attention_bias=False,
        mlp_bias=False,
        use_sliding_window=False,
        no_rope_layers=None,
        no_rope_layer_interval=4,
    ),
    decoder=build,
    small={
        "no_rope_layers": [1, 0],
        "no_rope_layer_interval": 2,
        "attention_bias": False,
        "mlp_bias": False,
        "use_sliding_window": False,
    },
    gguf="smollm3",
)
