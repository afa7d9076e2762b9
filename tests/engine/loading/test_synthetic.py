"""Synthetic models: reproducible, labeled as synthetic, of every architecture."""

import hashlib
import math

import numpy as np
import pytest

from assay.engine.loading import open_model
from assay.engine.loading.configuration import SCHEMAS
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import AssayError


def philox(key: int, blocks: int) -> list[int]:
    """Philox4x64-10 of Salmon et al., SC11, counting from 1 as NumPy does."""
    mask, found = 2**64 - 1, []
    for block in range(1, blocks + 1):
        a, b, c, d = block, 0, 0, 0
        left, right = key & mask, key >> 64
        for _ in range(10):
            first, second = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
            a, b, c, d = (
                (second >> 64) ^ b ^ left,
                second & mask,
                (first >> 64) ^ d ^ right,
                first & mask,
            )
            left, right = left + 0x9E3779B97F4A7C15 & mask, right + 0xBB67AE8584CAA73B & mask
        found += [a, b, c, d]
    return found


def test_weights_are_those_of_the_philox_generator() -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    key = int.from_bytes(hashlib.sha256(f"3 {name}".encode()).digest()[:16], "little")
    bound = math.sqrt(3 / 256)
    expected = [((bits >> 40) / 2**23 - 1) * bound for bits in philox(key, 4)]
    values = synthetic_model(seed=3).tensors[name].to_float32().reshape(-1)[:16]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize("architecture", SCHEMAS)
def test_weights_keep_activations_at_unit_variance(architecture: str) -> None:
    model = synthetic_model(architecture)
    for name, tensor in model.tensors.items():
        values = tensor.to_float32()
        assert np.isfinite(values).all()
        if values.ndim == 2:
            # 1 / sqrt(inputs): a dot product of unit-variance inputs has unit variance.
            tolerance = 0.02 + values.size**-0.5
            assert values.std() * values.shape[1] ** 0.5 == pytest.approx(1, rel=tolerance), name
            assert abs(values.mean()) < tolerance


def test_seed_and_configuration_change_the_model() -> None:
    name = "model.norm.weight"
    first, second = synthetic_model(seed=0), synthetic_model(seed=1)
    assert bytes(first.tensors[name].bytes) != bytes(second.tensors[name].bytes)
    assert first.name != second.name
    wide = synthetic_model("qwen3", config={"hidden_size": 512, "num_hidden_layers": 1})
    assert wide.tensors["model.layers.0.self_attn.q_proj.weight"].shape == (256, 512)
    assert not any("layers.1." in name for name in wide.tensors)


def test_model_is_labeled_synthetic() -> None:
    model = open_model("synthetic")
    assert model.synthetic
    assert model.path is None
    assert any("means nothing" in note for note in model.notes)


def test_invalid_configurations_are_refused() -> None:
    with pytest.raises(AssayError, match="num_key_value_heads 3"):
        synthetic_model(config={"num_key_value_heads": 3})
    with pytest.raises(AssayError, match='"t5"'):
        synthetic_model("t5")
