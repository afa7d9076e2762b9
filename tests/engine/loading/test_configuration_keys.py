"""Every key of config.json is implemented, without effect, refused by name, or noted."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.configuration import SCHEMAS, validated
from assay.engine.loading.configuration_keys import HARMLESS, IMPLEMENTED, NEUTRAL
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import AssayError, UnsupportedError

ENGINE_DATA = Path(__file__).parents[2] / "data" / "engine"


def check(architecture: str = "llama", **changes: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    given = dict(synthetic_model(architecture).config) | changes
    return validated("config.json", architecture, given)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn_logit_softcapping", 50.0),
        ("final_logit_softcapping", 30.0),
        ("query_pre_attn_scalar", 256),
        ("logits_scaling", 16.0),
        ("logit_scale", 0.0625),
        ("embedding_multiplier", 12.0),
        ("residual_multiplier", 0.22),
        ("attention_multiplier", 0.0078125),
        ("partial_rotary_factor", 0.5),
        ("use_qk_norm", True),
        ("quantization_config", {"quant_method": "gptq"}),
        ("num_local_experts", 8),
        ("alibi", True),
        ("text_config", {"hidden_size": 8}),
        ("no_rope_layers", [0, 1]),
        ("is_causal", False),
        # Unknown, but the name says what it would change.
        ("attn_output_multiplier", 0.5),
        ("post_norm_eps", 1e-5),
    ],
)
@pytest.mark.parametrize("architecture", SCHEMAS)
def test_keys_that_would_change_logits_are_refused(architecture: str, key: str, value: Any) -> None:
    keys = SCHEMAS[architecture].keys
    # transformers 5 writes num_experts as num_local_experts.
    if key in keys or (key == "num_local_experts" and "num_experts" in keys):
        pytest.skip(f"{architecture} implements {key}")
    with pytest.raises(UnsupportedError, match=key) as caught:
        check(architecture, **{key: value})
    assert caught.value.hint


@pytest.mark.parametrize("key", NEUTRAL)
def test_neutral_values_are_accepted(key: str) -> None:
    for value in NEUTRAL[key]:
        check(**{key: value})


def test_unknown_keys_are_noted_by_name() -> None:
    notes = check(my_training_run="a", seed=7)[1]
    assert notes == ("config.json: unknown keys, not used: my_training_run, seed",)


# Keys that published models have beyond those that transformers writes today.
@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        (
            "llama",  # SmolLM2
            {
                "is_llama_config": True,
                "rope_interleaved": False,
                "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
            },
        ),
        ("qwen2", {"use_mrope": False, "max_window_layers": 24, "sliding_window": 32768}),  # 2.5
        ("llama", {"attn_implementation": "flash_attention_2", "max_sequence_length": 2048}),
        ("gpt2", {"_num_labels": 1, "n_ctx": 1024, "task_specific_params": {}}),  # DistilGPT-2
        (
            "deepseek_v2",  # Lite
            {
                "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV2ForCausalLM"},
                "aux_loss_alpha": 0.001,
                "ep_size": 1,
                "moe_layer_freq": 1,
                "n_group": 1,
                "q_lora_rank": None,
                "scoring_func": "softmax",
                "seq_aux": True,
                "topk_group": 1,
            },
        ),
        ("deepseek_v3", {"num_nextn_predict_layers": 1, "topk_method": "noaux_tc"}),
        (
            "mamba2",  # Codestral Mamba
            {
                "intermediate_size": 512,
                "norm_before_gate": True,
                "rms_norm": True,
                "time_step_init_scheme": "random",
                "time_step_scale": 1.0,
            },
        ),
    ],
)
def test_keys_of_published_models_are_accepted(architecture: str, keys: dict[str, Any]) -> None:
    check(architecture, **keys)


def test_layers_of_multi_token_prediction_are_left_out() -> None:
    assert "multi-token prediction" in check("deepseek_v3", num_nextn_predict_layers=1)[1][-1]


def test_model_code_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="auto_map"):
        check(auto_map={"AutoModelForCausalLM": "modeling.Model"})
    assert check(auto_map={"AutoConfig": "configuration.Config"})[1] == ()


@pytest.mark.parametrize(
    "kinds", [["linear_attention"] * 2, ["full_attention"], "full", [None] * 2]
)
def test_layer_types_are_checked(kinds: Any) -> None:
    with pytest.raises(AssayError, match="layer_types"):
        check("qwen2", layer_types=kinds)


def test_tables_do_not_overlap() -> None:
    assert not HARMLESS & NEUTRAL.keys()
    assert not IMPLEMENTED & (HARMLESS | NEUTRAL.keys())


@pytest.mark.parametrize("folder", sorted(ENGINE_DATA.iterdir()), ids=lambda folder: folder.name)
def test_every_key_that_transformers_writes_is_known(folder: Path) -> None:
    given = json.loads((folder / "config.json").read_text())
    notes = validated("config.json", given["model_type"], given)[1]
    assert not [note for note in notes if "unknown" in note]


@pytest.mark.parametrize(
    ("architecture", "changes", "windows"),
    [
        # Mistral has a window whenever its size is given; Qwen has one only where it says so.
        ("mistral", {"use_sliding_window": False}, [16, 16]),
        ("qwen2", {"use_sliding_window": False}, [0, 0]),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, [0, 16]),
        ("qwen2", {"use_sliding_window": True}, [0, 0]),
        ("llama", {}, [0, 0]),
        ("gemma2", {}, [16, 0]),
        ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}, [0, 16]),
        ("cohere2", {"sliding_window_pattern": 2}, [16, 0]),
        ("starcoder2", {}, [16, 16]),
    ],
)
def test_windows_of_layers(architecture: str, changes: dict[str, Any], windows: list[int]) -> None:
    config, _ = check(architecture, sliding_window=16, max_position_embeddings=512, **changes)
    decoder = ARCHITECTURES[architecture].decoder(config)
    assert [block.attention.window for block in decoder.blocks] == windows
    assert decoder.context == 512


@pytest.mark.parametrize(
    ("architecture", "changes", "named"),
    [
        ("mixtral", {"num_local_experts": 2**30}, "num_local_experts of at most"),
        ("mixtral", {"num_experts_per_tok": 5}, "num_experts_per_tok of at most 4"),
        ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers of 2"),
        ("smollm3", {"no_rope_layers": [1, 2]}, "no_rope_layers of 2"),
        ("glm4", {"partial_rotary_factor": 1.5}, "partial_rotary_factor"),
        ("glm4", {"partial_rotary_factor": 0.01}, "partial_rotary_factor"),
        ("gemma2", {"attn_logit_softcapping": -1.0}, "attn_logit_softcapping as a positive"),
        ("gemma3_text", {"sliding_window_pattern": 0}, "sliding_window_pattern"),
        ("granite", {"logits_scaling": 0}, "logits_scaling as a positive"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": "x"},
         "max_window_layers"),
        ("llama", {"hidden_act": "quick_gelu"}, "hidden_act"),
        ("deepseek_v2", {"kv_lora_rank": None}, "kv_lora_rank as an integer"),
        ("deepseek_v2", {"q_lora_rank": 0}, "q_lora_rank as an integer"),
        ("deepseek_v2", {"q_lora_rank": "64"}, "q_lora_rank as an integer"),
        ("deepseek_v2", {"qk_rope_head_dim": 31}, "an even qk_rope_head_dim"),
        ("deepseek_v2", {"num_key_value_heads": 2}, "num_key_value_heads 4"),
        ("deepseek_v2", {"first_k_dense_replace": -1}, "first_k_dense_replace"),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method greedy or"),
        ("deepseek_v2", {"scoring_func": "sigmoid"}, "scoring_func softmax"),
        ("deepseek_v2", {"norm_topk_prob": True}, "norm_topk_prob False"),
        ("deepseek_v2", {"moe_layer_freq": 2}, "moe_layer_freq 1"),
        ("deepseek_v2", {"n_routed_experts": 2**20}, "n_routed_experts of at most"),
        ("deepseek_v2", {"n_group": 3, "topk_group": 1}, "n_routed_experts as a multiple"),
        ("deepseek_v2", {"n_group": 2, "topk_group": None}, "topk_group as an integer"),
        ("deepseek_v3", {"n_group": 4, "topk_group": 1}, "topk_group of at most 4"),
        ("deepseek_v3", {"n_group": 4, "topk_group": 4}, "n_group with two experts"),
        ("deepseek_v3", {"n_group": 2, "topk_group": 3}, "topk_group of at most 2"),
        ("deepseek_v3", {"routed_scaling_factor": -1.0}, "routed_scaling_factor as a positive"),
        ("deepseek_v3", {"rope_interleave": "yes"}, "rope_interleave as true, false"),
        ("deepseek_v3", {"num_nextn_predict_layers": -3}, "num_nextn_predict_layers"),
        ("deepseek_v3", {"n_shared_experts": 0}, "n_shared_experts"),
        ("mamba2", {"n_groups": 3}, "num_heads as a multiple of n_groups"),
        ("mamba2", {"conv_kernel": 1}, "conv_kernel from 2 to 8"),
        ("mamba2", {"conv_kernel": 2**30}, "conv_kernel from 2 to 8"),
        ("mamba2", {"expand": 3}, "num_heads times head_dim of 768"),
        ("mamba2", {"expand": "2"}, "expand as a positive"),
        ("mamba2", {"state_size": 0}, "state_size"),
        ("mamba2", {"time_step_limit": [0.0]}, "time_step_limit as two numbers"),
        ("mamba2", {"time_step_limit": [0.1, float("nan")]}, "time_step_limit as two numbers"),
        ("mamba2", {"time_step_limit": [0.2, 0.1]}, "a rising time_step_limit"),
        ("mamba2", {"time_step_limit": [-1, 1]}, "time_step_limit as two numbers"),
        ("mamba2", {"use_conv_bias": 1}, "use_conv_bias as true or false"),
        ("mamba2", {"hidden_act": "gelu"}, "hidden_act"),
        ("mamba2", {"sliding_window_size_of_attention": 4}, "known keys of the computation"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused(
    architecture: str, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(AssayError, match=named):
        ARCHITECTURES[architecture].decoder(check(architecture, **changes)[0])
