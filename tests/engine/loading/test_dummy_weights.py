"""Models of a published shape with dummy weights."""

import os

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading import dummy_weights, open_model

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 300,
    "max_position_embeddings": 128,
}


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    shape = dummy_weights.SHAPES["llama-3-8b-shape"] | SMALL
    monkeypatch.setitem(dummy_weights.SHAPES, "small-shape", shape)
    return tmp_path


def test_random_file_is_generated_once_and_mapped_by_every_matrix(small):
    files = open_model("small-shape")
    [random_file] = (small / "cache" / "patterns").iterdir()
    before = os.stat(random_file)
    assert before.st_size == 300 * 64 * 2
    again = open_model("small-shape")
    assert os.stat(random_file).st_mtime_ns == before.st_mtime_ns
    values_in_file = np.frombuffer(random_file.read_bytes(), np.uint16)
    for name, tensor in files.tensors.items():
        assert tensor.to_float32().tobytes() == again.tensors[name].to_float32().tobytes()
        if len(tensor.shape) == 2:
            assert np.isin(np.frombuffer(tensor.bytes, np.uint16), values_in_file).all()
    values = files.tensors["model.embed_tokens.weight"].to_float32()
    assert abs(values.mean()) < 0.01
    # The standard deviation that keeps dot products of this length at unit variance.
    assert values.std() == pytest.approx(64**-0.5, rel=0.02)
    assert np.abs(values).max() <= (3 / 64) ** 0.5 * 1.01


def test_dummy_model_generates_tokens(small):
    with Engine.load("small-shape") as engine:
        params = SamplingParams(max_tokens=8, temperature=0.0)
        [answer] = engine.generate(["abc"], params)
        assert len(answer.token_ids) == 8
        assert engine.describe()["weight_format"] == "bf16"
