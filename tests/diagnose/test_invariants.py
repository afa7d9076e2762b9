"""Invariants: what holds has no finding, what does not has one, what is not measured says so."""

from __future__ import annotations

import dataclasses

import hand_graphs
import numpy as np
import planting
import polars as pl
import pytest
from simulated_machine import Machine

import assay
from assay.diagnose.invariants import checking, concurrency, kernel_time
from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation
from assay.errors import InputError
from assay.intervals import Interval
from assay.observe.telemetry import reading
from assay.observe.trace import Trace
from assay.planner.graph import Graph, Node

TIMES = {"attention": 9_000, "gate_up_proj": 30_000, "down_proj": 18_000}


def predicted(trace: Trace, slower: float = 1.0, **totals: Interval) -> Graph:
    """A graph that expects the machine's own times, or others."""
    nodes = [
        hand_graphs.node(name, layer, 0.8 * time * slower, time * slower)
        for layer in range(6)
        for name, time in TIMES.items()
    ]
    step = 6 * (sum(TIMES.values()) + 3_000)
    graph = hand_graphs.graph(nodes, **totals)
    figures = {**graph.totals, "step": Interval(step, 0.9 * step, 1.1 * step)}
    return dataclasses.replace(graph, totals=figures)


def samples(trace: Trace, **fields: float) -> pl.DataFrame:
    """Telemetry every 100 us from the first step to the last."""
    first, last = int(trace.steps["start_ns"][0]), int(trace.steps["start_ns"][-1])
    times = np.arange(first, last + 100_000, 100_000)
    given = {"realtime_ns": times, "monotonic_ns": times, **fields}
    frame = pl.DataFrame(given | {"source": "nvidia", "device": "GPU-1", "index": 0}, strict=False)
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in reading.columns().items()
    )


def violated(found: list[Violation]) -> list[str]:
    return [f"{one.invariant}: {one.where}" for one in found if one.verdict == "violated"]


@pytest.fixture
def healthy() -> Trace:
    trace = Machine(graph=True).run()
    trace.header.clock = "monotonic"
    return trace


def test_a_healthy_trace_has_no_violation_and_says_what_was_not_measured(healthy: Trace) -> None:
    found = assay.check_invariants(assay.residuals(healthy, predicted(healthy)))
    assert violated(found) == []
    assert [(one.invariant, one.where) for one in found] == [
        ("memory traffic", "step"),
        ("clocks and power", "SM clock"),
        ("clocks and power", "power"),
    ]
    assert all(one.verdict == "not measured" and one.reason for one in found)


def test_a_slow_operation_a_slow_layer_and_an_impossible_one(healthy: Trace) -> None:
    events = healthy.events
    slow = (pl.col("op").cast(pl.String) == "attention") & (pl.col("kind") == "kernel")
    graph = predicted(healthy)

    def scaled(where: pl.Expr, factor: float) -> Residuals:
        longer = pl.when(where).then(pl.col("dur_ns") * factor).otherwise(pl.col("dur_ns"))
        table = events.with_columns(dur_ns=longer.cast(pl.Int64))
        return assay.residuals(Trace(healthy.header, table, healthy.steps), graph)

    (one,) = kernel_time.check(scaled(slow, 1.3))
    assert one.where == "attention, 6 of 6 layers"
    assert one.observed == pytest.approx(6 * 9_000 * 1.3, rel=0.001)
    assert one.hi == pytest.approx(6 * 9_000 * 1.2)
    assert one.reason == "1.30 times the expected time"
    assert {healthy.events["name"][row] for row in one.rows} == {"attention_kernel"}
    (one,) = kernel_time.check(scaled(slow & (pl.col("layer") == 4), 1.3))
    assert one.where == "attention, layer 4"
    # All layers near the end of the interval, one a little beyond it: as chance has it.
    many = scaled(slow, 1.19)
    beyond = many.operations.with_columns(
        kernel_ns=pl.when((pl.col("operation") == "attention") & (pl.col("layer") == 4))
        .then(pl.col("hi_ns") * 1.01)
        .otherwise(pl.col("kernel_ns"))
    )
    assert kernel_time.check(dataclasses.replace(many, operations=beyond)) == []
    (one,) = kernel_time.check(scaled(slow, 0.5))
    assert "faster than its floor" in one.reason
    assert one.lo == pytest.approx(6 * 0.8 * 9_000)


