"""Predicted nodes beside observed ones: exact times of traces that were written by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import hand_graphs
import pytest
from decode_traces import AFTER, BEFORE, LAYER, config, replayed
from simulated_machine import Machine

import assay
from assay.diagnose.critical_path.path import critical_path
from assay.diagnose.diagnosis import Diagnosis
from assay.diagnose.examination import examine
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.request import Request
from assay.diagnose.step_nodes import StepNode, step_nodes
from assay.observe.importers.detect import open_trace
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import recover
from assay.observe.trace import Trace
from assay.planner import hardware_spec, model_spec
from assay.planner.graph import Graph, Node

OPERATIONS = (
    "input_norm", "qkv_proj", "rope", "kv_cache_write", "attention", "o_proj",
    "post_attention_norm", "gate_up_proj", "activation", "down_proj",
)  # fmt: skip


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder: Path = tmp_path_factory.mktemp("nodes")
    shapes = str(config(folder))
    recovered = recover(open_trace(replayed().save(folder / "trace.json")), read_layout(shapes))
    request = Request(model_spec(shapes), hardware_spec("h200_sxm"), "vllm", context=64)
    return examine(recovered, request, "trace.json")


def test_each_operation_of_each_layer_has_the_time_of_its_kernel(diagnosis: Diagnosis) -> None:
    nodes = {(one.operation, one.layer): one for one in diagnosis.nodes()}
    for layer in range(8):
        for operation, (_, took, _) in zip(OPERATIONS, LAYER, strict=True):
            node = nodes[operation, layer]
            assert (node.observed_ns, node.kernels) == (took, 1)
            assert node.expected_ns is not None
            assert node.residual_ns == pytest.approx(took - node.expected_ns)
    assert nodes["embedding", None].observed_ns == BEFORE[0][1]
    assert nodes["lm_head", None].observed_ns == AFTER[1][1]
    # Kernels of a layer follow each other with 600 ns between.
    first = nodes["input_norm", 3].start_ns
    assert first is not None
    assert nodes["qkv_proj", 3].start_ns == first + LAYER[0][1] + 600


def test_parts_of_the_nodes_add_up_to_the_waterfall(diagnosis: Diagnosis) -> None:
    sums: Counter[str] = Counter()
    for node in diagnosis.nodes():
        sums.update(node.terms)
    waterfall = diagnosis.residuals.waterfall
    assert dict(sums) == {term.name: term.ns for term in waterfall.terms if term.ns}
    data = diagnosis.to_json()["nodes"]
    assert [one["operation"] for one in data] == [one.operation for one in diagnosis.nodes()]


def test_what_was_predicted_and_did_not_run_says_so(diagnosis: Diagnosis) -> None:
    absent = {one.operation for one in diagnosis.nodes() if one.start_ns is None}
    assert absent == {"prepare_inputs", "select_logits"}
    for node in diagnosis.nodes():
        if node.operation in absent:
            assert (node.observed_ns, node.residual_ns, node.terms) == (None, None, {})


def rows(trace: Trace, graph: Graph) -> list[StepNode]:
    found = assay.residuals(trace, graph)
    return step_nodes(MechanismView(found, graph, critical_path(trace)))


def test_order_is_the_predictions_with_the_rest_where_it_ran() -> None:
    trace = Machine(graph=True, behind=1).run()
    known = {"attention": 5_000.0, "down_proj": 15_000.0}
    names = [(one.operation, one.layer) for one in rows(trace, hand_graphs.graph_of(trace, known))]
    place = names.index(("attention", 1))
    assert names[place + 1] == ("gate_up_proj", 1)
    assert names.index(("down_proj", 1)) == place + 2


def test_fused_and_separate_kernels_are_one_row() -> None:
    trace = Machine(graph=True, behind=1).run()
    nodes = [hand_graphs.node("gate_up_proj+down_proj", layer, 40_000.0) for layer in range(2)]
    found = {(one.operation, one.layer): one for one in rows(trace, hand_graphs.graph(nodes))}
    fused = found["gate_up_proj+down_proj", 0]
    assert fused.kernels == 2
    assert fused.expected_ns == 50_000
    machine = Machine()
    assert fused.observed_ns == machine.kernel_ns["gate_up_proj"] + machine.kernel_ns["down_proj"]


def test_predicted_starts_follow_streams_and_dependencies() -> None:
    trace = Machine(graph=True, behind=1).run()
    nodes: list[Node] = [
        hand_graphs.node("attention", 0, 80.0, 100.0),
        hand_graphs.node("gate_up_proj", 0, 400.0, 500.0, stream=1),
        hand_graphs.node("down_proj", 0, 10.0, 20.0, dependencies=("layers.0.gate_up_proj",)),
    ]
    found = {one.operation: one for one in rows(trace, hand_graphs.graph(nodes)) if one.layer == 0}
    starts = {name: found[name].predicted_start_ns for name in found}
    assert starts == {"attention": 0, "gate_up_proj": 0, "down_proj": 500}


def test_nothing_predicted_gives_no_nodes() -> None:
    trace = Machine(graph=True, behind=1).run()
    found = assay.residuals(trace, ())
    assert step_nodes(MechanismView(found, found.graph, critical_path(trace))) == []
