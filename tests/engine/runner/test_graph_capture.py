"""What a captured step may rely on, one condition a test; and what happens where it cannot be."""

import numpy as np
import pytest
from small_models import fixture_engine

from assay.engine import SamplingParams
from assay.engine.runner import model_runner
from assay.errors import DeviceError
from assay.runtime import capture_graph

GREEDY = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
PROMPT = list(range(3, 20))


def graphs(engine):
    """The replays among the records: name and number of each graph."""
    engine.device.synchronize()
    records = engine.device.take_records().records
    return [(one.name, one.graph) for one in records if one.kind == "graph"]


def test_steps_of_one_size_are_one_graph_whatever_the_length():
    with fixture_engine("llama", overlap="off") as engine:
        engine.add_request(PROMPT, GREEDY)
        engine.step()
        engine.device.take_records()
        before = engine.device.pool_statistics()
        while engine.has_work:
            engine.step()
        replayed = graphs(engine)
        assert len(replayed) == 19
        assert len(set(replayed)) == 1
        # Lengths are read from memory: the same graph went from one block to three.
        assert engine.device.pool_statistics() == before


def test_capturing_touches_neither_cache_nor_outputs():
    with fixture_engine("llama", overlap="off") as engine:
        engine.generate([PROMPT], GREEDY)
        kv, outputs = engine._parts.kv.memory, engine._parts.runner.workspace.outputs
        before = [np.array(one.to_numpy(), copy=True).tobytes() for one in (kv, *outputs)]
        engine._parts.runner.close()
        for sequences in (1, 2, 3):
            engine.operations(sequences)
        assert [one.to_numpy().tobytes() for one in (kv, *outputs)] == before


def test_captured_and_queued_steps_are_the_same_operations():
    with fixture_engine("llama", overlap="off", deterministic=True) as engine:
        [captured] = engine.generate([PROMPT], GREEDY)
        names = [node.label for node in engine.operations()]
        engine.configure({"graph_buckets": 0})
        engine.add_request(PROMPT, GREEDY)
        said = [token for one in engine.step() for token in one.token_ids]
        engine.device.take_records()
        said += [token for one in engine.step() for token in one.token_ids]
        launched = [
            one.name for one in engine.device.take_records().records if one.kind == "launch"
        ]
        assert launched == names
        while engine.has_work:
            said += [token for one in engine.step() for token in one.token_ids]
        assert tuple(said) == captured.token_ids


def test_every_node_is_mapped_to_what_it_computes_of_the_model_and_by_which_operation():
    with fixture_engine("llama") as engine:
        nodes = engine.operations()
        layers = engine.model.shape.layers
    found = {node.label: node.operation for node in nodes}
    assert len(found) == len(nodes), "no two nodes have one name"
    assert None not in found.values()
    for layer in range(layers):
        for part in ("attention.qkv", "attention.output", "mlp.down"):
            assert found[f"layers.{layer}.{part}"] == "linear"
        attended = found[f"layers.{layer}.attention.paged"]
        assert attended in ("paged_attention", "decode_attention")
    assert found["sample"] == "sample"


def test_inputs_are_uploaded_before_a_replay_never_inside_a_graph():
    with fixture_engine("llama") as engine:
        workspace = engine._parts.runner.workspace

        def upload():
            engine.device._context.upload(
                "step_inputs", workspace.staging, workspace.inputs[0].buffer, 0
            )

        with pytest.raises(DeviceError, match="copy from the host"):
            capture_graph(upload, device=engine.device)


def test_a_step_that_cannot_be_captured_runs_all_the_same_and_says_so(monkeypatch, caplog):
    with fixture_engine("llama", deterministic=True) as engine:
        [expected] = engine.generate([PROMPT], GREEDY)

    def refuse(*_, **__):
        raise DeviceError("capture: expected a device that captures, got one that does not")

    monkeypatch.setattr(model_runner, "capture_graph", refuse)
    with fixture_engine("llama", deterministic=True) as engine:
        [got] = engine.generate([PROMPT], GREEDY)
        told = engine.describe()["degradations"]
    assert got.token_ids == expected.token_ids
    assert told[0].startswith("step.18x1x1 runs without a graph: capture: expected a device")
    # One reason, told once to whoever looks at the log, for two sizes of step.
    assert len(told) > 1
    assert [one.getMessage() for one in caplog.records] == told[:1]


@pytest.mark.parametrize(("buckets", "sizes"), [(8, {3}), (1, {4})])
def test_buckets_decide_how_far_steps_are_padded(buckets, sizes):
    with fixture_engine("llama", graph_buckets=buckets) as engine:
        for _ in range(3):
            engine.add_request(PROMPT, GREEDY)
        engine.step()
        engine.device.take_records()
        engine.step()
        assert {int(name.split(".")[1].split("x")[0]) for name, _ in graphs(engine)} == sizes
