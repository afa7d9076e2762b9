"""GGUF files of every architecture give the logits of the same weights in Hugging Face's layout.

Those are compared with transformers in `tests/engine/models/test_architectures.py`.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_conversion import NAMES, write
from small_models import EXACT_CACHE

from assay.engine import Engine
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.loading.tensor_values import tensor_values
from assay.errors import AssayError
from chosen_device import cpu_only

FOLDER = Path(__file__).parents[2] / "data" / "architectures"
TOKENS = [5, 9, 17, 3, 88, 41, 7, 60, 33, 12, 71, 28, 90, 4, 55, 19, 66, 23]

# What a file cannot say: llama.cpp has it by the architecture.
CASES: dict[str, dict[str, Any]] = {
    "mistral_window": {},
    "qwen2_window": {"use_sliding_window": False, "sliding_window": None, "layer_types": None},
    "gemma2": {"query_pre_attn_scalar": 64},
    "gemma3": {"query_pre_attn_scalar": 64},
    "phi3": {},
    "smollm3": {"num_hidden_layers": 4, "no_rope_layers": None, "no_rope_layer_interval": 4},
    "olmo2": {},
    "granite": {},
    "glm4": {},
    "cohere2": {},
    "starcoder2": {"sliding_window": None},
    "mixtral": {},
    "qwen2_moe": {"mlp_only_layers": []},
    "qwen3_moe": {},
    "deepseek_v2": {"mscale": 1.5},
    "deepseek_v2_lite": {},
    "deepseek_v3": {"rms_norm_eps": 1e-6, "attention_bias": False},
    "mamba2": {"n_groups": 1},
    "gpt_oss": {},
}


def fixture(name: str) -> ModelFiles:
    config = json.loads((FOLDER / name / "config.json").read_text())
    changes = dict(CASES[name])
    if "mscale" in changes:
        config["rope_parameters"]["mscale"] = changes.pop("mscale")
    if "num_hidden_layers" in changes:
        config.pop("layer_types", None)
    config |= changes
    return synthetic_model(config["model_type"], config=config, complete=True)


def logits(files: ModelFiles) -> np.ndarray:
    with Engine.load(files, kv_format=EXACT_CACHE) as engine:
        return engine.logits(TOKENS)


@cpu_only
@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_the_same_weights(name: str, tmp_path: Path) -> None:
    source = fixture(name)
    path = tmp_path / "model.gguf"
    write(path, source)
    model = open_model(path)
    assert model.architecture == source.architecture
    # Gates and ups of gpt-oss stay apart.
    assert name == "gpt_oss" or model.tensors.keys() == source.tensors.keys()
    expected, got = logits(source), logits(model)
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()


@cpu_only
@pytest.mark.parametrize("name", ["phi3_long", "phi3_short"])
def test_factors_of_long_contexts_are_read(name: str, tmp_path: Path) -> None:
    config = json.loads((FOLDER / name / "config.json").read_text())
    source = synthetic_model("phi3", config=config, complete=True)
    given = config["rope_parameters"]
    path = tmp_path / "model.gguf"
    write(
        path,
        source,
        changes={
            "rope.scaling.original_context_length": given["original_max_position_embeddings"],
            "rope.scaling.attn_factor": float(source.config["rope_scaling"]["attention_factor"]),
        },
        extra={
            f"rope_factors_{kind}.weight": np.array(given[f"{kind}_factor"], np.float32)
            for kind in ("long", "short")
        },
    )
    expected, got = logits(source), logits(open_model(path))
    assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()


def test_every_gguf_name_is_tested() -> None:
    covered = {gguf.MODEL_ARCH_NAMES[NAMES[fixture(name).architecture]] for name in CASES}
    named = {one.gguf for one in ARCHITECTURES.values() if one.gguf is not None}
    # Those have tests of their own (test_gguf_models.py).
    assert covered | {"qwen3", "gpt2"} == named


@cpu_only
def test_stacks_of_quantized_experts_are_split(tmp_path: Path) -> None:
    """Blocks of Q8_0 stay as they are: each expert is a part of the stack's bytes."""
    source, path = fixture("qwen3_moe"), tmp_path / "model.gguf"
    write(path, source, formats={"_exps": gguf.GGMLQuantizationType.Q8_0})
    model = open_model(path)
    name = "model.layers.1.mlp.experts.4.down_proj.weight"
    blocks = np.frombuffer(model.tensors[name].bytes, np.uint8).reshape(64, -1)
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
    exact = source.tensors[name].to_float32()
    assert 0 < np.abs(values - exact).max() < 0.01 * np.abs(exact).max()
    error = np.linalg.norm(logits(model) - logits(source)) / np.linalg.norm(logits(source))
    assert 0 < error < 0.1


