"""Every architecture that runs, by its `model_type`: decoders and encoders."""

from __future__ import annotations

from typing import Final

from assay.engine.architectures import (
    bert,
    cohere2,
    deepseek_v2,
    deepseek_v3,
    gemma2,
    gemma3,
    glm4,
    gpt2,
    gpt_oss,
    granite,
    llama,
    mamba2,
    mistral,
    mixtral,
    olmo2,
    phi3,
    qwen2,
    qwen2_moe,
    qwen3,
    qwen3_moe,
    smollm3,
    starcoder2,
)
from assay.engine.architectures.encoder import EncoderArchitecture
from assay.engine.architectures.schema import Architecture

ARCHITECTURES: Final[dict[str, Architecture]] = {
    "llama": llama.ARCHITECTURE,
    "mistral": mistral.ARCHITECTURE,
    "qwen2": qwen2.ARCHITECTURE,
    "qwen3": qwen3.ARCHITECTURE,
    "gpt2": gpt2.ARCHITECTURE,
    "gemma2": gemma2.ARCHITECTURE,
    "gemma3_text": gemma3.ARCHITECTURE,
    "phi3": phi3.ARCHITECTURE,
    "smollm3": smollm3.ARCHITECTURE,
    "olmo2": olmo2.ARCHITECTURE,
    "granite": granite.ARCHITECTURE,
    "glm4": glm4.ARCHITECTURE,
    "cohere2": cohere2.ARCHITECTURE,
    "starcoder2": starcoder2.ARCHITECTURE,
    "mixtral": mixtral.ARCHITECTURE,
    "qwen2_moe": qwen2_moe.ARCHITECTURE,
    "qwen3_moe": qwen3_moe.ARCHITECTURE,
    "gpt_oss": gpt_oss.ARCHITECTURE,
    "deepseek_v2": deepseek_v2.ARCHITECTURE,
    "deepseek_v3": deepseek_v3.ARCHITECTURE,
    "mamba2": mamba2.ARCHITECTURE,
}
"""Architectures in the order of the documentation."""

ENCODERS: Final[dict[str, EncoderArchitecture]] = {
    "bert": bert.BERT,
    "roberta": bert.ROBERTA,
    "xlm-roberta": bert.XLM_ROBERTA,
}
"""Architectures that compute embeddings and generate no text."""
