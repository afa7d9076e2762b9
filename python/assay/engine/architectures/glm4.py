"""GLM-4: norms before and behind each layer, and interleaved RoPE of half a head."""

from __future__ import annotations

from assay.engine.architectures.decoder import Block, Decoder
from assay.engine.architectures.llama_layers import attention, decoder, fused_mlp, norm, rotary
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """Gate and up are one matrix; the output projection of attention has no bias."""
    rope = rotary(config, interleaved=True)
    blocks = [
        Block(
            attention=attention(config, layer, rope, bias=config["attention_bias"]),
            mlp=fused_mlp(config, layer),
            attention_norm=norm(config, layer, "input_layernorm"),
            attention_post_norm=norm(config, layer, "post_self_attn_layernorm"),
            mlp_norm=norm(config, layer, "post_attention_layernorm"),
            mlp_post_norm=norm(config, layer, "post_mlp_layernorm"),
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="GLM-4-0414 (9B, 32B), GLM-Z1",
    schema=llama_schema("head_dim", attention_bias=False, partial_rotary_factor=0.5),
    decoder=build,
    small={"attention_bias": True, "partial_rotary_factor": 0.5},
    gguf="glm4",
)
