"""Models of every architecture as GGUF files, as llama.cpp's converter writes them.

Names of tensors and keys are those of the `gguf` package; what the converter does to tensors (rows
permuted, experts stacked, one added to norms ...) is written down here a second time.
"""

import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf_models import permute

from assay.engine.loading import ModelFiles

NAMES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "glm4": gguf.MODEL_ARCH.GLM4,
    "cohere2": gguf.MODEL_ARCH.COHERE2,
    "starcoder2": gguf.MODEL_ARCH.STARCODER2,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen2_moe": gguf.MODEL_ARCH.QWEN2MOE,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "deepseek_v2": gguf.MODEL_ARCH.DEEPSEEK2,
    "deepseek_v3": gguf.MODEL_ARCH.DEEPSEEK2,
    "mamba2": gguf.MODEL_ARCH.MAMBA2,
    "gpt_oss": gguf.MODEL_ARCH.GPT_OSS,
}
PERMUTED = ("llama", "mistral", "mixtral", "granite", "smollm3")
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(\w+)\.weight")


def keys_of(model: ModelFiles) -> dict[str, Any]:
    """The metadata, below the name of the architecture."""
    config = model.config
    if model.architecture == "mamba2":
        inner = config["num_heads"] * config["head_dim"]
        return {
            "context_length": 1 << 20,
            "embedding_length": config["hidden_size"],
            "feed_forward_length": 0,
            "attention.head_count": 0,
            "block_count": config["num_hidden_layers"],
            "ssm.conv_kernel": config["conv_kernel"],
            "ssm.inner_size": inner,
            "ssm.state_size": config["state_size"],
            "ssm.time_step_rank": config["num_heads"],
            "ssm.group_count": config["n_groups"],
            "attention.layer_norm_rms_epsilon": config["layer_norm_epsilon"],
        }
    found = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "rope.freq_base": float(config["rope_theta"]),
        "rope.dimension_count": config["head_dim"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "vocab_size": config["vocab_size"],
    }
    for key in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon"):
        if key in config:
            kind = "layer_norm_rms_epsilon" if key == "rms_norm_eps" else "layer_norm_epsilon"
            found[f"attention.{kind}"] = config[key]
    if config.get("partial_rotary_factor"):
        found["rope.dimension_count"] = int(config["head_dim"] * config["partial_rotary_factor"])
    if config.get("sliding_window"):
        found["attention.sliding_window"] = config["sliding_window"]
    if config.get("layer_types"):
        flags = [kind == "sliding_attention" for kind in config["layer_types"]]
        found["attention.sliding_window_pattern"] = flags
    found |= _scaling(config)
    for count in ("num_local_experts", "num_experts", "n_routed_experts"):
        if count in config:
            found["expert_count"] = config[count]
            found["expert_used_count"] = config["num_experts_per_tok"]
    if "moe_intermediate_size" in config:
        found["expert_feed_forward_length"] = config["moe_intermediate_size"]
    return found | _more(model.architecture, config)


def _scaling(config: Any) -> dict[str, Any]:
    scaling = config["rope_scaling"] or {}
    kind = scaling.get("rope_type")
    if kind == "linear":
        return {"rope.scaling.type": "linear", "rope.scaling.factor": scaling["factor"]}
    if kind == "yarn":
        return {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": scaling["factor"],
            "rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
            "rope.scaling.yarn_beta_fast": scaling["beta_fast"],
            "rope.scaling.yarn_beta_slow": scaling["beta_slow"],
        }
    return {}


def _more(architecture: str, config: Any) -> dict[str, Any]:
    if architecture in ("gemma2", "gemma3_text"):
        found = {
            "attn_logit_softcapping": config["attn_logit_softcapping"],
            "final_logit_softcapping": config["final_logit_softcapping"],
        }
        if architecture == "gemma3_text":
            found["rope.freq_base_swa"] = float(config["rope_local_base_freq"])
        return {key: value for key, value in found.items() if value is not None}
    if architecture == "granite":
        return {
            "attention.scale": config["attention_multiplier"],
            "embedding_scale": config["embedding_multiplier"],
            "residual_scale": config["residual_multiplier"],
            "logit_scale": config["logits_scaling"],
        }
    if architecture == "gpt_oss":
        return {"expert_feed_forward_length": config["intermediate_size"]}
    if architecture == "cohere2":
        return {"logit_scale": config["logit_scale"]}
    if architecture == "qwen2_moe":
        return {"expert_shared_feed_forward_length": config["shared_expert_intermediate_size"]}
    if architecture.startswith("deepseek"):
        return _latent(architecture, config)
    return {}


def _latent(architecture: str, config: Any) -> dict[str, Any]:
    rank, rotated = config["kv_lora_rank"], config["qk_rope_head_dim"]
    found = {
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + rotated,
        "attention.value_length": rank,
        "attention.key_length_mla": config["qk_nope_head_dim"] + rotated,
        "attention.value_length_mla": config["v_head_dim"],
        "rope.dimension_count": rotated,
        "leading_dense_block_count": config["first_k_dense_replace"],
        "expert_shared_count": config["n_shared_experts"],
        "expert_weights_scale": float(config["routed_scaling_factor"]),
        "expert_gating_func": 2 if architecture == "deepseek_v3" else 1,
        "expert_group_count": config["n_group"],
        "expert_group_used_count": config["topk_group"],
    }
    if config["norm_topk_prob"]:
        found["expert_weights_norm"] = True
    if config["q_lora_rank"]:
        found["attention.q_lora_rank"] = config["q_lora_rank"]
    scaling = config["rope_scaling"]
    if scaling:
        # The factor of scores is (0.1 m ln(factor) + 1) squared; files have a tenth of m.
        all_dim = (scaling["score_factor"] ** 0.5 - 1) / (0.1 * np.log(scaling["factor"]))
        found["rope.scaling.yarn_log_multiplier"] = 0.1 * float(all_dim)
    return found


