"""Residuals: additive to the nanosecond, against a recount of every nanosecond and planted faults."""

from __future__ import annotations

from collections import Counter

import hand_graphs
import planting
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from simulated_machine import Machine

import assay
from assay.diagnose.itemizing import profiler_cost
from assay.diagnose.residuals import Residuals
from assay.diagnose.terms import TERMS
from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

FLOORS = {"attention": 5_000, "gate_up_proj": 25_000, "down_proj": 15_000}


def adds_up(found: Residuals) -> None:
    """Intervals cover each step once; terms add up to it, in every table."""
    total = found.steps.select(pl.sum_horizontal(list(TERMS)) == pl.col("observed_ns"))
    assert total.to_series().all()
    own = found.intervals.sort("rank", "device", "start_ns")
    same = (own["step"] == own["step"].shift(1)) & own["device"].eq_missing(own["device"].shift(1))
    touching = own["start_ns"] == own["start_ns"].shift(1) + own["dur_ns"].shift(1)
    assert (touching | ~same).slice(1).all()
    assert (own["dur_ns"] > 0).all()
    sums = own.group_by("device", "step").agg(pl.col("dur_ns").sum())
    joined = found.steps.join(sums, on=["device", "step"], nulls_equal=True)
    assert joined.height == found.steps.height
    assert (joined["dur_ns"] == joined["observed_ns"]).all()
    terms = found.waterfall.terms
    assert tuple(one.name for one in terms) == tuple(TERMS)
    assert sum(one.ns for one in terms) == found.waterfall.observed_ns


def of_step(found: Residuals, step: int) -> dict[str, int]:
    row: dict[str, int] = found.steps.filter(pl.col("step") == step).row(0, named=True)
    return {name: row[name] for name in ("observed_ns", *TERMS)}


def untraced_cost(trace: Trace) -> Trace:
    """The same trace of a profiler whose cost for each record is not known."""
    trace.header.source = "nsys"
    return trace


EVENT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["kernel", "kernel", "kernel", "memcpy", "memset"]),
        "start_ns": st.integers(0, 90),
        "dur_ns": st.integers(0, 20),
        "stream": st.sampled_from([7, 7, 13]),
        "op": st.sampled_from(["qkv_proj", "o_proj", "all_reduce", None]),
        "layer": st.sampled_from([None, 0, 1]),
        "step": st.sampled_from([None, 0, 1]),
    }
)


