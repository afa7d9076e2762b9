"""Waterfalls of real traces, which are not part of the repository.

`ASSAY_TRACES=FOLDER pytest -s tests/diagnose/test_residuals_real.py` prints the waterfall of every
PyTorch profiler trace of a folder whose name says its model, and plants faults into it.
"""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path

import hand_graphs
import planting
import polars as pl
import pytest

import assay
from assay.diagnose.residuals import Residuals
from assay.diagnose.terms import TERMS
from assay.observe.importers.detect import open_trace
from assay.observe.schema import DEVICE_KINDS
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import recover
from assay.observe.trace import Trace
from assay.planner.graph import Graph

FOLDER = os.environ.get("ASSAY_TRACES")
MODELS = {"llama8b": "models/llama-3.1-8b", "qwen3moe": "models/qwen3-30b-a3b"}
PATHS = [
    path
    for path in (sorted(Path(FOLDER).glob("*.json*")) if FOLDER else [])
    if any(mark in path.name for mark in MODELS)
]

pytestmark = pytest.mark.skipif(not PATHS, reason="ASSAY_TRACES names no folder of traces")


@cache
def read(path: Path) -> tuple[Trace, Graph]:
    """The trace with structure, and a graph whose floors are 70 % of its fastest kernels."""
    model = next(model for mark, model in MODELS.items() if mark in path.name)
    trace = recover(open_trace(path), read_layout(model)).trace
    batch = int(trace.steps.filter(pl.col("phase") == "decode")["batch"].median() or 1)  # type: ignore[arg-type]
    fastest = (
        trace.events.filter((pl.col("phase") == "decode") & pl.col("op").is_not_null())
        .group_by(pl.col("op").cast(pl.String))
        .agg(pl.col("dur_ns").min())
    )
    floors = {name: 0.7 * ns for name, ns in fastest.rows()}
    return trace, hand_graphs.graph_of(trace, floors, batch)


def union_ns(events: pl.DataFrame, start: int, end: int) -> int:
    """Device-busy time of a window, merged interval by interval."""
    spans = sorted(
        (max(first, start), min(first + length, end))
        for first, length in events.select("start_ns", "dur_ns").rows()
        if first < end and first + length > start
    )
    total, reached = 0, start
    for first, last in spans:
        total += max(last - max(first, reached), 0)
        reached = max(reached, last)
    return total


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_waterfall_of_a_real_trace(path: Path) -> None:
    trace, graph = read(path)
    found = assay.residuals(trace, graph)
    terms = {one.name: int(one.ns) for one in found.waterfall.terms}
    step = int(found.waterfall.observed_ns)
    row = found.steps.filter(pl.col("step") == found.waterfall.step).row(0, named=True)
    device = trace.events.filter(pl.col("kind").is_in(list(DEVICE_KINDS)))
    busy = union_ns(device, row["start_ns"], row["start_ns"] + step)
    host = terms["launch_gaps"] + terms["host_stalls"] + terms["profiler_overhead"]
    print(f"\n{path.name}: step {step / 1e3:.1f} us, busy {busy / 1e3:.1f} us")
    print("  ".join(f"{name} {ns / 1e3:.1f}" for name, ns in terms.items() if ns))
    print(f"launch gaps + host stalls + profiler = {host / 1e3:.1f} us, step - busy = "
          f"{(step - busy) / 1e3:.1f} us ({100 * (host / (step - busy) - 1):+.2f} %)")  # fmt: skip
    assert sum(terms.values()) == step
    assert (
        found.steps.select(pl.sum_horizontal(list(TERMS)) == pl.col("observed_ns"))
        .to_series()
        .all()
    )
    assert terms["unknown"] <= 0.03 * step
    if "eager" in path.name:
        assert host == pytest.approx(step - busy, rel=0.03)


def change(before: Residuals, after: Residuals, step: int) -> dict[str, int]:
    rows = [one.steps.filter(pl.col("step") == step).row(0, named=True) for one in (before, after)]
    return {name: rows[1][name] - rows[0][name] for name in TERMS}


@pytest.mark.parametrize("term", planting.PLANTED)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_planted_faults_land_in_their_term(path: Path, term: str) -> None:
    trace, graph = read(path)
    if "eager" not in path.name:
        pytest.skip("its launches are ahead of the device")
    before = assay.residuals(trace, graph)
    source = random.Random(7)
    worst = 0.0
    places = [one for one in planting.late_places(trace) if one.step > 2]
    for place in source.sample(places, 12):
        by = source.choice([400_000, 2_000_000])
        after = assay.residuals(planting.PLANTED[term](trace, place, by), graph)
        worst = max(worst, abs(change(before, after, place.step)[term] / by - 1))
    print(f"\n{path.name}: {term}: {len(places)} places, worst error {100 * worst:.2f} %")
    assert worst <= 0.1


@pytest.mark.parametrize("term", planting.PLANTED)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_faults_planted_before_a_step_land_in_their_term(path: Path, term: str) -> None:
    trace, graph = read(path)
    places = [one for one in planting.queued_places(trace) if one.step > 2]
    if not places:
        pytest.skip("no launch is ahead of the device")
    source = random.Random(7)
    worst = 0.0
    for place in source.sample(places, min(len(places), 8)):
        by = source.choice([200_000, 400_000, 2_000_000])
        late, moved = trace, place
        if term != "lost_overlap":
            # What a stall, a wait or a long call does to a device that had work queued.
            late, moved = planting.launched_late(trace, place, 2 * planting.LATENCY_NS)
        before = assay.residuals(late, graph)
        after = assay.residuals(planting.PLANTED[term](late, moved, by), graph)
        worst = max(worst, abs(change(before, after, place.step)[term] / by - 1))
    print(f"\n{path.name}: {term}: {len(places)} places, worst error {100 * worst:.2f} %")
    assert worst <= 0.1