def test_the_smallest_detectable_slowdown_is_what_the_interval_allows(healthy: Trace) -> None:
    found = assay.residuals(healthy, predicted(healthy))
    table = kernel_time.smallest_detectable(found)
    assert sorted(table["operation"]) == sorted(TIMES)
    assert table["of_expected"].to_list() == pytest.approx([0.2] * 3)
    assert table["of_observed"].to_list() == pytest.approx([0.2] * 3)


def test_a_step_outside_its_interval_is_violated(healthy: Trace) -> None:
    slow = healthy
    for step in range(3, 11):
        place = int(slow.steps["start_ns"][step])
        slow = planting.shifted(slow, place, 100_000)
    found = assay.check_invariants(assay.residuals(slow, predicted(healthy)))
    (one,) = [one for one in found if one.verdict == "violated"]
    assert (one.invariant, one.hi) == ("step time", pytest.approx(1.1 * 6 * 60_000))
    assert one.observed == pytest.approx(6 * 60_000 + 100_000, rel=0.01)


@pytest.mark.parametrize(
    ("scale", "findings"),
    [(1.0, []), (2.0, ["memory traffic: step"]), (0.3, ["memory traffic: step"])],
)
def test_traffic_is_compared_with_gpm(healthy: Trace, scale: float, findings: list[str]) -> None:
    graph = predicted(healthy)
    step_ns = 6 * (sum(TIMES.values()) + 3_000)
    rate = scale * sum(node.bytes_read for node in graph) / step_ns * 1e9
    telemetry = samples(healthy, gpu_dram_bytes_per_second=rate)
    found = assay.check_invariants(assay.residuals(healthy, graph, telemetry))
    assert violated(found) == findings
    assert not [one for one in found if one.invariant == "memory traffic"] or findings


def test_traffic_is_compared_with_counters_of_a_profiler(healthy: Trace) -> None:
    graph = predicted(healthy)
    moved = {node.operation: node.bytes_read for node in graph}
    each = pl.col("op").cast(pl.String).replace_strict(moved, default=0.0, return_dtype=pl.Float64)
    for factor, findings in ((1.0, 0), (1.5, 1)):
        counted = healthy.events.with_columns(
            args=pl.when(pl.col("kind") == "kernel").then(
                pl.concat_str(
                    pl.lit('{"dram__bytes_read.sum": '),
                    (each * factor).cast(pl.String),
                    pl.lit(', "dram__bytes_write.sum": 0}'),
                )
            )
        )
        trace = Trace(healthy.header, counted, healthy.steps)
        found = assay.check_invariants(assay.residuals(trace, graph))
        traffic = [one for one in found if one.invariant == "memory traffic"]
        assert [one.verdict for one in traffic] == ["violated"] * findings


def test_bytes_of_the_engine_are_no_measurement(healthy: Trace) -> None:
    counted = healthy.events.with_columns(bytes=pl.lit(1_000_000, pl.Int64))
    found = assay.check_invariants(
        assay.residuals(Trace(healthy.header, counted, healthy.steps), predicted(healthy))
    )
    (traffic,) = [one for one in found if one.invariant == "memory traffic"]
    assert traffic.verdict == "not measured"


