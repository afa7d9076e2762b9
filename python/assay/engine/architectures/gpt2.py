"""GPT-2: learned position embeddings, LayerNorm and an MLP without gate."""

from __future__ import annotations

from assay.engine.architectures.decoder import Attention, Block, Decoder, Linear, Mlp, Norm
from assay.engine.architectures.schema import (
    ELEMENTWISE,
    Architecture,
    Config,
    ConfigSchema,
    activation,
)

BASE = "transformer"


def build(config: Config) -> Decoder:
    """Every linear layer has a bias; queries, keys and values are one matrix."""
    hidden = config["n_embd"]
    return Decoder(
        vocabulary=config["vocab_size"],
        hidden=hidden,
        context=config["n_positions"],
        epsilon=config["layer_norm_epsilon"],
        embedding=f"{BASE}.wte",
        positions=f"{BASE}.wpe",
        blocks=tuple(_block(config, layer) for layer in range(config["n_layer"])),
        norm=_norm(hidden, f"{BASE}.ln_f"),
        head=None if config["tie_word_embeddings"] else "lm_head",
    )


def _block(config: Config, layer: int) -> Block:
    base, hidden, inner = f"{BASE}.h.{layer}", config["n_embd"], config["n_inner"]
    heads = config["n_head"]
    return Block(
        attention=Attention(
            qkv=Linear((f"{base}.attn.c_attn",), (3 * hidden,), hidden, bias=True),
            output=Linear((f"{base}.attn.c_proj",), (hidden,), hidden, bias=True),
            heads=heads,
            kv_heads=heads,
            head_dim=hidden // heads,
        ),
        mlp=Mlp(
            up=Linear((f"{base}.mlp.c_fc",), (inner,), hidden, bias=True),
            down=Linear((f"{base}.mlp.c_proj",), (hidden,), inner, bias=True),
            activation=activation(config, "activation_function", ELEMENTWISE),
        ),
        attention_norm=_norm(hidden, f"{base}.ln_1"),
        mlp_norm=_norm(hidden, f"{base}.ln_2"),
    )


def _norm(hidden: int, name: str) -> Norm:
    return Norm(name, hidden, layer_norm=True, bias=True)


ARCHITECTURE = Architecture(
    models="GPT-2, DistilGPT-2",
    schema=ConfigSchema(
        ("n_embd", "n_layer", "n_head", "n_positions", "vocab_size"),
        ("layer_norm_epsilon", "activation_function"),
        {
            "n_inner": None,
            "tie_word_embeddings": True,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
        },
    ),
    decoder=build,
    small={},
    layers_key="n_layer",
    gguf="gpt2",
)
