"""Causes of traces whose gaps and kernels are known to the nanosecond."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from decode_traces import KERNELS, config, eager, replayed

from assay.diagnose.attribution import attribute
from assay.diagnose.critical_path.path import critical_path
from assay.diagnose.delays.records import DelayExperiment
from assay.diagnose.examination import examine
from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.catalog import MECHANISMS
from assay.diagnose.mechanisms.findings import MechanismClaim
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.request import Request
from assay.observe.importers.detect import open_trace
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import recover
from assay.observe.telemetry import reading
from assay.planner import hardware_spec, model_spec

KINDS = {"eager": eager, "graph": replayed}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was written, and its diagnosis, for both ways to launch."""
    results: dict[str, Any] = {}
    for name, make in KINDS.items():
        folder = tmp_path_factory.mktemp(name)
        made = make()
        model = config(folder)
        recovered = recover(open_trace(made.save(folder / "t.json")), read_layout(model))
        request = Request(model_spec(model), hardware_spec("h200"), context=128)
        results[name] = (made, examine(recovered, request, name))
    return results


def causes_of(diagnosis: Any) -> dict[str, Any]:
    return {one.name: one for one in diagnosis.causes}


def test_host_launch_is_the_idle_time_of_an_eager_step(found: Any) -> None:
    made, diagnosis = found["eager"]
    step = diagnosis.residuals.waterfall.step
    idle = made.step_ns()[step] - made.busy_ns(step)
    first = diagnosis.causes.causes[0]
    assert first.name == "host launch"
    assert first.ns_per_token == pytest.approx(idle, rel=1e-6)
    assert first.lo <= first.ns_per_token <= first.hi


def test_profiler_overhead_is_a_part_of_host_launch(found: Any) -> None:
    _, diagnosis = found["eager"]
    overhead = causes_of(diagnosis)["profiler overhead"]
    assert overhead.within == "host launch"
    assert overhead.status == "cannot be told apart from host launch"
    assert "records of the host" in overhead.evidence[0].statement


@pytest.mark.parametrize("kind", KINDS)
def test_causes_sum_to_the_step_less_its_floor(found: Any, kind: str) -> None:
    made, diagnosis = found[kind]
    waterfall = diagnosis.residuals.waterfall
    terms = {term.name: term.ns for term in waterfall.terms}
    assert sum(terms.values()) == waterfall.observed_ns == made.step_ns()[waterfall.step]
    own = [one for one in diagnosis.causes if not one.within and not one.beyond_step]
    explained = sum(one.ns_per_token for one in own)
    assert explained == pytest.approx(waterfall.observed_ns - terms["floor"], abs=1)
    assert all(
        one.status.startswith(
            ("established by experiment", "supported", "cannot be told apart from")
        )
        for one in diagnosis.causes
    )


def test_gaps_between_graph_nodes_are_counted(found: Any) -> None:
    _, diagnosis = found["graph"]
    cause = causes_of(diagnosis)["CUDA-graph node gaps"]
    assert cause.ns_per_token == 600 * (len(KERNELS) - 1)
    assert cause.part_of == ("launch_gaps",)


