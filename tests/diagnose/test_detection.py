"""Slowdowns against a healthy baseline: found where planted, silent where not.

`ASSAY_TRACES=FOLDER pytest -s tests/diagnose/test_detection.py` also runs 200 cases on real traces,
half of them healthy, and prints the rates of false alarms and misses.
"""

from __future__ import annotations

import dataclasses
import os
import random
from pathlib import Path

import hand_graphs
import numpy as np
import planting
import polars as pl
import pytest
from simulated_machine import Machine

import assay
from assay.diagnose.baseline import BaselineChange, compare_to_baseline
from assay.diagnose.residuals import Residuals
from assay.errors import InputError
from assay.observe.importers.detect import open_trace
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import recover
from assay.observe.trace import Trace

OPERATIONS = ("attention", "gate_up_proj", "down_proj")


def recorded(seed: int, noise: float = 0.03) -> Trace:
    """A recording whose kernels vary from step to step."""
    trace = Machine(graph=True, steps=16).run()
    source = np.random.default_rng(seed)
    factor = pl.Series(np.exp(source.normal(0, noise, trace.events.height)))
    is_kernel = trace.events["kind"].cast(pl.String) == "kernel"
    longer = (trace.events["dur_ns"] * factor).cast(pl.Int64)
    events = trace.events.with_columns(dur_ns=longer.zip_with(is_kernel, trace.events["dur_ns"]))
    return Trace(trace.header, events, trace.steps)


def residuals(trace: Trace) -> Residuals:
    return assay.residuals(trace, hand_graphs.graph_of(trace, dict.fromkeys(OPERATIONS, 5_000)))


def slower(found: list[BaselineChange], kind: str = "operation") -> list[str]:
    return [one.name for one in found if one.verdict == "slower" and one.kind == kind]


def test_a_slow_operation_is_found_and_no_other() -> None:
    healthy = residuals(recorded(1))
    for seed, operation in enumerate(OPERATIONS, start=2):
        trace = recorded(seed)
        assert slower(compare_to_baseline(residuals(trace), healthy)) == []
        found = compare_to_baseline(residuals(planting.slowed(trace, operation, 1.1)), healthy)
        assert slower(found) == [operation]
        one = next(one for one in found if one.name == operation)
        assert one.ratio == pytest.approx(1.1, abs=0.02)
        assert one.how == "kernel by kernel"
        assert one.observed_ns / one.baseline_ns == pytest.approx(1.1, abs=0.03)
    back = compare_to_baseline(healthy, residuals(planting.slowed(trace, operation, 1.1)))
    faster = [one.name for one in back if one.verdict == "faster" and one.kind == "operation"]
    assert faster == [operation]


def test_the_smallest_detectable_slowdown_grows_with_the_noise() -> None:
    found = [
        compare_to_baseline(residuals(recorded(1, noise)), residuals(recorded(2, noise)))
        for noise in (0.01, 0.5)
    ]
    smallest = [{one.name: one.smallest for one in side} for side in found]
    assert smallest[0]["attention"] == pytest.approx(0.04)
    assert smallest[1]["attention"] > 0.1


def test_other_kernels_are_compared_in_total() -> None:
    trace = recorded(1)
    renamed = trace.events.with_columns(
        name=pl.when(pl.col("op").cast(pl.String) == "attention")
        .then(pl.lit("another_kernel"))
        .otherwise(pl.col("name").cast(pl.String))
        .cast(pl.Categorical())
    )
    other = residuals(Trace(trace.header, renamed, trace.steps))
    found = {one.name: one for one in compare_to_baseline(other, residuals(recorded(2)))}
    assert found["attention"].how == "in total"
    assert found["down_proj"].how == "kernel by kernel"


def test_a_stall_in_every_step_is_found_in_its_term() -> None:
    healthy, trace = residuals(recorded(1)), recorded(2)
    for step in range(1, 16):
        trace = planting.shifted(trace, int(trace.steps["start_ns"][step]), 300_000)
    found = compare_to_baseline(residuals(trace), [healthy, residuals(recorded(3))])
    assert "observed_ns" in slower(found, "term")
    assert slower(found) == []


def test_too_few_steps_are_refused() -> None:
    healthy = residuals(recorded(1))
    few = residuals(Machine(graph=True, steps=4).run())
    with pytest.raises(InputError, match="at least 5 whole decode steps of the trace, got 3"):
        compare_to_baseline(few, healthy)
    with pytest.raises(InputError, match="expected a baseline, got none"):
        compare_to_baseline(healthy, [])


FOLDER = os.environ.get("ASSAY_TRACES")
MODELS = {"llama8b": "models/llama-3.1-8b", "qwen3moe": "models/qwen3-30b-a3b"}
PATHS = [
    path
    for path in (sorted(Path(FOLDER).glob("*.json*")) if FOLDER else [])
    if any(mark in path.name for mark in MODELS)
]
CASES = 200


def part(found: Residuals, steps: list[int]) -> Residuals:
    """Residuals of some of the steps, as if only they had been recorded."""
    kept = pl.col("step").is_in(steps)
    return dataclasses.replace(
        found, steps=found.steps.filter(kept), kernels=found.kernels.filter(kept)
    )


@pytest.mark.slow
@pytest.mark.skipif(not PATHS, reason="ASSAY_TRACES names no folder of traces")
def test_rates_on_real_traces() -> None:
    """Half of a trace's steps are the baseline; in the other half one operation is 10 % slower.

    Halves are drawn at random or are the first and the second, in turn.
    """
    source = random.Random(17)
    traces = {}
    for path in PATHS:
        model = next(model for mark, model in MODELS.items() if mark in path.name)
        trace = recover(open_trace(path), read_layout(model)).trace
        traces[path.name] = trace, assay.residuals(trace, ())
    false = missed = planted = 0
    details = []
    for case in range(CASES):
        name = list(traces)[case % len(traces)]
        trace, healthy = traces[name]
        known = healthy.steps.filter((pl.col("phase") == "decode") & pl.col("is_whole"))
        steps = known["step"].to_list()
        if (case // len(traces)) % 2:
            source.shuffle(steps)
        elif source.random() < 0.5:
            steps.reverse()
        before, after = steps[: len(steps) // 2], steps[len(steps) // 2 :]
        operation = None
        side = healthy
        if (case // (2 * len(traces))) % 2:
            operations = healthy.operations.filter(pl.col("phase") == "decode")["operation"]
            operation = source.choice(sorted(set(operations.drop_nulls())))
            side = assay.residuals(planting.slowed(trace, operation, 1.1), ())
        found = slower(compare_to_baseline(part(side, after), part(healthy, before)))
        planted += operation is not None
        missed += operation is not None and operation not in found
        false += bool(set(found) - {operation})
        if set(found) != ({operation} - {None}):
            details.append((name, operation, found))
    print(f"\n{CASES} cases, {planted} planted: {false} with false alarms "
          f"({100 * false / CASES:.1f} %), {missed} missed ({100 * missed / planted:.1f} %)")  # fmt: skip
    print("\n".join(map(str, details)))
    assert false <= 0.05 * CASES
    assert missed <= 0.05 * planted
