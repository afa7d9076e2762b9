"""Write the logits that transformers gives small synthetic models of every architecture.

The weights are those of `assay.engine.loading.synthetic`, which are equal on every machine: only
configuration, tokens and logits are stored, in `tests/data/architectures/<name>/`. transformers
loads the weights from the folder that Assay writes, so names and shapes are checked too. Needs torch
and transformers, which nothing else here does: run it in a separate environment and commit its
output.

    PYTHONPATH=python python tests/data/make_architecture_fixtures.py tests/data/architectures
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

TOKENS = 40
"""Length of the prompt."""
GREEDY = 12
"""Greedy tokens after it."""
WINDOW = 12
"""A sliding window that the prompt exceeds."""

SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Without a head_dim of their own these derive it.
DERIVED = {**{key: value for key, value in SMALL.items() if key != "head_dim"}, "hidden_size": 128}
THREE_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
# Latent attention, a dense layer first, then experts.
DEEPSEEK = {
    **SMALL,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "q_lora_rank": 48,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}


def longrope(original: int) -> dict[str, Any]:
    """LongRoPE for heads of 64, half of which are rotated."""
    return {
        **DERIVED,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "original_max_position_embeddings": original,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.5,
            "original_max_position_embeddings": original,
            "short_factor": [1.0 + 0.05 * pair for pair in range(16)],
            "long_factor": [1.5 + 0.25 * pair for pair in range(16)],
        },
    }


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mistral_window": ("Mistral", {**SMALL, "sliding_window": WINDOW}),
    "qwen2_window": (
        "Qwen2",
        {
            **DERIVED,
            "num_hidden_layers": 3,
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
        },
    ),
    "gemma2": (
        "Gemma2",
        {
            **SMALL,
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 48,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "Gemma3",
        {
            **SMALL,
            "num_hidden_layers": 3,
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 48,
            "layer_types": THREE_LAYERS,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": PLAIN_ROPE,
            },
        },
    ),
    "phi3": ("Phi3", {**DERIVED, "sliding_window": WINDOW}),
    "phi3_long": ("Phi3", longrope(32)),
    "phi3_short": ("Phi3", longrope(128)),
    "smollm3": ("SmolLM3", {**DERIVED, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1]}),
    "olmo2": ("Olmo2", DERIVED),
    "granite": (
        "Granite",
        {
            **DERIVED,
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.3,
            "logits_scaling": 2.0,
        },
    ),
    "glm4": ("Glm4", {**SMALL, "attention_bias": True}),
    "cohere2": (
        "Cohere2",
        {
            **DERIVED,
            "num_hidden_layers": 3,
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "layer_types": THREE_LAYERS,
            "logit_scale": 0.25,
        },
    ),
    "starcoder2": ("Starcoder2", {**DERIVED, "sliding_window": WINDOW}),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": (
        "Qwen2Moe",
        {
            **DERIVED,
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 48,
            "shared_expert_intermediate_size": 80,
            "mlp_only_layers": [0],
        },
    ),
    "gpt_oss": (
        "GptOss",
        {
            **SMALL,
            "num_hidden_layers": 3,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": WINDOW,
            "layer_types": THREE_LAYERS,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "truncate": False,
            },
        },
    ),
    "deepseek_v2": (
        "DeepseekV2",
        {
            **DEEPSEEK,
            "n_shared_experts": 2,
            "n_group": 4,
            "topk_group": 2,
            "topk_method": "group_limited_greedy",
            "routed_scaling_factor": 4.0,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 0.707,
                "mscale_all_dim": 1.5,
            },
        },
    ),
    "deepseek_v2_lite": ("DeepseekV2", {**DEEPSEEK, "q_lora_rank": None, "n_shared_experts": 1}),
    "deepseek_v3": (
        "DeepseekV3",
        {
            **DEEPSEEK,
            "n_shared_experts": 1,
            "n_group": 2,
            "topk_group": 1,
            "rms_norm_eps": 1e-3,
            "attention_bias": True,
        },
    ),
    "mamba2": (
        "Mamba2",
        {
            "vocab_size": 96,
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "num_heads": 4,
            "head_dim": 32,
            "state_size": 16,
            "n_groups": 2,
            "expand": 2,
            "conv_kernel": 4,
            "chunk_size": 16,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            **SMALL,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
        },
    ),
}


def make(name: str, folder: Path) -> None:
    """Write the configuration of one model and its expected outputs."""
    import torch
    import transformers
    from safetensors.torch import save_file

    from assay.engine.loading.synthetic import write_folder

    family, settings = MODELS[name]
    suffix = "TextConfig" if family == "Gemma3" else "Config"
    config = getattr(transformers, f"{family}{suffix}")(**settings)
    where = folder / name
    where.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(where)
    raw = json.loads((where / "config.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        write_folder(Path(scratch), raw["model_type"], config=raw, complete=True)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            scratch, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        found = [key for key in report[kind] if not _is_tied(str(key), config)]
        if found:
            raise SystemExit(f"{name}: {kind}: {sorted(map(str, found))[:8]}")
    generator = torch.Generator().manual_seed(sorted(MODELS).index(name))
    tokens = torch.randint(3, settings["vocab_size"], (1, TOKENS), generator=generator)
    model.eval()
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0].float()
        output = tokens
        for _ in range(GREEDY):
            best = model(output, use_cache=False).logits[0, -1].argmax()
            output = torch.cat([output, best.view(1, 1)], dim=1)
        rounded = model.to(torch.bfloat16)(tokens, use_cache=False).logits[0].float()
    expected = {
        "tokens": tokens[0].to(torch.int32),
        "logits": logits.contiguous(),
        # What computing in bfloat16 costs transformers itself, by token: the scale for a GPU.
        "bf16_errors": (rounded - logits).norm(dim=1) / logits.norm(dim=1),
        "greedy": output[0, TOKENS:].to(torch.int32).contiguous(),
    }
    save_file(expected, str(where / "expected.safetensors"))
    print(name, f"logits of up to {logits.abs().max():.3g}, transformers", transformers.__version__)


def _is_tied(key: str, config: Any) -> bool:
    return bool(config.tie_word_embeddings) and key == "lm_head.weight"


if __name__ == "__main__":
    for chosen in sys.argv[2:] or MODELS:
        make(chosen, Path(sys.argv[1]))
