"""Layers in host memory: the same outputs from less device memory, copies ahead of their use."""

import numpy as np
import pytest
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.models.offloading import explained
from assay.errors import InputError, OutOfMemoryError
from assay.runtime import device as device_named
from chosen_device import NAME

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
PROMPTS = ["Once upon a time", "there"]
LAYERS = 5


def engine_of(architecture, **options):
    files = synthetic_model(architecture, config={"num_hidden_layers": LAYERS})
    return Engine.load(files, NAME, deterministic=True, **options)


def tokens(engine):
    return [one.token_ids for one in engine.generate(PROMPTS, GREEDY)]


@pytest.mark.parametrize("architecture", ["llama", "qwen3_moe"])
def test_outputs_do_not_depend_on_where_the_layers_are(architecture):
    with engine_of(architecture) as engine:
        expected, logits = tokens(engine), engine.logits("abc")
        assert engine.describe()["offloaded_bytes"] == 0
    for count, more in ((1, {}), (LAYERS, {}), (3, {"graph_buckets": 0}), (4, {"overlap": "on"})):
        with engine_of(architecture, offload_layers=count, **more) as engine:
            assert tokens(engine) == expected
            assert np.array_equal(engine.logits("abc"), logits)
            assert engine.describe()["offloaded_bytes"] > 0
            [note] = [one for one in engine.describe()["notes"] if "host memory" in one]
            assert note.startswith(f"{count} of {LAYERS} layers are copied from host memory")


def test_two_layers_are_on_the_device_and_each_is_copied_while_another_is_computed():
    with engine_of("llama", offload_layers=LAYERS) as engine:
        stream = engine.model.layer_stream
        slots = sum(slot.nbytes for slot in stream._slots.values())
        assert slots * LAYERS == stream.host_bytes * 2
        nodes = engine.operations(1)
    first = {}
    for number, node in enumerate(nodes):
        first.setdefault(".".join(node.label.split(".")[:3]), number)
    for layer in range(2, LAYERS):
        copies = [n for n in nodes if n.label.startswith(f"layers.{layer}.weights")]
        assert sum(copy.bytes for copy in copies) * LAYERS == stream.host_bytes
        # It waits for the layer whose slots it overwrites, and is queued before the layer between.
        waited = [node for copy in copies for node in copy.after]
        assert any(nodes[node].label.startswith(f"layers.{layer - 2}.") for node in waited)
        assert first[f"layers.{layer}.weights"] < first[f"layers.{layer - 1}.attention"]
        used = [node for node in nodes if node.label.startswith(f"layers.{layer}.attention.qkv")]
        awaited = {nodes[one].label.rpartition(".")[0] for one in used[0].after}
        assert f"layers.{layer}.weights" in awaited
        assert f"layers.{layer + 1}.weights" not in awaited


def test_speculation_works_beside_it_and_layer_skip_is_refused():
    with engine_of("llama") as engine:
        expected = tokens(engine)
    with engine_of("llama", offload_layers=2, speculation_depth=3) as engine:
        assert tokens(engine) == expected
        with pytest.raises(InputError, match="expected one beside offload_layers, got layer_skip"):
            engine.configure({"speculation_method": "layer_skip"})
        assert tokens(engine) == expected


def test_more_layers_than_the_model_has_are_refused():
    with pytest.raises(InputError, match="offload_layers: expected at most the model's 2, got 3"):
        fixture_engine("llama", offload_layers=3)


def test_weights_that_do_not_fit_are_refused_with_a_number():
    files = synthetic_model(config={"num_hidden_layers": 10})
    layer = 4 * (256 * (256 + 128 + 128) + 256 * 256 + 3 * 256 * 512)
    others = 4 * 2 * 258 * 256
    error = OutOfMemoryError("no room")
    fits = explained(files, int((others + 6.5 * layer) / 0.85), error)
    assert "offload_layers=6 keeps that many of 10 layers" in fits.hint
    assert "no room" in fits.message
    too_small = explained(files, int((others + 1.5 * layer) / 0.85), error)
    assert "even with all 10 layers in host memory" in too_small.hint


def test_an_engine_without_memory_says_how_many_layers_to_offload():
    tenant = device_named(NAME).tenant("small", 1 << 20)
    files = synthetic_model(seed=3, config={"num_hidden_layers": 4})
    with tenant, pytest.raises(OutOfMemoryError, match="GB of weights") as raised:
        Engine.load(files, NAME)
    assert "offload_layers=" in raised.value.hint
