"""BERT, and RoBERTa and XLM-RoBERTa, which number positions from behind the padding token."""

from __future__ import annotations

from typing import Any, Final

from assay.engine.architectures.decoder import Linear, Norm
from assay.engine.architectures.encoder import Encoder, EncoderArchitecture, EncoderBlock
from assay.engine.architectures.schema import ELEMENTWISE, Config, ConfigSchema, activation

DIMENSIONS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
)
POOLER_KEYS: Final = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "tie_word_embeddings",
)
SMALL: Final[dict[str, Any]] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 258,
    "max_position_embeddings": 514,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


def build(config: Config) -> Encoder:
    """Learned positions and token types, LayerNorm behind attention and MLP, biases everywhere."""
    return _encoder(config, 0)


def build_roberta(config: Config) -> Encoder:
    """The same; the first token's position follows the padding token's ID."""
    return _encoder(config, config["pad_token_id"] + 1)


def _encoder(config: Config, first_position: int) -> Encoder:
    return Encoder(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        context=config["max_position_embeddings"] - first_position,
        epsilon=config["layer_norm_eps"],
        embedding="embeddings.word_embeddings",
        positions="embeddings.position_embeddings",
        first_position=first_position,
        types="embeddings.token_type_embeddings",
        type_count=config["type_vocab_size"],
        norm=_norm(config, "embeddings.LayerNorm"),
        blocks=tuple(_block(config, layer) for layer in range(config["num_hidden_layers"])),
    )


def _block(config: Config, layer: int) -> EncoderBlock:
    base, hidden = f"encoder.layer.{layer}", config["hidden_size"]
    inner = config["intermediate_size"]

    def square(name: str) -> Linear:
        return Linear((f"{base}.attention.{name}",), (hidden,), hidden, bias=True)

    return EncoderBlock(
        query=square("self.query"),
        key=square("self.key"),
        value=square("self.value"),
        output=square("output.dense"),
        attention_norm=_norm(config, f"{base}.attention.output.LayerNorm"),
        up=Linear((f"{base}.intermediate.dense",), (inner,), hidden, bias=True),
        down=Linear((f"{base}.output.dense",), (hidden,), inner, bias=True),
        mlp_norm=_norm(config, f"{base}.output.LayerNorm"),
        activation=activation(config, "hidden_act", ELEMENTWISE),
    )


def _norm(config: Config, name: str) -> Norm:
    return Norm(name, config["hidden_size"], layer_norm=True, bias=True)


BERT: Final = EncoderArchitecture(
    models="BERT; MiniLM, BGE, E5, GTE and others for embeddings",
    schema=ConfigSchema(DIMENSIONS, ("layer_norm_eps", "hidden_act"), {}),
    encoder=build,
    small=SMALL,
    prefix="bert",
    gguf="bert",
    ignored=POOLER_KEYS,
)
_ROBERTA_SCHEMA: Final = ConfigSchema(
    DIMENSIONS, ("layer_norm_eps", "hidden_act"), {"pad_token_id": 1}
)
_ROBERTA_SMALL: Final = {**SMALL, "type_vocab_size": 1, "pad_token_id": 1}
ROBERTA: Final = EncoderArchitecture(
    models="RoBERTa",
    schema=_ROBERTA_SCHEMA,
    encoder=build_roberta,
    small=_ROBERTA_SMALL,
    prefix="roberta",
    ignored=POOLER_KEYS,
)
XLM_ROBERTA: Final = EncoderArchitecture(
    models="XLM-RoBERTa; BGE-M3 (dense vectors), multilingual E5",
    schema=_ROBERTA_SCHEMA,
    encoder=build_roberta,
    small=_ROBERTA_SMALL,
    prefix="roberta",
    ignored=(*POOLER_KEYS, "output_past"),
)