def tensors_of(model: ModelFiles) -> dict[str, np.ndarray]:
    """The tensors under the names of Hugging Face, changed as the converter does."""
    config, architecture = model.config, model.architecture
    found: dict[str, np.ndarray] = {}
    experts: dict[str, dict[int, np.ndarray]] = {}
    heads = {
        "q_proj": config.get("num_attention_heads", 0),
        "k_proj": config.get("num_key_value_heads", 0),
    }
    for name, tensor in model.tensors.items():
        values, stem = tensor.to_float32(), name.split(".")[-2]
        if match := EXPERT.fullmatch(name):
            base = match[1].replace("model.layers", "layers") if "sparse" in name else match[1]
            base = base.replace("block_sparse_moe", "feed_forward")
            experts.setdefault(f"{base}.{match[3]}.weight", {})[int(match[2])] = values
            continue
        if architecture in PERMUTED and stem in heads:
            values = permute(values, heads[stem])
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        if name.endswith(".sinks"):
            name += ".weight"
        if ".mlp.experts." in name and architecture == "gpt_oss":
            found |= _apart(name, values)
            continue
        if name.endswith(".e_score_correction_bias"):
            name = name.removesuffix("_bias") + ".bias"
        if name.endswith(".kv_b_proj.weight"):
            found |= _split(name, values, config)
            continue
        if architecture == "mamba2":
            name, values = _state_space(name, values, config)
        found[name] = values
    return found | {
        name: np.stack([one[index] for index in range(len(one))]) for name, one in experts.items()
    }


def _apart(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Gates and ups, which alternate, as two tensors; matrices become outputs by inputs."""
    kind = "bias" if name.endswith("_bias") else "weight"
    base = name.removesuffix("_bias")
    values = values if kind == "bias" else values.swapaxes(1, 2)
    if base.endswith("down_proj"):
        return {f"{base}.{kind}": values}
    base = base.removesuffix("gate_up_proj")
    return {f"{base}gate_proj.{kind}": values[:, ::2], f"{base}up_proj.{kind}": values[:, 1::2]}


def _split(name: str, values: np.ndarray, config: Any) -> dict[str, np.ndarray]:
    nope = config["qk_nope_head_dim"]
    by_head = values.reshape(config["num_attention_heads"], -1, config["kv_lora_rank"])
    return {
        name.replace("kv_b_proj", "k_b_proj"): by_head[:, :nope].swapaxes(1, 2),
        name.replace("kv_b_proj", "v_b_proj"): by_head[:, nope:],
    }


def _state_space(name: str, values: np.ndarray, config: Any) -> tuple[str, np.ndarray]:
    if name.endswith(".A_log"):
        return name, -np.exp(values)[:, None]
    if name.endswith(".D"):
        return name, values[:, None]
    if name.endswith(".dt_bias"):
        return name.replace(".dt_bias", ".dt_proj.bias"), values
    if name.endswith(".mixer.norm.weight"):
        return name, values.reshape(config["n_groups"], -1)
    if name.endswith(".conv1d.weight"):
        return name, values.squeeze(1)
    return name, values


def write(
    path: Path,
    model: ModelFiles,
    *,
    changes: dict[str, Any] | None = None,
    formats: dict[str, gguf.GGMLQuantizationType] | None = None,
    extra: dict[str, np.ndarray] | None = None,
    leave_out: str | None = None,
) -> None:
    """The model as a file; `formats` are those of tensors whose names have a part."""
    architecture = NAMES[model.architecture]
    prefix = gguf.MODEL_ARCH_NAMES[architecture]
    writer = gguf.GGUFWriter(path, prefix)
    for key, value in (keys_of(model) | (changes or {})).items():
        if value is None:
            continue
        name = f"{prefix}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        else:
            add = {
                bool: writer.add_bool,
                int: writer.add_uint32,
                float: writer.add_float32,
                str: writer.add_string,
            }
            add[type(value)](name, value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    count = model.config["vocab_size"]
    writer.add_token_list(["a", "b", "ab", *(f"t{index}" for index in range(3, count))])
    writer.add_token_types([1] * count)
    writer.add_token_merges(["a b"])
    names = gguf.get_tensor_name_map(architecture, 64)
    for name, values in tensors_of(model).items():
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        if leave_out is not None and leave_out in stored:
            continue
        _add(writer, stored, np.ascontiguousarray(values), formats or {})
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(
    writer: gguf.GGUFWriter,
    name: str,
    values: np.ndarray,
    formats: dict[str, gguf.GGMLQuantizationType],
) -> None:
    for part, kind in formats.items():
        if part in name:
            is_nested = kind.name.endswith("_K")
            blocks = random_blocks(values, kind) if is_nested else gguf.quantize(values, kind)
            writer.add_tensor(name, blocks, raw_dtype=kind)
            return
    writer.add_tensor(name, values)


def random_blocks(values: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """Blocks of Q4_K or Q6_K of a matrix's shape, which the package cannot make: of other values."""
    size, count = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = values.shape
    raw = np.random.default_rng(values.size).integers(
        0, 256, (rows, columns // size, count), np.uint8
    )
    scale = np.frombuffer(np.float16(2e-4).tobytes(), np.uint8)
    if kind is gguf.GGMLQuantizationType.Q4_K:
        raw[..., :2], raw[..., 2:4] = scale, scale
    else:
        raw[..., -2:] = scale
    return raw.reshape(rows, -1)
