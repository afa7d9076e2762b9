"""Write small random models of every architecture with the logits that transformers gives them.

Needs torch and transformers, which nothing else here does: run it once in a separate
environment and commit its output, `tests/data/engine/<name>/`: config.json, model.safetensors (bf16),
expected.safetensors (tokens, logits in float32, and greedy tokens after them).

    python tests/data/make_engine_fixtures.py tests/data/engine
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TOKENS = 40
"""Length of the prompt."""
GREEDY = 16
"""Greedy tokens after it."""

SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    # Every device has kernels for head sizes 64 and 128.
    "head_dim": 64,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

LLAMA_3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

YARN_SCALING = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2",
        {
            "vocab_size": 96,
            "n_embd": 128,
            "n_inner": 128,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": 128,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "llama": ("Llama", SMALL),
    "llama3": ("Llama", {**SMALL, "rope_parameters": LLAMA_3_SCALING, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {**SMALL, "head_dim": 128, "sliding_window": None}),
    "qwen2": ("Qwen2", {**SMALL, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", SMALL),
    "yarn_attention_factor": (
        "Qwen2",
        {
            **SMALL,
            "num_hidden_layers": 1,
            "rope_parameters": {**YARN_SCALING, "attention_factor": 0.6, "beta_fast": 8.0},
        },
    ),
    "yarn_mscale": (
        "Llama",
        {
            **SMALL,
            "num_hidden_layers": 1,
            "rope_parameters": {
                **YARN_SCALING,
                "mscale": 0.707,
                "mscale_all_dim": 2.5,
                "truncate": False,
            },
        },
    ),
}


def make(name: str, folder: Path) -> None:
    """Write one model and its expected outputs."""
    import torch
    import transformers
    from safetensors.torch import save_file

    family, settings = MODELS[name]
    torch.manual_seed(sorted(MODELS).index(name))
    config = getattr(transformers, f"{family}Config")(**settings)
    kind = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    model = getattr(transformers, f"{family}{kind}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Larger than at initialization, so that attention is not uniform; rounded to bfloat16,
            # so that the stored model equals the one that is run.
            if parameter.ndim > 1:
                parameter.mul_(4)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            parameter.copy_(parameter.to(torch.bfloat16).to(torch.float32))
        tokens = torch.randint(3, settings["vocab_size"], (1, TOKENS))
        logits = model(tokens).logits[0]
        output = tokens
        for _ in range(GREEDY):
            best = model(output).logits[0, -1].argmax()
            output = torch.cat([output, best.view(1, 1)], dim=1)
    where = folder / name
    where.mkdir(parents=True, exist_ok=True)
    stored = model.to(torch.bfloat16)
    stored.config.torch_dtype = None
    stored.save_pretrained(where)
    for extra in where.glob("generation_config.json"):
        extra.unlink()
    expected = {
        "tokens": tokens[0].to(torch.int32),
        "logits": logits.contiguous(),
        "greedy": output[0, TOKENS:].to(torch.int32).contiguous(),
    }
    save_file(expected, str(where / "expected.safetensors"))
    print(name, sum(parameter.numel() for parameter in model.parameters()), "parameters")


if __name__ == "__main__":
    for chosen in sys.argv[2:] or MODELS:
        make(chosen, Path(sys.argv[1]))