@settings(max_examples=30)
@given(st.lists(EVENT, max_size=14), st.integers(1, 30))
def test_every_nanosecond_of_random_events_is_counted_once(
    events: list[dict[str, object]], second: int
) -> None:
    anchors = [
        {"kind": "kernel", "start_ns": 0, "dur_ns": 3, "stream": 7, "op": "qkv_proj", "step": 0},
        {"kind": "kernel", "start_ns": second, "dur_ns": 5, "stream": 7, "op": "o_proj", "step": 1},
    ]
    rows = [
        {"name": "x", "device": 0, "pid": 0, "layer": None} | one for one in [*anchors, *events]
    ]
    table = schema.complete(pl.DataFrame(rows, infer_schema_length=None, strict=False))
    steps = pl.DataFrame(
        [{"step": n, "phase": "decode", "start_ns": 0, "dur_ns": 1, "batch": 1} for n in (0, 1)]
    )
    columns = schema.step_columns()
    steps = steps.select(
        (pl.col(name) if name in steps.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns.items()
    )
    floors = {"qkv_proj": 4.0, "o_proj": 100.0, "all_reduce": 1.0}
    nodes = [hand_graphs.node(name, None, floor) for name, floor in floors.items()]
    found = assay.residuals(Trace(TraceHeader(), table, steps), hand_graphs.graph(nodes))
    adds_up(found)
    # A recount of the device: which kind of work each nanosecond has.
    first, last = found.steps["start_ns"].min(), None
    last = int((found.steps["start_ns"] + found.steps["observed_ns"]).max())  # type: ignore[arg-type]
    seen: Counter[str] = Counter()
    for moment in range(int(first), last):  # type: ignore[arg-type]
        over = [one for one in rows if one["start_ns"] <= moment < one["start_ns"] + one["dur_ns"]]
        work = any(one["kind"] != "memcpy" for one in over)
        seen["kernel" if work else "copy" if over else "idle"] += 1
    busy = found.intervals.filter(pl.col("row").is_not_null())
    sums = found.intervals.group_by(pl.col("term").cast(pl.String)).agg(pl.col("dur_ns").sum())
    by_term = dict(sums.rows())
    assert busy["dur_ns"].sum() == seen["kernel"] + seen["copy"]
    assert by_term.get("lost_overlap", 0) == seen["copy"]
    # Without any record of the host, why the device idles is not known.
    assert found.intervals["dur_ns"].sum() - busy["dur_ns"].sum() == seen["idle"]
    assert any("why the device idles" in one for one in found.degradations)


def test_floors_and_gaps_of_a_replayed_graph() -> None:
    machine = Machine(graph=True, behind=1)
    trace = machine.run()
    found = assay.residuals(trace, hand_graphs.graph_of(trace, FLOORS))
    adds_up(found)
    step = of_step(found, 5)
    assert step["floor"] == machine.layers * sum(FLOORS.values())
    assert step["kernel_inefficiency"] == machine.layers * (
        sum(machine.kernel_ns.values()) - sum(FLOORS.values())
    )
    # A gap before each kernel, the next step's first included, which was launched ahead.
    assert step["launch_gaps"] + step["synchronization"] == machine.layers * 3 * machine.gap_ns
    assert step["host_stalls"] == step["unknown"] == step["profiler_overhead"] == 0


def test_eager_launches_are_gaps_and_scheduling_is_a_stall() -> None:
    machine = Machine(behind=0, between_ns=40_000)
    trace = untraced_cost(machine.run())
    found = assay.residuals(trace, hand_graphs.graph_of(trace, FLOORS))
    adds_up(found)
    step = of_step(found, 5)
    period = machine.launch_ns + machine.between_ns
    launches = machine.layers * 3
    # The device is busy while it can be; every other moment it waits for the next launch.
    busy = sum(machine.kernel_ns.values()) * machine.layers
    inside = (launches - 1) * period - busy + machine.kernel_ns["down_proj"]
    assert step["launch_gaps"] == pytest.approx(inside + machine.latency_ns, rel=0.02)
    assert step["host_stalls"] >= machine.schedule_ns
    assert step["unknown"] == 0


@pytest.mark.parametrize("term", planting.PLANTED)
@pytest.mark.parametrize("by", [100_000, 2_000_000])
def test_a_planted_fault_lands_in_its_term(term: str, by: int) -> None:
    trace = Machine(behind=0, between_ns=40_000, steps=12).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    before = assay.residuals(trace, graph)
    place = planting.late_places(trace)[57]
    after = assay.residuals(planting.PLANTED[term](trace, place, by), graph)
    adds_up(after)
    change = {
        name: of_step(after, place.step)[name] - of_step(before, place.step)[name] for name in TERMS
    }
    assert sum(change.values()) == by
    assert change[term] == pytest.approx(by, rel=0.1)


@pytest.mark.parametrize("term", ["host_stalls", "synchronization", "launch_gaps"])
def test_a_fault_before_a_step_lands_in_its_term(term: str) -> None:
    trace = Machine(behind=0, graph=True, steps=12).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    before = assay.residuals(trace, graph)
    place = planting.late_places(trace, opening=True)[4]
    after = assay.residuals(planting.PLANTED[term](trace, place, 300_000), graph)
    # The window before the late step is the longer one.
    step = place.step - 1
    change = of_step(after, step)[term] - of_step(before, step)[term]
    assert change == pytest.approx(300_000, rel=0.1)


def test_records_of_the_profiler_are_its_overhead() -> None:
    trace = untraced_cost(Machine(behind=0).run())
    graph = hand_graphs.graph_of(trace, FLOORS)
    place = planting.late_places(trace)[20]
    late = planting.shifted(trace, place.call_start_ns, 500_000)
    late = planting.inserted(
        late, kind="overhead", name="Activity Buffer Request", start_ns=place.call_start_ns,
        dur_ns=500_000, tid=0,
    )  # fmt: skip
    found = assay.residuals(late, graph)
    adds_up(found)
    assert of_step(found, place.step)["profiler_overhead"] == 500_000
    row = found.intervals.filter(pl.col("term") == "profiler_overhead").row(0, named=True)
    assert late.events["name"][row["cause"]] == "Activity Buffer Request"


def test_records_of_the_host_cost_the_profiler_time() -> None:
    machine = Machine(behind=0, between_ns=40_000)
    trace = machine.run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    found = assay.residuals(trace, graph)
    adds_up(found)
    free = assay.residuals(untraced_cost(machine.run()), graph)
    cost = of_step(found, 5)["profiler_overhead"]
    # A call for each kernel but those launched while the device was busy; none of operations.
    assert 0 < cost <= profiler_cost.PYTORCH.call_ns * (machine.layers * 3 + 6)
    assert cost % profiler_cost.PYTORCH.call_ns == 0
    moved = {
        name: of_step(free, 5)[name] - of_step(found, 5)[name]
        for name in ("launch_gaps", "host_stalls")
    }
    assert sum(moved.values()) == cost
    assert any("profiler_overhead is an estimate" in one for one in found.degradations)


def test_a_wait_of_another_thread_is_no_synchronization() -> None:
    trace = Machine(behind=0).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    place = planting.late_places(trace)[20]
    late = planting.inserted(
        planting.stall(trace, place, 400_000), kind="sync", name="cudaEventSynchronize",
        start_ns=place.call_start_ns, dur_ns=400_000, pid=700, tid=999,
    )  # fmt: skip
    step = of_step(assay.residuals(late, graph), place.step)
    assert step["host_stalls"] >= 400_000
    assert step["synchronization"] == of_step(assay.residuals(trace, graph), 1)["synchronization"]


def test_a_process_that_stands_still_after_a_launch_stalls() -> None:
    trace = Machine(behind=0, between_ns=40_000).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    place = planting.late_places(trace)[40]
    # The call has returned; the kernel, and all that follows, come a millisecond later.
    still = assay.residuals(planting.shifted(trace, place.start_ns, 1_000_000), graph)
    before = of_step(assay.residuals(trace, graph), place.step)
    assert of_step(still, place.step)["host_stalls"] - before["host_stalls"] == pytest.approx(
        1_000_000, rel=0.02
    )
    # Where the host goes on meanwhile, it is not the host.
    is_device = trace.events["kind"].cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    late = planting.shifted(trace, place.start_ns, 1_000_000)
    busy = Trace(
        trace.header,
        pl.concat([late.events.filter(is_device), trace.events.filter(~is_device)]),
        late.steps,
    )
    found = of_step(assay.residuals(busy, graph), place.step)
    assert found["unknown"] == pytest.approx(1_000_000, rel=0.02)


def test_another_process_on_the_device_is_queueing() -> None:
    trace = Machine(graph=True).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    kernels = trace.events.filter((pl.col("step") == 5) & (pl.col("layer") == 3)).sort("start_ns")
    moment = int(kernels["start_ns"][1])
    held = planting.shifted(trace, moment, 700_000)
    alone = of_step(assay.residuals(held, graph), 5)
    assert alone["unknown"] == pytest.approx(700_000, rel=0.01)
    neighbor = planting.inserted(
        held, kind="kernel", name="other", start_ns=moment, dur_ns=700_000, device=0, stream=1,
        pid=4242,
    )  # fmt: skip
    beside = of_step(assay.residuals(neighbor, graph), 5)
    assert beside["queueing"] == pytest.approx(700_000, rel=0.01)
    assert beside["unknown"] == 0


def test_a_kernel_beside_the_main_stream_is_hidden_until_it_runs_alone() -> None:
    trace = Machine(graph=True).run()
    operations = {**FLOORS, "all_reduce": 1_000}
    nodes = list(hand_graphs.graph_of(trace, operations))
    nodes.append(hand_graphs.node("all_reduce", None, 1_000, stream=1))
    graph = hand_graphs.graph(nodes)
    last = trace.events.filter((pl.col("step") == 5) & (pl.col("kind") == "kernel"))
    end = int((last["start_ns"] + last["dur_ns"]).max())  # type: ignore[arg-type]
    beside = planting.inserted(
        planting.shifted(trace, end, 50_000), kind="kernel", name="ncclDevKernel_AllReduce",
        start_ns=end - 30_000, dur_ns=80_000, device=0, stream=20, pid=0, step=5, op="all_reduce",
    )  # fmt: skip
    step = of_step(assay.residuals(beside, graph), 5)
    plain = of_step(assay.residuals(trace, graph), 5)
    assert step["lost_overlap"] - plain["lost_overlap"] == pytest.approx(50_000, rel=0.05)
    assert step["floor"] == plain["floor"]


def test_a_step_without_a_graph_is_not_split() -> None:
    trace = Machine(graph=True).run()
    other = hand_graphs.graph_of(trace, FLOORS, batch=64)
    found = assay.residuals(trace, other)
    adds_up(found)
    assert found.steps["floor"].sum() == 0
    assert not found.steps["is_predicted"].any()
    assert found.steps["expected_ns"].null_count() == found.steps.height
    assert any(
        "no prediction, which is for decode of batch 64" in one for one in found.degradations
    )
    both = assay.residuals(trace, [other, hand_graphs.graph_of(trace, FLOORS)])
    assert both.steps["is_predicted"].all()


def test_operations_are_compared_where_they_are_fused_differently() -> None:
    trace = Machine(graph=True).run()
    joined = [hand_graphs.node("attention+gate_up_proj", layer, 30_000) for layer in range(6)]
    found = assay.residuals(trace, hand_graphs.graph(joined))
    rows = found.operations.filter(pl.col("operation") == "attention+gate_up_proj")
    assert rows.height == 6
    assert rows["count"].to_list() == [2.0] * 6
    assert rows["observed_ns"].to_list() == [39_000.0] * 6
    assert rows["residual_ns"].to_list() == [39_000.0 - 37_500.0] * 6
    assert of_step(found, 5)["floor"] == 6 * 30_000
    assert any("no node for down_proj" in one for one in found.degradations)


def test_requests_that_ranges_name_add_up() -> None:
    trace = Machine(graph=True).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    assert assay.residuals(trace, graph).requests.height == 0
    start = int(trace.steps["start_ns"][2])
    end = int(trace.steps["start_ns"][7])
    named = planting.inserted(
        trace, kind="range", name="request", start_ns=start - 700, dur_ns=end - start + 700,
        args='{"request_id": "cmpl-7"}',
    )  # fmt: skip
    found = assay.residuals(named, graph)
    row = found.requests.row(0, named=True)
    assert (row["request"], row["observed_ns"]) == ("cmpl-7", end - start + 700)
    assert sum(row[name] for name in TERMS) == row["observed_ns"]
    window = found.steps.filter(pl.col("step").is_between(2, 6))
    assert row["floor"] == window["floor"].sum()


def test_ranks_and_devices_have_waterfalls_of_their_own() -> None:
    slow = Machine(graph=True, gap_ns=3_000)
    sides = [Machine(graph=True).run(), slow.run()]
    rank = [pl.lit(number, pl.Int32).alias("rank") for number in (0, 1)]
    both = Trace(
        sides[0].header,
        pl.concat([one.events.with_columns(at) for one, at in zip(sides, rank, strict=True)]),
        pl.concat([one.steps.with_columns(at) for one, at in zip(sides, rank, strict=True)]),
    )
    graph = hand_graphs.graph_of(sides[0], FLOORS)
    found = assay.residuals(both, graph)
    for number, one in enumerate(sides):
        alone = assay.residuals(one, graph).steps.drop("rank")
        assert found.steps.filter(pl.col("rank") == number).drop("rank").equals(alone)
    assert found.steps.height == 24


def test_damaged_events_do_not_break_the_sum() -> None:
    trace = Machine(graph=True).run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    kernel = {"kind": "kernel", "name": "x", "device": 0, "pid": 0, "stream": 7, "step": 5}
    start = int(trace.steps["start_ns"][5]) + 7
    odd = planting.inserted(trace, **kernel, start_ns=start, dur_ns=-50)
    odd = planting.inserted(odd, **kernel, start_ns=start, dur_ns=None)
    odd = planting.inserted(odd, **kernel, start_ns=None, dur_ns=5)
    odd = planting.inserted(odd, kind="sync", name="cudaDeviceSynchronize", start_ns=start)
    found = assay.residuals(odd, graph)
    adds_up(found)
    assert of_step(found, 5) == of_step(assay.residuals(trace, graph), 5)
    single = assay.residuals(
        Trace(trace.header, trace.events.filter(pl.col("step") == 3), trace.steps), graph
    )
    adds_up(single)
    assert single.waterfall.step == 3


def test_a_trace_without_steps_or_kernels_is_refused() -> None:
    trace = Machine().run()
    graph = hand_graphs.graph_of(trace, FLOORS)
    bare = Trace(trace.header, trace.events.with_columns(step=pl.lit(None, pl.Int64)), trace.steps)
    with pytest.raises(InputError, match="expected a trace with steps, got none"):
        assay.residuals(bare, graph)
    host = Trace(trace.header, trace.events.filter(pl.col("kind") == "api"), trace.steps)
    with pytest.raises(InputError, match="expected a trace with kernels, got none"):
        assay.residuals(host, graph)
    with pytest.raises(InputError, match="expected a graph with nodes, got an empty one"):
        assay.residuals(trace, hand_graphs.graph([]))
