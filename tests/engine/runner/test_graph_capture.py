"""Graph capture of steps: what capture relies on, and the fallback where it fails."""

import numpy as np
import pytest
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.runner import graph_capture
from assay.errors import DeviceError
from assay.runtime import capture_graph
from chosen_device import NAME

GREEDY = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
PROMPT = list(range(3, 20))


def graphs(engine):
    """The graph replays among the records: name and number of each."""
    engine.device.synchronize()
    records = engine.device.take_records().records
    return [(one.name, one.graph) for one in records if one.kind == "graph"]


def test_one_graph_serves_all_context_lengths():
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
        # Sequence lengths are read from device memory: the same graph served one to three blocks.
        assert engine.device.pool_statistics() == before


def test_capture_writes_neither_cache_nor_outputs():
    with fixture_engine("llama", overlap="off") as engine:
        engine.generate([PROMPT], GREEDY)
        kv, outputs = engine._state.kv.memory, engine._state.runner.workspace.outputs
        before = [np.array(one.to_numpy(), copy=True).tobytes() for one in (kv, *outputs)]
        engine._state.runner.close()
        for sequences in (1, 2, 3):
            engine.operations(sequences)
        assert [one.to_numpy().tobytes() for one in (kv, *outputs)] == before


def test_warming_up_runs_nothing_and_leaves_steps_as_they_are():
    with fixture_engine("llama") as engine:
        [cold] = engine.generate([PROMPT], GREEDY)
    with fixture_engine("llama") as engine:
        engine.device.take_records()
        engine.warm_up()
        assert not [one for one in engine.device.take_records().records if one.kind == "launch"]
        sizes = {key[0].num_seqs for key in engine._state.runner._graphs._programs}
        assert {1, 2, 4, 8} <= sizes
        [warm] = engine.generate([PROMPT], GREEDY)
    assert warm.token_ids == cold.token_ids


def test_captured_and_queued_steps_run_the_same_operations():
    with fixture_engine("llama", overlap="off", deterministic=True) as engine:
        [captured] = engine.generate([PROMPT], GREEDY)
        names = [node.label for node in engine.operations()]
        engine.configure({"graph_buckets": 0})
        engine.add_request(PROMPT, GREEDY)
        tokens = [token for one in engine.step() for token in one.token_ids]
        engine.device.take_records()
        tokens += [token for one in engine.step() for token in one.token_ids]
        launched = [
            one.name for one in engine.device.take_records().records if one.kind == "launch"
        ]
        assert launched == names
        while engine.has_work:
            tokens += [token for one in engine.step() for token in one.token_ids]
        assert tuple(tokens) == captured.token_ids


def test_every_node_has_a_unique_label_and_an_operation():
    with fixture_engine("llama") as engine:
        nodes = engine.operations()
        layers = engine.model.shape.layers
    found = {node.label: node.operation for node in nodes}
    assert len(found) == len(nodes), "labels are unique"
    assert None not in found.values()
    for layer in range(layers):
        for layer_name in ("attention.qkv", "attention.output", "mlp.down"):
            assert found[f"layers.{layer}.{layer_name}"] == "linear"
        attention = found[f"layers.{layer}.attention.paged"]
        assert attention in ("paged_attention", "decode_attention")
    assert found["sample"] == "sample"


def test_uploads_cannot_be_captured():
    with fixture_engine("llama") as engine:
        workspace = engine._state.runner.workspace

        def upload():
            engine.device.upload("step_inputs", workspace.staging, workspace.inputs[0].buffer, 0)

        with pytest.raises(DeviceError, match="copy from the host"):
            capture_graph(upload, device=engine.device)


def test_step_runs_without_a_graph_where_capture_fails(monkeypatch, caplog):
    with fixture_engine("llama", deterministic=True) as engine:
        [expected] = engine.generate([PROMPT], GREEDY)

    def refuse(*_, **__):
        raise DeviceError("capture: expected a device that captures, got one that does not")

    monkeypatch.setattr(graph_capture, "capture_graph", refuse)
    with fixture_engine("llama", deterministic=True) as engine:
        [got] = engine.generate([PROMPT], GREEDY)
        degradations = engine.describe()["degradations"]
    assert got.token_ids == expected.token_ids
    assert degradations[0].startswith(
        "step.18x1x1 runs without a graph: capture: expected a device"
    )
    # Two step shapes fail for one reason, which is logged once.
    assert len(degradations) > 1
    assert [one.getMessage() for one in caplog.records] == degradations[:1]


@pytest.mark.parametrize(("buckets", "sizes"), [(8, {3}), (1, {4})])
def test_graph_buckets_set_the_padding(buckets, sizes):
    with fixture_engine("llama", graph_buckets=buckets) as engine:
        for _ in range(3):
            engine.add_request(PROMPT, GREEDY)
        engine.step()
        engine.device.take_records()
        engine.step()
        assert {int(name.split(".")[1].split("x")[0]) for name, _ in graphs(engine)} == sizes


def test_a_step_in_parts_is_the_same_step():
    with fixture_engine("llama", overlap="off", deterministic=True) as engine:
        [whole] = engine.generate([PROMPT], GREEDY)
        labels = [node.label for node in engine.operations()]
        layers = engine.model.shape.layers
        engine.configure({"graphs_per_step": layers})
        engine.device.take_records()
        [split] = engine.generate([PROMPT], GREEDY)
        assert split.token_ids == whole.token_ids
        replayed = graphs(engine)
        assert len(replayed) == GREEDY.max_tokens * layers
        assert {name.rpartition(".")[2] for name, _ in replayed} == {
            str(part) for part in range(layers)
        }
        # The listing of operations is of the whole step.
        assert [node.label for node in engine.operations()] == labels
        engine.configure({"graphs_per_step": 64})
        assert engine.generate([PROMPT], GREEDY)[0].token_ids == whole.token_ids


def test_padding_rows_have_no_experts() -> None:
    """Nine sequences run in a step of ten rows: the tenth reads no expert's weights."""
    prompts = [[number + 1, 2, 3] for number in range(9)]
    params = SamplingParams(max_tokens=3, temperature=0.0, ignore_eos=True)
    with Engine.load(synthetic_model("qwen3_moe"), NAME, deterministic=True) as engine:
        together = [one.token_ids for one in engine.generate(prompts, params)]
        chosen = engine.routed_experts(10)
        alone = [engine.generate([prompt], params)[0].token_ids for prompt in prompts]
    assert set(chosen[9]) == {-1}
    assert min(min(row) for row in chosen[:9]) >= 0
    assert together == alone
