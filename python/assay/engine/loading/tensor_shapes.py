"""The expected tensors of each architecture: Hugging Face names and shapes.

Files are validated against it, and synthetic models are generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from assay.engine.loading.model_files import Tensor
from assay.errors import InputError, UnsupportedError, unknown_name

Shapes = dict[str, tuple[int, ...]]

LM_HEAD: Final = "lm_head.weight"
ROPE_FACTORS: Final = "rope_freqs.weight"
"""Factors that RoPE frequencies are divided by; GGUF files of Llama 3 have them."""

# Buffers that older checkpoints hold besides the weights: masks, and RoPE frequencies.
_BUFFERS: Final = re.compile(r"\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$")


def expected_shapes(architecture: str, config: Mapping[str, Any]) -> Shapes:
    """Every tensor that a model of this configuration has; matrices are outputs by inputs."""
    shapes = dict(_gpt2(config) if architecture == "gpt2" else _llama(architecture, config))
    if not config["tie_word_embeddings"]:
        width = config["n_embd"] if architecture == "gpt2" else config["hidden_size"]
        shapes[LM_HEAD] = (config["vocab_size"], width)
    return shapes


def is_buffer(name: str) -> bool:
    """Whether a stored tensor is a buffer that follows from the configuration, not a weight."""
    return _BUFFERS.search(name) is not None


def _llama(architecture: str, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries = config["num_attention_heads"] * size
    keys = config["num_key_value_heads"] * size
    attention_bias = config.get("attention_bias", False)
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    yield "model.norm.weight", (width,)
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        attention, mlp = f"{base}self_attn.", f"{base}mlp."
        yield f"{base}input_layernorm.weight", (width,)
        yield f"{base}post_attention_layernorm.weight", (width,)
        for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            yield f"{attention}{name}.weight", (rows, width)
            if architecture == "qwen2" or attention_bias:
                yield f"{attention}{name}.bias", (rows,)
        yield f"{attention}o_proj.weight", (width, queries)
        if attention_bias:
            yield f"{attention}o_proj.bias", (width,)
        if architecture == "qwen3":
            yield f"{attention}q_norm.weight", (size,)
            yield f"{attention}k_norm.weight", (size,)
        for name, rows, columns in (
            ("gate_proj", inner, width),
            ("up_proj", inner, width),
            ("down_proj", width, inner),
        ):
            yield f"{mlp}{name}.weight", (rows, columns)
            if config.get("mlp_bias", False):
                yield f"{mlp}{name}.bias", (rows,)


def _gpt2(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = config["n_embd"], config["n_inner"]
    yield "transformer.wte.weight", (config["vocab_size"], width)
    yield "transformer.wpe.weight", (config["n_positions"], width)
    bases = [f"transformer.h.{layer}." for layer in range(config["n_layer"])]
    norms = [f"{base}{name}" for base in bases for name in ("ln_1", "ln_2")]
    for norm in (*norms, "transformer.ln_f"):
        yield f"{norm}.weight", (width,)
        yield f"{norm}.bias", (width,)
    for base in bases:
        for name, rows, columns in (
            ("attn.c_attn", 3 * width, width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", inner, width),
            ("mlp.c_proj", width, inner),
        ):
            yield f"{base}{name}.weight", (rows, columns)
            yield f"{base}{name}.bias", (rows,)


def check_tensors(
    where: str, architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Refuse a file whose tensors are not those of its configuration."""
    # Before the shapes are listed: a configuration may claim any number of layers.
    layers = config["n_layer" if architecture == "gpt2" else "num_hidden_layers"]
    if layers > len(tensors):
        raise InputError(
            f"{where}: expected tensors for {layers} layers, got {len(tensors)} tensors"
        )
    expected = expected_shapes(architecture, config)
    if ROPE_FACTORS in tensors and architecture != "gpt2":
        expected[ROPE_FACTORS] = (config["head_dim"] // 2,)
    for name, shape in expected.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise InputError(f'{where}: expected the tensor "{name}", got none')
        stored = tensor.shape[::-1] if tensor.transposed else tensor.shape
        if stored != shape:
            raise InputError(
                f'{where}: expected tensor "{name}" of shape {list(shape)}, got {list(stored)}',
                "the configuration says so",
            )
    for name in tensors:
        if name not in expected:
            near = unknown_name("tensor", name, expected).hint
            raise UnsupportedError(
                f'{where}: expected only the tensors of a {architecture} model, got "{name}"', near
            )
