"""launch=graph, host and overlap: replays against the same machine run again."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_machine import Machine

from assay.diagnose.replay import graph_capture, scenario
from assay.diagnose.replay.changes import Amount
from assay.diagnose.replay.scenario import Scenario
from assay.diagnose.replay.step_times import step_times
from assay.errors import InputError


def truth(**fields: object) -> float:
    starts = Machine(**fields).run().steps["start_ns"].to_numpy()  # type: ignore[arg-type]
    return float(np.median(np.diff(starts)))


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("between", [5_000, 40_000, 150_000])
def test_eager_to_graph(behind: int, between: int) -> None:
    found = Scenario.of(Machine(behind=behind, between_ns=between).run())
    graph_capture.capture(found, node_gap_ns=1_000)
    # The last host work of a pass, before its copy, stays: the machine's is `between` once.
    expected = truth(behind=behind, between_ns=between, graph=True)
    assert step_times(found).median() == pytest.approx(expected, rel=0.02)


def test_graphs_are_not_captured_twice() -> None:
    found = Scenario.of(Machine(graph=True).run())
    with pytest.raises(InputError, match="run in graphs already"):
        graph_capture.capture(found)


def test_the_gap_of_graphs_is_said_where_the_trace_has_none() -> None:
    found = Scenario.of(Machine(between_ns=500).run())
    graph_capture.capture(found)
    assert any("416 ns, as in graphs of vLLM" in note for note in found.notes)


@pytest.mark.parametrize("behind", [0, 1])
def test_no_host_work(behind: int) -> None:
    # Some kernels wait for the stream, which shows its gap.
    found = Scenario.of(Machine(behind=behind, between_ns=15_000).run())
    scenario.scale_host(found, Amount(factor=0.0))
    # Without host work the launches come at once, and the stream decides.
    bare = {"between_ns": 0, "schedule_ns": 0, "launch_ns": 0}
    assert step_times(found).median() == pytest.approx(truth(behind=behind, **bare), rel=0.05)


def test_host_work_takes_a_factor() -> None:
    found = Scenario.of(Machine().run())
    with pytest.raises(InputError, match="expected a factor"):
        scenario.scale_host(found, Amount(ns=5.0))


def test_copies_beside_kernels() -> None:
    machine = Machine(between_ns=500)
    trace = machine.run()
    with pytest.raises(InputError, match="no copy of the trace delays a kernel"):
        scenario.overlap_copies(Scenario.of(trace))


def test_names_that_match_nothing() -> None:
    found = Scenario.of(Machine().run())
    with pytest.raises(InputError, match="no kernel or copy of the trace has such a name"):
        scenario.of_name(found, "cutlass", "kernel:cutlass=0.5x")
    with pytest.raises(InputError, match="the trace has no kernels of rope"):
        scenario.of_operation(found, "rope", "op:rope=0.5x")
    assert scenario.of_name(found, "^gate", "").sum() == 12 * 6
