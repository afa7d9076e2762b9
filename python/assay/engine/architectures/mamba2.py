"""Mamba-2: selective state-space layers (Dao and Gu 2024, arXiv:2405.21060), and no attention."""

from __future__ import annotations

from typing import Final

from assay.engine.architectures.decoder import Block, Decoder, Linear, Norm, StateSpace
from assay.engine.architectures.schema import Architecture, Config, ConfigSchema, activation

MODEL: Final = "backbone"
CONTEXT: Final = 1 << 20
"""Tokens of a text: the state has the same size after any number of them."""


def mixer(config: Config, layer: int) -> StateSpace:
    """Input projection, convolution, scan, gated norm and output projection."""
    base = f"{MODEL}.layers.{layer}.mixer"
    heads, head_dim = config["num_heads"], config["head_dim"]
    hidden, inner = config["hidden_size"], heads * head_dim
    groups, state, bias = config["n_groups"], config["state_size"], config["use_bias"]
    activation(config, "hidden_act", {"silu": "silu", "swish": "silu"})
    least, most = config["time_step_limit"]
    return StateSpace(
        input=Linear((f"{base}.in_proj",), (2 * inner + 2 * groups * state + heads,), hidden, bias),
        convolution=f"{base}.conv1d",
        convolution_bias=config["use_conv_bias"],
        scan=base,
        norm=Norm(f"{base}.norm", inner),
        output=Linear((f"{base}.out_proj",), (hidden,), inner, bias),
        heads=heads,
        head_dim=head_dim,
        groups=groups,
        state_size=state,
        taps=config["conv_kernel"],
        dt_limit=(float(least), float(most)),
    )


def build(config: Config) -> Decoder:
    """Every layer is a norm and a mixer, added to the residual stream."""
    hidden = config["hidden_size"]
    blocks = [
        Block(
            attention=mixer(config, layer),
            mlp=None,
            attention_norm=Norm(f"{MODEL}.layers.{layer}.norm", hidden),
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return Decoder(
        vocabulary=config["vocab_size"],
        hidden=hidden,
        context=CONTEXT,
        epsilon=config["layer_norm_epsilon"],
        embedding=f"{MODEL}.embeddings",
        blocks=tuple(blocks),
        norm=Norm(f"{MODEL}.norm_f", hidden),
        head=None if config["tie_word_embeddings"] else "lm_head",
    )


ARCHITECTURE = Architecture(
    models="Mamba-2, Codestral Mamba",
    schema=ConfigSchema(
        (
            "hidden_size",
            "num_hidden_layers",
            "vocab_size",
            "num_heads",
            "head_dim",
            "state_size",
            "conv_kernel",
            "n_groups",
        ),
        ("expand", "layer_norm_epsilon", "hidden_act"),
        {
            "use_bias": False,
            "use_conv_bias": True,
            "time_step_limit": [0.0, float("inf")],
            "tie_word_embeddings": False,
        },
    ),
    decoder=build,
    small={
        "num_heads": 8,
        "head_dim": 64,
        "state_size": 32,
        "conv_kernel": 4,
        "n_groups": 2,
        "expand": 2,
        "layer_norm_epsilon": 1e-5,
        "hidden_act": "silu",
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_limit": [0.0, float("inf")],
    },
    ignored=(
        "intermediate_size",
        "norm_before_gate",
        "residual_in_fp32",
        "rescale_prenorm_residual",
        "rms_norm",
        "chunk_size",
        "time_step_floor",
        "time_step_init_scheme",
        "time_step_max",
        "time_step_min",
        "time_step_rank",
        "time_step_scale",
    ),
    gguf="mamba2",
)
