"""A GGUF file as a model: metadata as config.json keys, tensors under Hugging Face names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import GgufFile
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.configuration import validated
from assay.engine.loading.gguf_architectures import more_configuration
from assay.engine.loading.gguf_keys import check_gguf_keys
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_names import hugging_face_name
from assay.engine.loading.gguf_rope import gguf_rope_scaling
from assay.engine.loading.gguf_split import stored_tensors
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.tensor_shapes import ROPE_FACTORS, check_tensors
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Tokenizer

_ROPE_TENSOR: Final = re.compile(r"\.self_attn\.[qk]_proj\.(weight|bias)$")

NAMES: Final = {one.gguf: name for name, one in ARCHITECTURES.items() if one.gguf is not None}
"""Architectures by their names in GGUF files."""

_ANY: Final = ("head_dim", "sliding_window", "bos_token_id", "eos_token_id")
"""Keys of every architecture but GPT-2, besides those of its schema."""

_PERMUTED: Final = ("llama", "granite", "smollm3")
"""Architectures for which llama.cpp permutes the rows of query and key matrices."""


def open_gguf(path: Path) -> ModelFiles:
    """Read a GGUF file."""
    where = path.name
    file = GgufFile(path)
    metadata = GgufMetadata(where, file)
    stored = stored_tensors(path, file, metadata)
    stated = metadata.require("general.architecture", str)
    if stated not in NAMES:
        raise UnsupportedError(
            f'{where}: general.architecture: expected a known architecture, got "{stated}"',
            f"one of: {', '.join(NAMES)}",
        )
    key_notes = check_gguf_keys(metadata, stated)
    given = _configuration(metadata, stated, "output.weight" not in stored)
    architecture = NAMES[stated]
    if architecture == "llama" and given["sliding_window"] is not None:
        # Files of Mistral say "llama".
        architecture = "mistral"
    known = ARCHITECTURES[architecture].schema.keys
    given = {key: value for key, value in given.items() if key in known or key in _ANY}
    config, notes = validated(where, architecture, given)
    tensors = {}
    for one in stored.values():
        name = hugging_face_name(where, stated, one.name)
        permuted = stated in _PERMUTED and _ROPE_TENSOR.search(name) is not None
        tensors[name] = Tensor.stored(name, one, permuted=permuted)
    if ROPE_FACTORS in tensors:
        if config["rope_scaling"] is not None:
            raise UnsupportedError(
                f"{where}: expected rope scaling by {ROPE_FACTORS} or by metadata, got both"
            )
        config["rope_scaling"] = {"rope_type": "factors", "tensor": ROPE_FACTORS}
    check_tensors(where, architecture, config, tensors)

    def make_tokenizer() -> Tokenizer:
        from assay.engine.loading.gguf_tokenizer import tokenizer_from_gguf

        return tokenizer_from_gguf(metadata)

    return ModelFiles(
        name=metadata.get("general.name", str) or path.stem,
        path=path,
        architecture=architecture,
        config=config,
        tensors=tensors,
        rope_pairs="interleaved" if stated in _PERMUTED else "half",
        make_tokenizer=make_tokenizer,
        template_text=metadata.get("tokenizer.chat_template", str),
        notes=(*notes, *key_notes),
        norms_include_offset=True,
    )


def _configuration(metadata: GgufMetadata, architecture: str, tied: bool) -> dict[str, Any]:
    def key(name: str) -> str:
        return f"{architecture}.{name}"

    heads = metadata.require(key("attention.head_count"), int)
    config: dict[str, Any] = {
        "vocab_size": metadata.count("tokenizer.ggml.tokens"),
        "tie_word_embeddings": tied,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", int),
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id", int),
    }
    if architecture == "gpt2":
        return config | {
            "n_embd": metadata.require(key("embedding_length"), int),
            "n_layer": metadata.require(key("block_count"), int),
            "n_head": heads,
            "n_positions": metadata.require(key("context_length"), int),
            "n_inner": metadata.require(key("feed_forward_length"), int),
            "layer_norm_epsilon": metadata.require(key("attention.layer_norm_epsilon"), float),
            # The only activation that llama.cpp has for this architecture.
            "activation_function": "gelu_new",
        }
    width = metadata.require(key("embedding_length"), int)
    head_dim = metadata.get(key("attention.key_length"), int) or width // max(heads, 1)
    values = metadata.get(key("attention.value_length"), int)
    rotary_dim = metadata.get(key("rope.dimension_count"), int)
    for name, got in (("attention.value_length", values), ("rope.dimension_count", rotary_dim)):
        if got is not None and got != head_dim:
            raise UnsupportedError(
                f"{metadata.where}: expected {key(name)} {head_dim}, the size of a head, got {got}"
            )
    # Defaults of the format: as many KV heads as query heads, and a RoPE base of 10000.
    kv_heads = metadata.get(key("attention.head_count_kv"), int)
    base = metadata.get(key("rope.freq_base"), float)
    # llama.cpp reads a window of 0 as none.
    window = metadata.get(key("attention.sliding_window"), int) or None
    return config | {
        "hidden_size": width,
        "intermediate_size": metadata.require(key("feed_forward_length"), int),
        "num_hidden_layers": metadata.require(key("block_count"), int),
        "num_attention_heads": heads,
        "num_key_value_heads": heads if kv_heads is None else kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": metadata.require(key("context_length"), int),
        "rms_norm_eps": metadata.require(key("attention.layer_norm_rms_epsilon"), float),
        "hidden_act": "silu",
        "rope_theta": 10000.0 if base is None else base,
        "rope_scaling": gguf_rope_scaling(metadata, architecture),
        "attention_bias": False,
        "mlp_bias": False,
        "sliding_window": window,
        "use_sliding_window": window is not None,
        **more_configuration(metadata, architecture),
    }
