"""Writes docs/reference/architectures.md from the architectures that the engine runs.

python scripts/generate_architecture_reference.py          # write it
python scripts/generate_architecture_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.engine.architectures.decoder import (
    Attention,
    Decoder,
    Experts,
    LatentAttention,
    StateSpace,
)
from assay.engine.architectures.registry import ARCHITECTURES, ENCODERS
from assay.engine.loading.synthetic import synthetic_model
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "architectures.md"
COMMAND = "python scripts/generate_architecture_reference.py"


def write_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Architectures"
    yield ""
    yield f"Written by `{COMMAND}` from `assay.engine.architectures`; do not edit."
    yield ""
    yield (
        f"{len(ARCHITECTURES)} architectures run, by the `model_type` of their `config.json`. Logits "
        "of each are compared with those of `transformers`, on small random models "
        "(`tests/engine/models`). Others are refused by name."
    )
    yield ""
    yield "| `model_type` | models | GGUF | beyond the Llama family |"
    yield "|---|---|---|---|"
    for name, architecture in ARCHITECTURES.items():
        config = synthetic_model(name).config
        features = ", ".join(_features(architecture.decoder(config), config)) or "-"
        gguf = f"`{architecture.gguf}`" if architecture.gguf else "-"
        yield f"| `{name}` | {architecture.models} | {gguf} | {features} |"
    yield ""
    yield "## Encoders"
    yield ""
    yield (
        f"{len(ENCODERS)} architectures compute embeddings (`assay embed`, `/v1/embeddings`) and "
        "generate no text. Hidden states of each are compared with those of `transformers`."
    )
    yield ""
    yield "| `model_type` | models | GGUF | positions |"
    yield "|---|---|---|---|"
    for name, encoder in ENCODERS.items():
        first = encoder.encoder(synthetic_model(name).config).first_position
        positions = f"learned, from {first} on" if first else "learned"
        gguf = f"`{encoder.gguf}`" if encoder.gguf else "-"
        yield f"| `{name}` | {encoder.models} | {gguf} | {positions} |"
    yield ""


def _features(decoder: Decoder, config: object) -> Iterator[str]:
    """What the layers of a small model show, and keys that the small one does not use."""
    blocks = decoder.blocks
    attentions = [block.attention for block in blocks if isinstance(block.attention, Attention)]
    keys = config if isinstance(config, dict) else {}
    if decoder.positions is not None:
        yield "learned positions"
    if decoder.norm.layer_norm:
        yield "LayerNorm"
    if any(block.attention_post_norm for block in blocks):
        yield "norms behind layers"
    if any(block.attention_norm is None for block in blocks):
        yield "none before them"
    if any(block.parallel for block in blocks):
        yield "attention and MLP in parallel"
    if any(isinstance(block.attention, LatentAttention) for block in blocks):
        yield "latent attention (MLA)"
    if any(isinstance(block.attention, StateSpace) for block in blocks):
        yield "state-space layers, no attention"
        return
    if any(attention.query_norm for attention in attentions):
        by_head = attentions[0].query_norm and attentions[0].query_norm.width == keys["head_dim"]
        yield "QK norm by head" if by_head else "QK norm of all heads"
    if any(attention.window for attention in attentions) or "sliding_window" in keys:
        every = all(attention.window for attention in attentions)
        some = any(attention.window for attention in attentions) and not every
        yield "sliding window in some layers" if some else "sliding window"
    if any(attention.softcap for attention in attentions):
        yield "softcap"
    if any(attention.sinks for attention in attentions):
        yield "attention sinks"
    ropes = {attention.rotary.base for attention in attentions if attention.rotary is not None}
    if ropes and any(attention.rotary is None for attention in attentions):
        yield "layers without RoPE"
    if any(attention.rotary and attention.rotary.interleaved for attention in attentions):
        yield "interleaved RoPE"
    if "partial_rotary_factor" in keys:
        yield "partial RoPE"
    if decoder.residual_scale != 1.0:
        yield "multipliers of embeddings, scores, residuals and logits"
    sparse = [block.mlp for block in blocks if isinstance(block.mlp, Experts)]
    if sparse:
        yield "shared expert beside experts" if sparse[0].shared else "mixture of experts"
    elif (mlp := blocks[0].mlp) is not None and mlp.activation not in ("swiglu",):
        yield f"{mlp.activation} MLP"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