@cpu_only
def test_experts_of_gpt_oss_in_mxfp4(tmp_path: Path) -> None:
    """Blocks of the `gguf` package stay as they are: products by the values that it reads from them."""
    source, path = fixture("gpt_oss"), tmp_path / "model.gguf"
    write(path, source, formats={"_exps.weight": gguf.GGMLQuantizationType.MXFP4})
    model = open_model(path)
    name = "model.layers.1.mlp.experts.up_proj.weight"
    tensor = model.tensors[name]
    blocks = np.frombuffer(tensor.bytes, np.uint8).reshape(4, 96, -1)
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType.MXFP4)
    assert np.array_equal(tensor_values(tensor), values)
    with Engine.load(model, kv_format=EXACT_CACHE) as engine:
        assert not [note for note in engine.describe()["notes"] if "mxfp4" in note]
        got = engine.logits(TOKENS)
    error = np.linalg.norm(got - logits(source)) / np.linalg.norm(logits(source))
    assert 0 < error < 0.5


@cpu_only
def test_latent_attention_of_quantized_files(tmp_path: Path) -> None:
    source, path = fixture("deepseek_v2_lite"), tmp_path / "model.gguf"
    write(path, source, formats={"attn_v_b": gguf.GGMLQuantizationType.Q8_0})
    error = np.linalg.norm(logits(open_model(path)) - logits(source))
    assert 0 < error < 0.05 * np.linalg.norm(logits(source))


def test_first_files_of_mixtral_name_each_expert(tmp_path: Path) -> None:
    source, path = fixture("mixtral"), tmp_path / "model.gguf"
    singles = {}
    for layer in range(2):
        for kind, name in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            for expert in range(4):
                base = f"model.layers.{layer}.block_sparse_moe.experts.{expert}"
                values = source.tensors[f"{base}.{name}.weight"].to_float32()
                singles[f"blk.{layer}.ffn_{kind}.{expert}.weight"] = values
    write(path, source, extra=singles, leave_out="_exps")
    model = open_model(path)
    assert model.tensors.keys() == source.tensors.keys()
    name = "model.layers.1.block_sparse_moe.experts.3.w2.weight"
    assert np.array_equal(model.tensors[name].to_float32(), source.tensors[name].to_float32())


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("deepseek_v3", {"expert_gating_func": 4}, "expert_gating_func 1 or 2, got 4"),
        ("deepseek_v3", {"attention.key_length_mla": 32}, "qk_nope_head_dim"),
        ("deepseek_v3", {"attention.value_length_mla": 4}, "v_b"),
        ("deepseek_v2", {"rope.scaling.attn_factor": 2.0}, "attn_factor 1.0, got 2.0"),
        ("mamba2", {"ssm.group_count": 2}, "ssm.group_count 1, got 2"),
        ("mamba2", {"ssm.inner_size": 7}, "num_heads times head_dim"),
        ("mamba2", {"ssm.conv_kernel": 0}, "conv_kernel"),
        ("mixtral", {"expert_used_count": 9}, "num_experts_per_tok of at most 4"),
        ("mixtral", {"expert_count": 5000}, "num_local_experts of at most 4096"),
        ("qwen2_moe", {"expert_feed_forward_length": 7}, "shape"),
        ("cohere2", {"attention.sliding_window_pattern": 0}, "as a number or a list"),
        ("cohere2", {"attention.sliding_window_pattern": [True]}, "layer_types of 3 layers"),
        ("glm4", {"rope.dimension_count": 0}, "partial_rotary_factor"),
        ("phi3", {"attention.value_length": 16}, "value_length 32, the size of a head, got 16"),
    ],
)
def test_hostile_metadata_is_refused(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    write(path, fixture(name), changes=changes)
    with pytest.raises(AssayError, match=message):
        open_model(path)