def test_low_clocks_are_violated_and_take_their_share_of_kernels(healthy: Trace) -> None:
    clock = Interval(2e9, 2e9, 2e9)
    graph = predicted(healthy, sm_clock=clock)
    bound = dataclasses.replace(
        graph,
        nodes=tuple(dataclasses.replace(one, bound="compute", floor_ns=1_000) for one in graph),
    )
    telemetry = samples(healthy, gpu_sm_clock_hz=1.6e9, gpu_throttle=4)
    found = assay.residuals(healthy, bound, telemetry)
    terms = {one.name: one.ns for one in found.waterfall.terms}
    assert terms["throttling"] == pytest.approx(0.2 * 6 * sum(TIMES.values()), rel=0.001)
    (one,) = [one for one in assay.check_invariants(found) if one.verdict == "violated"]
    assert (one.invariant, one.where, one.reason) == (
        "clocks and power", "SM clock", "held by: power cap",
    )  # fmt: skip
    # Memory-bound kernels do not wait for the SM clock.
    plain = assay.residuals(healthy, graph, telemetry)
    assert {one.name: one.ns for one in plain.waterfall.terms}["throttling"] == 0


def test_power_is_judged_where_the_prediction_has_an_interval(healthy: Trace) -> None:
    telemetry = samples(healthy, gpu_sm_clock_hz=2e9, gpu_power_watts=600.0)
    for lo, findings in ((300.0, ["clocks and power: power"]), (590.0, []), (500.0, [])):
        graph = predicted(healthy, power=Interval(500.0, lo, lo + 100 if lo > 500 else 500.0))
        found = assay.check_invariants(assay.residuals(healthy, graph, telemetry))
        assert violated(found) == findings


def test_what_was_to_overlap_and_ran_alone(healthy: Trace) -> None:
    nodes: list[Node] = list(predicted(healthy))
    first = nodes[0].name
    nodes.append(
        hand_graphs.node("all_reduce", None, 4_000, 5_000, stream=1, dependencies=(first,))
    )
    graph = dataclasses.replace(predicted(healthy), nodes=tuple(nodes))
    assert concurrency.uncovered_ns(graph) == 0
    late = dataclasses.replace(nodes[-1], dependencies=(nodes[-2].name,))
    alone = dataclasses.replace(graph, nodes=(*nodes[:-1], late))
    assert concurrency.uncovered_ns(alone) == 5_000
    assert concurrency.check(assay.residuals(healthy, graph)) == []
    slow = healthy
    for step in range(1, 12):
        start = int(slow.steps["start_ns"][step])
        slow = planting.inserted(
            planting.shifted(slow, start, 200_000), kind="memcpy", start_ns=start, dur_ns=200_000,
            name="Memcpy HtoD (Pageable -> Device)", device=0, stream=7, pid=0, step=step,
        )  # fmt: skip
    (one,) = concurrency.check(assay.residuals(slow, graph))
    assert one.observed is not None
    assert one.observed >= 200_000
    assert "ran alone: copies" in one.reason


def test_invariants_of_a_user(healthy: Trace) -> None:
    found = assay.residuals(healthy, predicted(healthy))
    mine = Violation("mine", "violated", "step", 1.0, 0.0, 0.5, "ns")
    own = Invariant("mine", "a sentence", lambda _: [mine])
    assert assay.check_invariants(found, [own]) == [mine]
    assert mine in assay.check_invariants(found, (*checking.DEFAULT, own))
    with pytest.raises(InputError, match="expected an Invariant, got str"):
        assay.check_invariants(found, ["mine"])  # type: ignore[list-item]
    odd = Invariant("odd", "", lambda _: [dataclasses.replace(mine, verdict="passed")])
    with pytest.raises(InputError, match='invariant "odd": expected violations with a verdict'):
        assay.check_invariants(found, [odd])


def test_without_a_prediction_nothing_passes(healthy: Trace) -> None:
    found = assay.check_invariants(assay.residuals(healthy, ()))
    assert {one.invariant for one in found} == {one.name for one in checking.DEFAULT}
    assert all(one.verdict == "not measured" for one in found)
