"""Small models as GGUF files, written by the reference writer as llama.cpp's converter does."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from assay.engine.loading import ModelFiles
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.loading.tokenizer import byte_alphabet

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gpt2": gguf.MODEL_ARCH.GPT2,
}


def small(architecture: str) -> ModelFiles:
    """A small model with one token more: the writer drops lists that are empty, so one merges."""
    return synthetic_model(architecture, config={"vocab_size": 259})


def permute(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """What llama.cpp's conversion does to the rows of Llama's queries and keys."""
    rows = values.shape[0]
    split = values.reshape(heads, 2, rows // heads // 2, *values.shape[1:])
    return split.swapaxes(1, 2).reshape(values.shape)


def metadata_of(model: ModelFiles) -> dict[str, Any]:
    config, name = model.config, model.architecture
    if name == "gpt2":
        found = {
            "embedding_length": config["n_embd"],
            "block_count": config["n_layer"],
            "context_length": config["n_positions"],
            "feed_forward_length": config["n_inner"],
            "attention.head_count": config["n_head"],
            "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
        }
    else:
        found = {
            "embedding_length": config["hidden_size"],
            "block_count": config["num_hidden_layers"],
            "context_length": config["max_position_embeddings"],
            "feed_forward_length": config["intermediate_size"],
            "attention.head_count": config["num_attention_heads"],
            "attention.head_count_kv": config["num_key_value_heads"],
            "attention.key_length": config["head_dim"],
            "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
            "rope.freq_base": config["rope_theta"],
        }
    return {f"{name}.{key}": value for key, value in found.items()} | {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.ggml.add_bos_token": True,
    }


def write(
    path: Path,
    model: ModelFiles,
    *,
    changes: dict[str, Any] | None = None,
    extra: dict[str, NDArray[np.float32]] | None = None,
    leave_out: str = "",
) -> None:
    """The model as llama.cpp's converter would write it."""
    writer = gguf.GGUFWriter(path, model.architecture)
    for key, value in (metadata_of(model) | (changes or {})).items():
        if value is None:
            continue
        add = {
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            str: writer.add_string,
        }
        add[type(value)](key, value)
    writer.add_token_list([*byte_alphabet(), "<|begin|>", "<|end|>", "xy"])
    writer.add_token_types([1] * 256 + [3, 3, 1])
    writer.add_token_merges(["x y"])
    names = gguf.get_tensor_name_map(ARCHITECTURES[model.architecture], 64)
    heads = {
        "q_proj": model.config.get("num_attention_heads", 0),
        "k_proj": model.config.get("num_key_value_heads", 0),
    }
    for name, tensor in model.tensors.items():
        if leave_out and leave_out in name:
            continue
        values = tensor.to_float32()
        stem = name.split(".")[-2]
        if model.architecture == "llama" and stem in heads:
            values = permute(values, heads[stem])
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        writer.add_tensor(stored, np.ascontiguousarray(values))
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
