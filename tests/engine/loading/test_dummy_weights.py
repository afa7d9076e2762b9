"""Models of a published shape with dummy weights."""

import math
import os

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading import dummy_weights, open_model
from assay.engine.loading.configuration import validated
from assay.engine.loading.description import describe_model
from assay.engine.loading.dummy_checkpoint import write_checkpoint
from assay.engine.loading.tensor_shapes import expected_shapes

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


def test_checkpoint_is_rewritten_where_it_is_not_as_plain_as_asked(small):
    folder = small / "checkpoint"

    def written(plain):
        write_checkpoint(folder, "small-shape", plain=plain)
        [shard] = folder.glob("*.safetensors")
        return shard.read_bytes(), shard.stat().st_mtime_ns

    random, _ = written(plain=False)
    plain, time = written(plain=True)
    assert plain != random
    assert written(plain=True) == (plain, time), "kept"
    assert written(plain=False)[0] == random


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


@pytest.mark.parametrize("name", dummy_weights.SHAPES)
def test_every_shape_has_as_many_parameters_as_the_model_it_is_named_for(name: str) -> None:
    published = {"llama-3-8b-shape": 8_030_261_248, "qwen3-30b-a3b-shape": 30_532_122_624}
    config = dict(dummy_weights.SHAPES[name])
    architecture = config.pop("model_type")
    shapes = expected_shapes(architecture, validated(name, architecture, config)[0])
    assert sum(math.prod(shape) for shape in shapes.values()) == published[name]
    assert describe_model(name).model.shapes["layers"] == config["num_hidden_layers"]


def test_mixture_of_experts_streams_the_experts_that_a_step_touches(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    shape = dummy_weights.SHAPES["qwen3-30b-a3b-shape"] | SMALL | experts
    monkeypatch.setitem(dummy_weights.SHAPES, "small-moe-shape", shape)
    with Engine.load("small-moe-shape") as engine:
        model = engine.model
        one_expert = 2 * 3 * 64 * 32 * 2  # layers, matrices, elements, bytes
        everything = model.weight_bytes - model.embedding.nbytes
        assert model.step_bytes(8) == everything
        assert model.streamed_bytes == everything - 6 * one_expert
        engine.generate(["abc"], SamplingParams(max_tokens=4, temperature=0.0))
        [chosen] = engine.routed_experts(1)
        assert len(set(chosen)) == 2
        assert all(0 <= expert < 8 for expert in chosen)
