"""Models of a published shape with a random pattern for weights."""

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


def test_the_pattern_is_made_once_and_cut_for_every_matrix(small):
    files = open_model("small-shape")
    [pattern] = (small / "cache" / "patterns").iterdir()
    made = os.stat(pattern)
    assert made.st_size == 300 * 64 * 2
    again = open_model("small-shape")
    assert os.stat(pattern).st_mtime_ns == made.st_mtime_ns
    whole = np.frombuffer(pattern.read_bytes(), np.uint16)
    for name, tensor in files.tensors.items():
        assert tensor.to_float32().tobytes() == again.tensors[name].to_float32().tobytes()
        if len(tensor.shape) == 2:
            assert np.isin(np.frombuffer(tensor.bytes, np.uint16), whole).all()
    values = files.tensors["model.embed_tokens.weight"].to_float32()
    assert abs(values.mean()) < 0.01
    # Uniform numbers of this bound have the deviation that keeps sums of so many products at one.
    assert values.std() == pytest.approx(64**-0.5, rel=0.02)
    assert np.abs(values).max() <= (3 / 64) ** 0.5 * 1.01


def test_it_can_be_served(small):
    with Engine.load("small-shape") as engine:
        params = SamplingParams(max_tokens=8, temperature=0.0)
        [answer] = engine.generate(["abc"], params)
        assert len(answer.token_ids) == 8
        assert engine.describe()["weight_format"] == "bf16"
