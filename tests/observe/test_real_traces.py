"""Figures of real traces, which are not part of the repository.

`ASSAY_TRACES=FOLDER pytest -s tests/observe/test_real_traces.py` reads every PyTorch profiler trace
of a folder (.json, .json.gz) and prints what structure recovery finds. A name that holds `llama8b`
or `qwen3moe` is of that model; with `eager` in it, the CPU operations in the file are the oracle.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import cpu_oracle
import polars as pl
import pytest

from assay.observe.importers.detect import open_trace
from assay.observe.operations import STEP_OPERATIONS
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import recover
from assay.observe.structure.summary import summarize

FOLDER = os.environ.get("ASSAY_TRACES")
MODELS = {"llama8b": "models/llama-3.1-8b", "qwen3moe": "models/qwen3-30b-a3b"}
PATHS = sorted(Path(FOLDER).glob("*.json*")) if FOLDER else []

pytestmark = pytest.mark.skipif(not PATHS, reason="ASSAY_TRACES names no folder of traces")


def raw(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_real_trace(path: Path) -> None:
    model = next((model for mark, model in MODELS.items() if mark in path.name), None)
    found = recover(open_trace(path), read_layout(model) if model else None)
    summary = summarize(found, "trace").to_json()
    steps = summary["steps"]
    phases = [step["phase"] for step in steps]
    print(
        f"\n{path.name}: {len(steps)} steps ({phases.count('prefill')} prefill, "
        f"{phases.count('decode')} decode, {phases.count('mixed')} mixed), "
        f"{100 * summary['mapped_share']:.3f} % of {summary['device_ns'] / 1e6:.3f} ms mapped, "
        f"degradations {summary['degradations']}"
    )
    events = raw(path)
    device = [event for event in events if event.get("cat") in cpu_oracle.DEVICE]
    assert summary["kernels"] == sum(event["cat"] == "kernel" for event in device)
    assert summary["copies"] == sum(event["cat"] != "kernel" for event in device)
    assert summary["device_ns"] == sum(round(1000 * event["dur"]) for event in device)
    if model is None:
        return
    assert summary["mapped_share"] >= 0.98
    assert all(step["complete"] for step in steps)
    operations = (
        found.trace.events.filter(pl.col("layer").is_not_null() & (pl.col("phase") == "decode"))
        .group_by("step", "layer")
        .agg(pl.col("op").cast(pl.String).sort().str.join(","))
    )
    assert operations["op"].n_unique() == 1
    if "eager" in path.name:
        agreement(events, found.trace.events, steps[0]["layers"])


def agreement(events: list[dict[str, Any]], mapped: pl.DataFrame, layers: int) -> None:
    """Compare with the callers; at least 99 % of kernels and of their time must agree."""
    oracle = cpu_oracle.expected(events, layers)
    device = mapped.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"])).select(
        "correlation", pl.col("layer").fill_null(-1), pl.col("op").cast(pl.String), "dur_ns"
    )
    count = time = right = right_time = 0
    wrong: dict[tuple[str, str], int] = {}
    for correlation, layer, operation, duration in device.iter_rows():
        _, where, expected = oracle[correlation]
        if expected == cpu_oracle.OUTSIDE:
            same = operation in STEP_OPERATIONS
        else:
            same = (layer, operation) == (where, expected)
        count, time = count + 1, time + duration
        right, right_time = right + same, right_time + duration * same
        if not same:
            wrong[expected, operation] = wrong.get((expected, operation), 0) + 1
    print(f"agreement with CPU operations: {100 * right / count:.3f} % of kernels and copies, "
          f"{100 * right_time / time:.3f} % of their time; differing: {wrong}")  # fmt: skip
    assert right / count >= 0.99
    assert right_time / time >= 0.99
