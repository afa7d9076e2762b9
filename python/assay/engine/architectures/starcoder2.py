"""StarCoder 2: LayerNorm and biases, an MLP without gate, and a sliding window."""

from __future__ import annotations

from assay.engine.architectures.decoder import Block, Decoder, Linear, Mlp, Norm
from assay.engine.architectures.llama_layers import MODEL, attention, decoder, norm, rotary
from assay.engine.architectures.schema import (
    ELEMENTWISE,
    Architecture,
    Config,
    activation,
    llama_schema,
    uniform_windows,
)


def build(config: Config) -> Decoder:
    """Every linear layer has a bias, or none has."""
    rope, bias = rotary(config), config["use_bias"]
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    layer_norm = {"layer_norm": True, "bias": True}
    blocks = []
    for layer, window in enumerate(uniform_windows(config)):
        base = f"{MODEL}.layers.{layer}.mlp"
        blocks.append(
            Block(
                attention=attention(
                    config, layer, rope, bias=bias, output_bias=bias, window=window
                ),
                mlp=Mlp(
                    up=Linear((f"{base}.c_fc",), (inner,), hidden, bias),
                    down=Linear((f"{base}.c_proj",), (hidden,), inner, bias),
                    activation=activation(config, "hidden_act", ELEMENTWISE),
                ),
                attention_norm=norm(config, layer, "input_layernorm", **layer_norm),
                mlp_norm=norm(config, layer, "post_attention_layernorm", **layer_norm),
            )
        )
    return decoder(
        config,
        blocks,
        epsilon=config["norm_epsilon"],
        norm=Norm(f"{MODEL}.norm", hidden, layer_norm=True, bias=True),
    )


ARCHITECTURE = Architecture(
    models="StarCoder 2",
    schema=llama_schema(
        required=("norm_epsilon", "hidden_act"),
        tie_word_embeddings=True,
        use_bias=True,
        sliding_window=None,
    ),
    decoder=build,
    small={
        "norm_epsilon": 1e-5,
        "hidden_act": "gelu_pytorch_tanh",
        "use_bias": True,
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    gguf="starcoder2",
)
