"""Counterfactuals: a replay under other durations against the same machine run again."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from simulated_machine import KERNELS, Machine

from assay.diagnose.replay import clock
from assay.diagnose.replay.edges import dependencies
from assay.observe.trace import Trace

BASE = {"attention": 9_000, "gate_up_proj": 30_000, "down_proj": 18_000}


def step_ns(starts: np.ndarray) -> float:
    return float(np.median(np.diff(starts)))


def replayed_step(trace: Trace, factors: dict[str, float]) -> float:
    edges = dependencies(trace)
    start = trace.events["start_ns"].to_numpy()[edges.rows]
    factor = trace.events["op"].cast(pl.String).replace_strict(factors, default=1.0)
    work = (edges.work_ns * factor.to_numpy()[edges.rows]).astype(np.int64)
    found = clock.run(edges, start, work_ns=work)
    step = trace.events["step"].fill_null(-1).to_numpy()[edges.rows]
    first = [found.start[step == one].min() for one in range(int(step.max()) + 1)]
    return step_ns(np.array(first))


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("between", [1_000, 15_000, 45_000])
@pytest.mark.parametrize(
    "factors",
    [{"attention": 0.25}, {"gate_up_proj": 0.5, "down_proj": 0.5}, {"attention": 6.0},
     dict.fromkeys(KERNELS, 3.0), dict.fromkeys(KERNELS, 0.1)],
    ids=str,
)  # fmt: skip
def test_replay_finds_the_step_of_the_changed_machine(
    behind: int, graph: bool, between: int, factors: dict[str, float]
) -> None:
    machine: dict[str, Any] = {"behind": behind, "graph": graph, "between_ns": between}
    trace = Machine(**machine, kernel_ns=dict(BASE)).run()
    changed = {name: int(time * factors.get(name, 1.0)) for name, time in BASE.items()}
    truth = step_ns(Machine(**machine, kernel_ns=changed).run().steps["start_ns"].to_numpy())
    assert replayed_step(trace, factors) == pytest.approx(truth, rel=0.02)
