"""State-space models and hybrids: published sizes, and steps that read every weight."""

from __future__ import annotations

from typing import Any

import pytest

from assay.catalog import models
from assay.errors import InputError
from assay.planner import BatchConfig, hardware_spec, predict_graph
from assay.planner.sources import from_model
from assay.stack import registry

MAMBA = {
    "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_conv": 4,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
}  # fmt: skip
CONFIGS: dict[str, tuple[dict[str, Any], float, int]] = {
    # Dao and Gu 2024: 2.7 billion weights.
    "mamba2-2.7b": (
        {"model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 2560, "num_heads": 80,
         "head_dim": 64, "n_groups": 1, "state_size": 128, "conv_kernel": 4, "vocab_size": 50288},
        2.70e9, 0,
    ),
    # Bamba-9B's model card: 9.78 billion.
    "bamba-9b": (
        {**MAMBA, "model_type": "bamba", "num_hidden_layers": 32, "intermediate_size": 14336,
         "attn_layer_indices": [9, 18, 27], "mamba_d_state": 256, "vocab_size": 128256},
        9.78e9, 3,
    ),
    # Granite-4.0-H-Small's model card: 32 billion.
    "granite-4.0-h-small": (
        {**MAMBA, "model_type": "granitemoehybrid", "num_hidden_layers": 40, "mamba_d_state": 128,
         "layer_types": (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4,
         "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72,
         "num_experts_per_tok": 10, "vocab_size": 100352, "tie_word_embeddings": True},
        32.2e9, 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_and_steps(name: str) -> None:
    config, weights, attended = CONFIGS[name]
    model = models.from_config(config, name)
    counted = registry().resolve("architecture.parameters", given=model.given, intervals=False)
    assert counted.require_value() == pytest.approx(weights, rel=0.01)
    graph = predict_graph(
        from_model(model), hardware_spec("h200"), BatchConfig(sequences=2, context=4000)
    )
    assert len(graph.of("attention")) == attended
    layers = config["num_hidden_layers"]
    assert len(graph.of("ssm_scan")) == layers - attended
    assert len(graph.of("gate_up_proj")) == (32 if name == "bamba-9b" else 0)
    assert sum(node.expected_ns for node in graph) == pytest.approx(graph.totals["step"].value)
    # Every matrix of the mixers is read once, in 16 bits.
    expanded = 2 * 2560 if name == "mamba2-2.7b" else 8192
    hidden = config["hidden_size"]
    read = sum(node.bytes_read for node in graph.of("ssm_in_proj") + graph.of("ssm_out_proj"))
    assert read == pytest.approx(2 * (layers - attended) * 3 * expanded * hidden, rel=0.05)


def test_other_state_space_models_are_refused_by_name() -> None:
    with pytest.raises(InputError, match='"jamba" are not covered'):
        models.from_config({"model_type": "jamba"})
