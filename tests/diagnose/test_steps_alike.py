"""A diagnosis stands for steps like the one that it shows, and blames nothing that explains itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_mechanisms import BUSY, call, residuals

from assay.diagnose import subject
from assay.diagnose.invariants.kernel_time import KERNEL_TIME
from assay.diagnose.itemizing import tables
from assay.diagnose.mechanisms.batching import FRAGMENTATION
from assay.diagnose.mechanisms.findings import MechanismEstimate
from assay.diagnose.mechanisms.host import CPU_STARVATION, PROFILER_OVERHEAD
from assay.diagnose.mechanisms.view import MechanismView
from assay.diagnose.residuals import NO_PREDICTION, Residuals
from assay.diagnose.terms import steps_alike
from assay.diagnose.waterfall import of_interest
from assay.intervals import Interval
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace
from assay.planner.graph import Graph


def steps(*rows: tuple[str, int | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "step": number, "rank": None, "device": 0, "phase": phase, "batch": batch,
                "prefill_tokens": tokens, "requests": None, "observed_ns": 1000 + number,
                "is_whole": True, "is_predicted": True,
            }
            for number, (phase, batch, tokens) in enumerate(rows)
        ],
        schema_overrides={"rank": pl.Int32, "device": pl.Int32, "batch": pl.Int64},
    )  # fmt: skip


MANY = steps(*[("prefill", None, 512)] * 9, *[("decode", 32, 0)] * 6, *[("decode", 64, 0)] * 9)


def test_the_median_step_is_one_of_its_batch() -> None:
    assert of_interest(MANY)["batch"].to_list() == [64] * 9


def test_operations_are_means_over_steps_of_one_size() -> None:
    chosen = tables._of_one_size(MANY)
    assert chosen.group_by("phase").len().sort("phase").rows() == [("decode", 9), ("prefill", 9)]
    assert set(chosen.filter(pl.col("phase") == "decode")["batch"]) == {64}


def test_the_number_of_steps_is_that_of_steps_alike() -> None:
    rows = MANY.to_dicts()
    assert steps_alike({"step": 23, "steps": rows}) == 9
    assert steps_alike({"step": 10, "steps": rows}) == 6


def test_several_prompts_of_a_step_are_not_one_long_prompt() -> None:
    table = steps(("prefill", None, 16384), ("mixed", 3, 8192)).with_columns(
        pl.Series("requests", [4, 5]), pl.lit(None, pl.Int64).alias("context")
    )
    columns = schema.step_columns()
    whole = table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns.items()
    )
    trace = Trace(TraceHeader(), schema.complete(pl.DataFrame()), whole)
    prompts = {group.phase: group.prompts for group in subject.groups(trace)}
    assert prompts == {"prefill": 4, "mixed": 2}


def checked(phase: str, operation: str) -> int:
    table = pl.DataFrame(
        [
            {
                "operation": operation, "phase": phase, "layer": None, "kernel_ns": 55e3,
                "expected_ns": 1e3, "lo_ns": 0.5e3, "hi_ns": 2e3, "floor_ns": 0.4e3,
            }
        ],
        schema_overrides={"layer": pl.Int32},
    )  # fmt: skip
    data = replace(residuals(BUSY), operations=table, kernels=pl.DataFrame(
        schema={"phase": pl.String, "operation": pl.String, "layer": pl.Int32, "dur_ns": pl.Int64,
                "row": pl.Int64}))  # fmt: skip
    return len(KERNEL_TIME.check(data))


def test_a_share_of_decode_steps_is_no_prediction_of_a_final_norm_over_prompts() -> None:
    assert checked("prefill", "final_norm") == 0
    assert checked("decode", "final_norm") == 1
    assert checked("prefill", "lm_head") == 1


def view_of(fields: dict[str, Any], source: str, graph: Graph = NO_PREDICTION) -> MechanismView:
    gap = ("launch_gaps", 20_000, call("cudaLaunchKernel", 0, 20_000))
    data: Residuals = residuals(BUSY, gap, phases=("decode",) * 38, clock="realtime")
    starts = data.steps["start_ns"].to_list()
    rows = {
        name: value if isinstance(value, list) else [value] * 38 for name, value in fields.items()
    }
    samples = pl.DataFrame(
        {
            "source": source, "device": "0", "phase": None, "realtime_ns": starts, **rows,
        }
    )  # fmt: skip
    return MechanismView(data, graph, None, samples)


def test_pressure_in_every_step_is_examined() -> None:
    finding = CPU_STARVATION.find(view_of({"host_pressure_cpu": 0.4}, "host"))
    assert isinstance(finding, MechanismEstimate)
    assert (finding.lo, finding.hi) == (0.0, 20_000)
    assert "all 38 steps" in finding.statements[0]


@pytest.mark.parametrize("running", [16.0, 12.0])
def test_requests_that_wait_for_a_place_are_not_fragmentation(running: float) -> None:
    """Half of the steps have requests waiting, and take longer; `running` is 16 at most."""
    waits = [4.0] * 19 + [0.0] * 19
    fields = {
        "engine_kv_cache_usage": 0.3,
        "engine_requests_waiting": waits,
        "engine_requests_running": [running] * 19 + [16.0 if running < 16 else 8.0] * 19,
    }
    view = view_of(fields, "engine")
    longer = np.array([1] * 19 + [0] * 19)
    table = view.residuals.steps.with_columns(
        observed_ns=pl.col("observed_ns") + pl.Series(longer * 8_000)
    )
    slow = replace(view.residuals, steps=table)
    finding = FRAGMENTATION.find(replace_view(view, slow))
    assert (finding is None) == (running == 16.0)


def replace_view(view: MechanismView, data: Residuals) -> MechanismView:
    return MechanismView(data, view.graph, view.path, view.telemetry)


def test_the_profiler_is_blamed_for_what_the_waterfall_has() -> None:
    gap = ("launch_gaps", 60_000, call("cudaLaunchKernel", 0, 60_000))
    own = ("profiler_overhead", 5_000, call("Activity Buffer Request", 0, 5_000))
    busy = ("floor", 10_000, BUSY[2])
    data = residuals(busy, gap, own, phases=("decode",) * 8, source="kineto")
    step = Interval(20_000.0, 15_000.0, 30_000.0)
    graph = replace(NO_PREDICTION, totals={"step": step}, batch={"cuda_graphs": False})
    view = MechanismView(data, graph)
    assert view.is_launch_bound
    finding = PROFILER_OVERHEAD.find(view)
    assert isinstance(finding, MechanismEstimate)
    assert finding.ns_per_token == 5_000
    assert finding.hi == 60_000
