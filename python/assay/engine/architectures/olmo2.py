"""OLMo 2: norms behind attention and MLP only, and QK norm over all heads together."""

from __future__ import annotations

from assay.engine.architectures.decoder import Block, Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, norm, rotary
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """Norms of what attention and MLP add, not of what they read."""
    rope, bias = rotary(config), config["attention_bias"]
    blocks = [
        Block(
            attention=attention(config, layer, rope, bias=bias, output_bias=bias, norms="row"),
            mlp=mlp(config, layer),
            attention_post_norm=norm(config, layer, "post_attention_layernorm"),
            mlp_post_norm=norm(config, layer, "post_feedforward_layernorm"),
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="OLMo 2",
    schema=llama_schema(attention_bias=False),
    decoder=build,
    small={"attention_bias": False},
    gguf="olmo2",
)
