"""Models by the names that publications use, and shapes from any configuration file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.catalog import models
from assay.errors import InputError, UnknownNameError
from assay.model import Registry
from assay.stack import architecture

CASES = sorted((Path(models.__file__).parent / "cases").glob("published*.json"))
SERVED = (
    "MiniMaxAI/MiniMax-M2.5", "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B",
    "Qwen/Qwen3.5-397B-A17B", "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B-Instruct", "moonshotai/Kimi-K2.5",
    "nvidia/DeepSeek-R1-NVFP4", "nvidia/DeepSeek-V3.1-NVFP4", "nvidia/Llama-3.1-8B-Instruct-FP8",
    "nvidia/Qwen3-32B-NVFP4", "openai/gpt-oss-120b", "zhipuai/GLM-5",
)  # fmt: skip
PLAIN = {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 96,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([architecture.scope])


def parameters(registry: Registry, config: dict[str, Any]) -> float:
    found = registry.resolve("architecture.parameters", models.from_config(config).given).value
    assert found is not None
    return found


def test_there_are_enough_models_and_each_has_a_source_and_a_date() -> None:
    found = list(models.all_models())
    assert len(found) >= 60
    assert all(
        model.source and model.date and model.kind in ("spec", "published") for model in found
    )


def test_names_of_published_cases_are_known() -> None:
    cases = [case for path in CASES for case in json.loads(path.read_text())]
    named = {case["inputs"].get("model") for case in cases} - {None}
    unknown = []
    for name in sorted([*named, *SERVED]):
        try:
            models.find(name)
        except UnknownNameError:
            unknown.append(name)
    # These models are given by their dimensions.
    assert unknown == ["13B GPT (40 layers, 5120)", "Grok-1"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("LLaMA 70B", "llama-2-70b"),
        ("deepseek_v3", "deepseek-v3"),
        ("Qwen3-32B-FP8-Static-PerTensor", "qwen3-32b"),
        ("EleutherAI/pythia-70m", "pythia-70m"),
        ("meta/llama-3_1-8b-instruct", "llama-3.1-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
    ],
)
def test_spellings(name: str, found: str) -> None:
    assert models.find(name).name == found


def test_unknown_models_are_named_with_a_near_one() -> None:
    with pytest.raises(UnknownNameError, match=r'unknown model "llama-3\.1-7b"') as caught:
        models.find("llama-3.1-7b")
    assert "llama-3.1-70b" in str(caught.value.hint)


def test_an_unknown_type_with_standard_fields_is_read_with_a_note(registry: Registry) -> None:
    model = models.from_config({**PLAIN, "model_type": "novel"})
    assert model.notes == (
        'model_type "novel" is not known: read as a gated decoder with RMS norms and no biases',
    )
    matrices = 2 * (4 * 64 * 64 + 3 * 64 * 96)
    assert parameters(registry, dict(PLAIN)) == matrices + 2 * 100 * 64 + (2 * 2 + 1) * 64


def test_missing_fields_are_all_named() -> None:
    with pytest.raises(InputError, match="lacks num_hidden_layers, vocab_size, intermediate_size"):
        models.from_config({"hidden_size": 64, "num_attention_heads": 4, "model_type": "llama"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "wide"),
        ("vocab_size", -1),
        ("num_hidden_layers", True),
        ("vocab_size", float("nan")),
        ("vocab_size", float("inf")),
        ("vocab_size", 10**400),
    ],
)
def test_non_numeric_fields_are_named(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"as {field}"):
        models.from_config({**PLAIN, field: value})


def test_zero_attention_heads_are_refused() -> None:
    with pytest.raises(InputError, match="expected num_attention_heads above 0, got 0"):
        models.from_config({**PLAIN, "num_attention_heads": 0})


def test_state_space_layers_are_refused() -> None:
    with pytest.raises(InputError, match="layers of a state-space model"):
        models.from_config({**PLAIN, "hybrid_override_pattern": "M*M*"})


@pytest.mark.parametrize(
    ("config", "count"),
    [
        # opt-125m and starcoder2-3b as their checkpoints count, mpt-7b as its model card says.
        ({"model_type": "opt", "num_hidden_layers": 12, "hidden_size": 768, "ffn_dim": 3072,
          "num_attention_heads": 12, "vocab_size": 50272, "max_position_embeddings": 2048},
         125_239_296),
        ({"model_type": "mpt", "n_layers": 32, "d_model": 4096, "n_heads": 32,
          "expansion_ratio": 4, "vocab_size": 50432, "no_bias": True}, 6_649_286_656),
        ({"model_type": "starcoder2", "num_hidden_layers": 30, "hidden_size": 3072,
          "intermediate_size": 12288, "num_attention_heads": 24, "num_key_value_heads": 2,
          "vocab_size": 49152, "use_bias": True, "tie_word_embeddings": True}, 3_030_371_328),
        ({"model_type": "bloom", "n_layer": 24, "hidden_size": 1024, "n_head": 16,
          "vocab_size": 250880}, 559_214_592),
        ({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25,
          "vocab_size": 50257, "n_positions": 1024}, 1_557_611_200),
    ],
)  # fmt: skip
def test_parameter_counts_of_further_model_families(
    registry: Registry, config: dict[str, Any], count: int
) -> None:
    assert parameters(registry, config) == count


def test_state_space_model_type_is_refused() -> None:
    with pytest.raises(InputError, match='models of type "mamba" are not covered'):
        models.from_config({**PLAIN, "model_type": "mamba"})


def test_disabled_sliding_window_is_none() -> None:
    shapes = models.from_config(
        {**PLAIN, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    ).shapes
    assert (shapes["window"], shapes["window_share"]) == (0, 0)


def test_windows_by_pattern_and_by_list() -> None:
    by_pattern = models.find("gemma-3-1b").shapes
    assert by_pattern["window_share"] == pytest.approx(22 / 26)
    by_list = models.find("gpt-oss-120b").shapes
    assert (by_list["window"], by_list["window_share"]) == (128, 0.5)


def test_files_are_read_by_path_and_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**PLAIN, "model_type": "llama"}))
    for path in (folder, folder / "config.json"):
        assert models.from_config(path).shapes["hidden"] == 64
    assert models.from_config(folder / "config.json").name == "tiny"


@pytest.mark.parametrize("content", ["{", "[1]", "\xff"])
def test_invalid_config_files_are_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"config\.json"):
        models.from_config(path)


def test_bare_dimensions_are_read_as_dense_decoder(registry: Registry) -> None:
    model = models.from_dimensions(layers=40, hidden=5120, heads=40, vocabulary=51200)
    assert model.shapes["ffn"] == 4 * 5120
    assert model.shapes["ffn_matrices"] == 2
    assert "four times the width" in model.notes[0]
    found = registry.resolve("architecture.parameters", model.given).value
    assert found == pytest.approx(12.85e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "context"),
    [
        # Model cards and configurations on Hugging Face.
        ("gemma-2b", 8192),
        ("gemma-7b", 8192),
        ("gemma-3-1b", 32768),
        ("mistral-large-2407", 131072),
        ("gpt-oss-120b", 131072),
    ],
)
def test_contexts_are_those_of_the_model_cards(name: str, context: int) -> None:
    assert models.find(name).context == context


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        # Billions, as the model cards and technical reports state them.
        ("gpt-oss-120b", 116.83, 5.13),
        ("gpt-oss-20b", 20.91, 3.61),
        ("deepseek-v3", 671, 37),
        ("deepseek-v2", 236, 21),
        ("mixtral-8x7b", 46.7, 12.9),
        ("mixtral-8x22b", 141, 39),
        ("qwen3-30b-a3b", 30.5, 3.3),
        ("qwen3-235b-a22b", 235, 22),
        ("llama-4-maverick", 400, 17),
        # The published 109 and 1,040 billion count a vision encoder and more.
        ("llama-4-scout", 108, 17),
        ("kimi-k2", 1026, 32),
    ],
)
def test_parameters_are_as_published(
    registry: Registry, name: str, total: float, active: float
) -> None:
    given = models.find(name).given
    found = registry.resolve("architecture.parameters", given).require_value()
    assert found / 1e9 == pytest.approx(total, rel=0.005)
    met = registry.resolve("architecture.active_parameters", given).require_value()
    assert met / 1e9 == pytest.approx(active, rel=0.03)