def test_kernels_go_to_the_mechanism_of_their_operation(found: Any) -> None:
    _, diagnosis = found["graph"]
    causes = causes_of(diagnosis)
    floor = {one["operation"]: one["floor_ns"] for one in diagnosis.to_json()["operations"]}
    attention = causes["KV cache reads"], causes["attention kernel latency"]
    above = 8 * 6_000 - floor["attention"]
    assert sum(one.ns_per_token for one in attention) == pytest.approx(above, abs=10)
    gemms = {"qkv_proj": 5_000, "o_proj": 4_000, "gate_up_proj": 20_000, "down_proj": 11_000}
    over = sum(8 * took - floor[name] for name, took in gemms.items())
    over += 36_000 - floor["lm_head"]
    assert causes["small-batch GEMM inefficiency"].ns_per_token == pytest.approx(over, abs=50)
    # Bytes of the KV cache arrive as those of weights do; the rest is not theirs.
    slower = over / sum(floor[name] for name in (*gemms, "lm_head"))
    reads = slower * floor["attention"]
    assert causes["KV cache reads"].ns_per_token == pytest.approx(reads, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_no_interval_has_two_causes(found: Any, kind: str) -> None:
    _, diagnosis = found[kind]
    view = MechanismView(diagnosis.residuals, diagnosis.graph, diagnosis.path)
    taken = np.zeros(view.intervals.height)
    for mechanism in MECHANISMS:
        finding = mechanism.find(view)
        if isinstance(finding, MechanismClaim) and not finding.within:
            taken += finding.share * finding.intervals
    assert taken.max() == pytest.approx(1)
    assert not (taken[view.of_terms("floor")]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_rows_are_events_of_the_step(found: Any, kind: str) -> None:
    _, diagnosis = found[kind]
    events = diagnosis.residuals.trace.events
    for cause in diagnosis.causes:
        rows = [row for one in cause.evidence for row in one.rows]
        assert all(0 <= row < events.height for row in rows)
    gemms = causes_of(diagnosis)["small-batch GEMM inefficiency"].evidence[0].rows
    names = events["name"].cast(pl.String).gather(list(gemms))
    assert names.str.starts_with("nvjet").all()


def test_what_needs_telemetry_is_said(found: Any) -> None:
    _, diagnosis = found["graph"]
    for name in ("noisy neighbor", "host CPU starvation", "pre-emption", "fragmentation"):
        assert any(
            note.startswith(f"{name} not examined: needs") for note in diagnosis.degradations
        )


def _delayed(operation: str, slope: float, verdict: str) -> DelayExperiment:
    return DelayExperiment(
        operation, operation, ("node",), slope, slope - 0.1, slope + 0.1, verdict, (5_000,),
        (5_100.0,), (5_100.0 * slope,), 40, 40, 10,
    )  # fmt: skip


def test_an_experiment_establishes_a_cause(found: Any) -> None:
    _, diagnosis = found["graph"]
    residuals, graph = diagnosis.residuals, diagnosis.graph
    tests = (_delayed("attention", 0.98, "critical"), _delayed("sampling", 0.02, "hidden"))
    causes = attribute(residuals, graph, path=diagnosis.path, experiments=tests)
    named = {one.name: one for one in causes}
    assert named["KV cache reads"].status == "established by experiment"
    assert named["KV cache reads"].evidence[-1].source == "experiment"
    assert named["sampling"].status == "supported"
    assert "slope of 0.02" in named["sampling"].evidence[-1].statement
    assert "hidden" in named["sampling"].evidence[-1].statement


def telemetry(diagnosis: Any, **fields: Any) -> pl.DataFrame:
    """A sample at the start of each step."""
    steps = diagnosis.residuals.trace.steps.sort("start_ns")
    rows = [
        {
            **dict.fromkeys(reading.columns()),
            "realtime_ns": start,
            "monotonic_ns": start,
            "device": "d",
            "index": 0,
            **{name: value[number] if isinstance(value, list) else value
               for name, value in fields.items()},
        }
        for number, start in enumerate(steps["start_ns"].to_list())
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=reading.columns())


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every other step has kernels that are 40 us longer in all."""
    folder = tmp_path_factory.mktemp("uneven")
    made = replayed(steps=40)
    per_step = len(KERNELS) + 1
    late = 0
    device = [event for event in made.events if event["cat"] in ("kernel", "gpu_memcpy")]
    host = [event for event in made.events if event["cat"] == "cuda_runtime"]
    for number, event in enumerate(device):
        event["ts"] += late / 1000
        if number % per_step == 8 and (number // per_step) % 2:
            event["dur"] += 40
            late += 40_000
    for number, event in enumerate(host):
        event["ts"] += 40 * ((number // 3) // 2)
    model = config(folder)
    recovered = recover(open_trace(made.save(folder / "t.json")), read_layout(model))
    request = Request(model_spec(model), hardware_spec("h200"), context=128)
    return examine(recovered, request, "uneven")


def test_a_neighbor_that_slows_steps_is_found(uneven: Any) -> None:
    active = [1 + number % 2 for number in range(40)]
    samples = telemetry(uneven, source="nvidia", gpu_processes=active)
    causes = attribute(uneven.residuals, uneven.graph, path=uneven.path, telemetry=samples)
    cause = {one.name: one for one in causes}["noisy neighbor"]
    assert cause.ns_per_token == pytest.approx(20_000, rel=0.1)
    assert cause.beyond_step
    assert cause.evidence[0].source == "telemetry"


def test_a_neighbor_that_slows_nothing_is_no_cause(uneven: Any) -> None:
    active = [1 + (number // 2) % 2 for number in range(40)]
    samples = telemetry(uneven, source="nvidia", gpu_processes=active)
    causes = attribute(uneven.residuals, uneven.graph, path=uneven.path, telemetry=samples)
    assert "noisy neighbor" not in {one.name for one in causes}
    assert not any(note.startswith("noisy neighbor") for note in causes.degradations)


def test_a_state_of_nearly_all_steps_cannot_be_compared(uneven: Any) -> None:
    pressure = [0.0, *[0.5] * 39]
    samples = telemetry(uneven, source="host", host_pressure_cpu=pressure)
    view = MechanismView(uneven.residuals, uneven.graph, uneven.path, samples)
    joined = states.samples(view, "host", "host_pressure_cpu")
    assert isinstance(joined, pl.DataFrame)
    finding = next(one for one in MECHANISMS if one.name == "host CPU starvation").find(view)
    assert "5 steps in the state and 5 outside" in finding.needs  # type: ignore[union-attr]


def test_the_prediction_is_that_of_the_step_shown(tmp_path: Path) -> None:
    model = config(tmp_path)
    made = replayed(steps=15, batch=8, later=64)
    recovered = recover(open_trace(made.save(tmp_path / "t.json")), read_layout(model))
    request = Request(model_spec(model), hardware_spec("h200"), context=512)
    diagnosis = examine(recovered, request, "both")
    assert {graph.batch["sequences"] for graph in diagnosis.residuals.graphs} == {8, 64}
    shown = recovered.trace.steps["batch"][diagnosis.residuals.waterfall.step]
    data = diagnosis.to_json()
    assert diagnosis.graph.batch["sequences"] == data["batch"] == shown
    assert data["predicted_ns"] == diagnosis.graph.totals["step"].value


def test_mechanisms_have_distinct_names_and_say_all() -> None:
    names = [one.name for one in MECHANISMS]
    assert len(set(names)) == len(names)
    for one in MECHANISMS:
        assert all((one.sentence, one.reads, one.fix))


def test_the_path_is_found_where_none_is_given(found: Any) -> None:
    _, diagnosis = found["graph"]
    own = attribute(diagnosis.residuals, diagnosis.graph)
    given = attribute(
        diagnosis.residuals, diagnosis.graph, path=critical_path(diagnosis.residuals.trace)
    )
    assert own == given


def test_a_trace_is_attributed_through_the_package(tmp_path: Path) -> None:
    import assay

    assert assay.attribute is attribute
