"""GGUF files of every architecture, written by the reference writer and opened as models."""

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_models import ARCHITECTURES, permute, small, write

from assay.engine.loading import open_model
from assay.errors import AssayError, InputError, UnsupportedError


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_converted_model_equals_its_source(architecture: str, tmp_path: Path) -> None:
    source = small(architecture)
    path = tmp_path / "model.gguf"
    write(path, source)
    model = open_model(path)
    assert model.architecture == architecture
    assert set(model.tensors) == set(source.tensors)
    shared = set(source.config) & set(model.config) - {"n_inner"}
    for key in shared:
        expected = source.config[key]
        if isinstance(expected, float):
            expected = pytest.approx(expected, rel=1e-6)
        assert model.config[key] == expected, key
    for name, tensor in model.tensors.items():
        values = source.tensors[name].to_float32()
        if tensor.permuted:
            heads = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            values = permute(values, source.config[heads])
        np.testing.assert_array_equal(tensor.to_float32(), values)
    assert model.tokenizer.encode("abxy<|end|>") == [256, ord("a"), ord("b"), 258, 257]


def test_permuted_rows_use_interleaved_rope(tmp_path: Path) -> None:
    source = small("llama")
    path = tmp_path / "model.gguf"
    write(path, source)
    model = open_model(path)
    assert (source.rope_pairs, model.rope_pairs) == ("half", "interleaved")
    name = "model.layers.0.self_attn.k_proj.weight"
    size = model.config["head_dim"]
    angles = 3 / 10000 ** (np.arange(0, size, 2) / size)
    cosine, sine = np.cos(angles), np.sin(angles)
    x = np.linspace(-1, 1, model.config["hidden_size"])

    half = (source.tensors[name].to_float32() @ x).reshape(-1, 2, size // 2)
    first, second = half[:, 0], half[:, 1]
    rotated = np.stack([first * cosine - second * sine, second * cosine + first * sine], axis=-1)

    pairs = (model.tensors[name].to_float32() @ x).reshape(-1, size // 2, 2)
    left, right = pairs[..., 0], pairs[..., 1]
    neighbors = np.stack([left * cosine - right * sine, right * cosine + left * sine], axis=-1)
    np.testing.assert_allclose(neighbors, rotated, rtol=1e-12)


def test_output_matrix_unties_the_embeddings(tmp_path: Path) -> None:
    source = small("llama")
    write(tmp_path / "own.gguf", source)
    write(tmp_path / "tied.gguf", source, leave_out="lm_head")
    own, tied = open_model(tmp_path / "own.gguf"), open_model(tmp_path / "tied.gguf")
    assert not own.config["tie_word_embeddings"]
    assert "lm_head.weight" in own.tensors
    assert tied.config["tie_word_embeddings"]
    assert "lm_head.weight" not in tied.tensors


def test_rope_frequency_factors_are_referenced(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 32, dtype=np.float32)
    path = tmp_path / "model.gguf"
    write(path, small("llama"), extra={"rope_freqs.weight": factors})
    model = open_model(path)
    scaling = model.config["rope_scaling"]
    assert scaling["rope_type"] == "factors"
    np.testing.assert_array_equal(model.tensors[scaling["tensor"]].to_float32(), factors)


def test_rope_factors_of_another_head_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, small("llama"), extra={"rope_freqs.weight": np.ones(31, np.float32)})
    with pytest.raises(InputError, match=r'"rope_freqs.weight" of shape \[32\], got \[31\]'):
        open_model(path)


# The attention factor is llama.cpp's: 0.1 ln(factor) + 1, over 0.1 m ln(factor) + 1 where the file
# has a log multiplier m, times attn_factor.
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "none", "factor": 4.0}, None),
        ({"factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"factor": 0.0}, None),
        ({"type": "yarn", "factor": 4.0}, {}),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 256, "finetuned": True},
            {"original_max_position_embeddings": 256},
        ),
        (
            {"type": "yarn", "factor": 4.0, "attn_factor": 0.5, "yarn_beta_fast": 16.0},
            {"attention_factor": (0.1 * math.log(4) + 1) / 2, "beta_fast": 16.0},
        ),
        (
            {"type": "yarn", "factor": 4.0, "yarn_log_multiplier": 1.0, "yarn_beta_slow": 2.0},
            {"attention_factor": 1.0, "beta_slow": 2.0},
        ),
    ],
)
def test_rope_scaling_is_read(
    changes: dict[str, Any], expected: dict[str, Any] | None, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    model = small("qwen2")
    write(
        path, model, changes={f"qwen2.rope.scaling.{key}": value for key, value in changes.items()}
    )
    if expected is not None and "rope_type" not in expected:
        expected = {
            "rope_type": "yarn",
            "factor": 4.0,
            "score_factor": 1.0,
            "original_max_position_embeddings": model.config["max_position_embeddings"],
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "attention_factor": 0.1 * math.log(4) + 1,
            "truncate": True,
        } | expected
    assert open_model(path).config["rope_scaling"] == expected


def test_old_key_of_linear_scaling_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, small("llama"), changes={"llama.rope.scale_linear": 2.0})
    assert open_model(path).config["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}


def test_rope_factors_beside_a_scaling_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    factors = {"rope_freqs.weight": np.ones(32, np.float32)}
    write(path, small("llama"), extra=factors, changes={"llama.rope.scaling.factor": 2.0})
    with pytest.raises(UnsupportedError, match="by metadata, got both"):
        open_model(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope.scaling.attn_factor", 2.0),
        ("rope.freq_base_swa", 1e4),
        ("attention.scale", 0.01),
        ("attention.causal", False),
        ("attention.sliding_window_pattern", 6),
        ("attention.indexer.top_k", 8),
        ("attn_logit_softcapping", 50.0),
        ("final_logit_softcapping", 30.0),
        ("logit_scale", 0.0625),
        ("embedding_scale", 12.0),
        ("residual_scale", 0.22),
        ("expert_count", 8),
        ("expert_weights_norm", True),
    ],
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_keys_that_would_change_logits_are_refused(
    architecture: str, key: str, value: Any, tmp_path: Path
) -> None:
    if (architecture, key) == ("llama", "expert_count"):
        pytest.skip("a file of Mixtral says llama: test_gguf_architectures.py")
    path = tmp_path / "model.gguf"
    write(path, small(architecture), changes={f"{architecture}.{key}": value})
    with pytest.raises(UnsupportedError, match=f"{architecture}.{key}"):
        open_model(path)


@pytest.mark.parametrize("name", ["yarn_attn_factor", "yarn_ext_factor"])
def test_factors_that_llama_cpp_and_transformers_read_differently_are_refused(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    scaling = {"type": "yarn", "factor": 4.0, name: 2.0}
    changes = {f"llama.rope.scaling.{key}": value for key, value in scaling.items()}
    write(path, small("llama"), changes=changes)
    with pytest.raises(UnsupportedError, match=name):
        open_model(path)


def test_neutral_and_unknown_keys(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    changes = {"llama.expert_count": 0, "llama.logit_scale": 1.0, "llama.vocab_size": 259}
    write(path, small("llama"), changes=changes | {"llama.dataset": "papers"})
    notes = [note for note in open_model(path).notes if "unknown" in note]
    assert notes == ["model.gguf: unknown keys, not used: llama.dataset"]


def test_sliding_window_of_the_file_is_used(tmp_path: Path) -> None:
    for window in (None, 0, 128):
        path = tmp_path / f"{window}.gguf"
        write(path, small("llama"), changes={"llama.attention.sliding_window": window})
        config = open_model(path).config
        assert config["sliding_window"] == (window or None)


@pytest.mark.parametrize(
    "key",
    [
        "llama.embedding_length",
        "llama.block_count",
        "llama.context_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ],
)
def test_missing_key_is_named(key: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, small("llama"), changes={key: None})
    with pytest.raises(InputError, match=f'metadata key "{key}", got none'):
        open_model(path)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"llama.block_count": "two"}, "llama.block_count as int"),
        ({"llama.block_count": 3}, "model.layers.2"),
        ({"llama.block_count": 2**31 - 1}, "2147483647 layers"),
        ({"llama.block_count": 1}, "model.layers.1"),
        ({"llama.embedding_length": 128}, "shape"),
        ({"llama.attention.head_count": 0}, "num_attention_heads"),
        ({"llama.attention.head_count_kv": 3}, "multiple of num_key_value_heads 3"),
        ({"llama.rope.dimension_count": 32}, "llama.rope.dimension_count 64"),
        ({"llama.attention.layer_norm_rms_epsilon": 0.0}, "rms_norm_eps"),
        ({"llama.rope.scaling.type": "su"}, "llama.rope.scaling.type"),
    ],
)
def test_invalid_metadata_is_refused(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write(path, small("llama"), changes=changes)
    with pytest.raises(AssayError, match=named):
        open_model(path)


def test_unknown_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    extra = {"blk.0.attn_sinks.weight": np.zeros(4, np.float32)}
    write(path, small("llama"), extra=extra)
    with pytest.raises(AssayError, match=r'got "blk\.0\.attn_sinks\.weight"'):
        open_model(path)


def test_unknown_architectures_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(AssayError, match='"mamba"') as caught:
        open_model(tmp_path / "model.gguf")
    assert "llama" in str(caught.value.hint)
