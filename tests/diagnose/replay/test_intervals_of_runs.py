"""Intervals of a what-if hold what another run would measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from decode_traces import eager

from assay.diagnose.itemizing.profiler_cost import PYTORCH
from assay.diagnose.replay.changes import parse_all
from assay.diagnose.replay.planned_cost import Setting, ratios
from assay.diagnose.replay.whatif import RUN_ERROR, whatif
from assay.observe.structure.opening import open_recovered
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig


def test_another_run_differs_whatever_the_change_is(tmp_path: Path) -> None:
    recovered = open_recovered(eager().save(tmp_path / "trace.json"), None)
    answer = whatif(recovered.trace, parse_all(["host=1x"]))
    step = answer.after["step_ns"]
    assert answer.change.value == pytest.approx(0.0)
    assert step.hi / step.value >= 1 + RUN_ERROR
    assert step.lo / step.value <= 1 - RUN_ERROR


def test_kernels_grow_alike_however_they_are_launched() -> None:
    model, hardware = model_spec("llama-3.1-8b"), hardware_spec("h200_sxm")

    def grown(cuda_graphs: bool) -> float:
        batch = BatchConfig(sequences=1, context=48, cuda_graphs=cuda_graphs)
        before = Setting(model, hardware, batch)
        after = before.changed(parse_all(["batch=32", "context=4176"]))
        pair = before.replayed().graph(), after.replayed().graph()
        return ratios(*pair, {"attention"})["attention"]

    assert grown(cuda_graphs=False) == pytest.approx(grown(cuda_graphs=True))


def test_what_recording_cost_is_not_replayed(tmp_path: Path) -> None:
    """A step that its launches bound is shorter by the records of the thread that launches."""
    trace = open_recovered(eager().save(tmp_path / "trace.json"), None).trace
    assert trace.header.source == "kineto"
    answer = whatif(trace, parse_all(["host=1x"]))
    kinds = trace.events["kind"].cast(pl.String)
    steps = trace.steps.height
    calls = int(kinds.is_in(["api", "sync"]).sum()) / steps
    operations = int((kinds == "host").sum()) / steps
    observed = float(np.median(np.diff(trace.steps["start_ns"].to_numpy())))
    saved = observed - answer.before["step_ns"].value
    assert abs(answer.self_replay_error) < 0.02
    assert 0 < saved <= 1.2 * (calls * PYTORCH.call_ns + operations * PYTORCH.operation_ns)
    assert any("its recording cost" in note for note in answer.notes)
