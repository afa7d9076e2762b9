"""Shapes against published parameter counts, FLOP formulas and cache sizes."""

from __future__ import annotations

import pytest

from assay.catalog import models
from assay.model import Registry
from assay.stack import architecture


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([architecture.scope])


GPT_175B = {
    "num_hidden_layers": 96, "hidden_size": 12288, "num_attention_heads": 96,
    "vocab_size": 50257, "n_positions": 2048, "model_type": "gpt2",
}  # fmt: skip

# Elements of the published checkpoints, as their model pages state them; those of the other
# models are stored with their configurations.
EXACT = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
}
PUBLISHED = {
    model.name: model.published["parameters"]
    for model in models.all_models()
    if "parameters" in model.published
}


@pytest.mark.parametrize(("name", "count"), (EXACT | PUBLISHED).items())
def test_parameters_are_exact(registry: Registry, name: str, count: int) -> None:
    given = models.find(name).given
    assert registry.resolve("architecture.parameters", given).value == pytest.approx(count, abs=0.5)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-v3", 37.5),
        ("mixtral-8x7b", 12.9),
        ("mixtral-8x22b", 39.1),
        ("qwen3-235b-a22b", 22.2),
        ("qwen3-30b-a3b", 3.35),
        ("kimi-k2", 32.9),
        ("qwen3.5-397b-a17b", 17.35),
    ],
)
def test_active_parameters(registry: Registry, name: str, billions: float) -> None:
    given = models.find(name).given
    found = registry.resolve("architecture.active_parameters", given).value
    assert found == pytest.approx(billions * 1e9, rel=0.004)


def test_catalog_states_enough_parameter_counts() -> None:
    assert len(PUBLISHED) >= 36


def test_parameters_of_gpt_3_are_those_of_its_table(registry: Registry) -> None:
    given = models.from_config(GPT_175B).given
    found = registry.resolve("architecture.parameters", given).value
    assert found / 1e6 == pytest.approx(174_600, abs=50)


def test_parameter_groups_of_gpt_oss_match_its_model_card(registry: Registry) -> None:
    given = models.find("gpt-oss-120b").given

    def found(name: str) -> float:
        return registry.resolve(f"architecture.{name}", given).require_value()

    layers = found("layers")
    assert layers * found("mixture.parameters") == pytest.approx(114.71e9, abs=5e6)
    assert layers * found("attention.parameters") == pytest.approx(0.96e9, abs=5e6)
    assert found("embedding.parameters") == pytest.approx(1.16e9, abs=5e6)
    # The model card counts the output projection as active, but not the input embedding.
    assert found("active_parameters") == pytest.approx(5.13e9, abs=5e6)


def test_parameters_of_pythia_without_its_tables(registry: Registry) -> None:
    given = models.find("pythia-70m").given
    whole = registry.resolve("architecture.parameters", given).require_value()
    tables = registry.resolve("architecture.embedding.parameters", given).require_value()
    assert whole - tables == 18_915_328


def test_training_flops_are_those_of_narayanan_et_al(registry: Registry) -> None:
    model = models.from_dimensions(layers=96, hidden=12288, heads=96, vocabulary=51200)
    given = {**model.given, "architecture.sequence": "2048 token"}
    found = registry.resolve("architecture.training.flops_per_token", given)
    layers, hidden, sequence, vocabulary = 96, 12288, 2048, 51200
    stated = 72 * layers * hidden**2 * (1 + sequence / (6 * hidden)) + 6 * hidden * vocabulary
    assert found.value == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "elements"),
    [("llama-3.1-8b", 2 * 8 * 128), ("deepseek-v3", 512 + 64), ("qwen3-32b", 2 * 8 * 128)],
)
def test_kv_cache_elements_per_token_and_layer(
    registry: Registry, name: str, elements: float
) -> None:
    found = registry.resolve("architecture.kv.layer_elements_per_token", models.find(name).given)
    assert found.value == elements


def test_sliding_window_bounds_attended_tokens(registry: Registry) -> None:
    given = {**models.find("gpt-oss-120b").given, "architecture.sequence": "8192 token"}
    found = registry.resolve("architecture.attention.seen_tokens", given)
    assert found.value == pytest.approx((8192 + 128) / 2)


def test_linear_attention_layers_have_no_kv_cache(registry: Registry) -> None:
    given = models.find("qwen3.5-397b-a17b").given
    elements = registry.resolve("architecture.kv.elements_per_token", given).value
    assert elements == 15 * 2 * 2 * 256
    state = registry.resolve("architecture.kv.state_elements", given).value
    assert state == 45 * (64 * 128 * 128 + 3 * (2 * 16 * 128 + 64 * 128))


def test_more_key_heads_than_query_heads_are_reported(registry: Registry) -> None:
    given = {**models.find("llama-3.1-8b").given, "architecture.kv_heads": 64.0}
    assert registry.resolve("architecture.parameters", given).violated
