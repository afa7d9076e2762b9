"""Ranking a launch-bound engine: the replay of its own trace names the lever and its gain."""

import os
from pathlib import Path

import pytest
from decode_traces import KERNELS, eager
from policy_situations import candidate, description, known, lever, measurement, workload

from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction
from assay.improve.policy.predictors import whatif
from assay.observe.structure.recovery import recover
from assay.observe.trace import Trace

GRAPHS = lever("graphs", "enforce_eager", False, changes=("launch=graph",))
ONE = candidate("graphs", "enforce_eager", False, hot=False)


def situation(trace: Trace, tpot_ms: float) -> Known:
    return known(
        description=description(engine="vllm", capabilities=frozenset({"cuda"})),
        settings={"enforce_eager": True},
        workload=workload(1),
        levers={"graphs": GRAPHS},
        # No prefill: all of the time is in decode steps.
        baseline=measurement(mean_tpot_ms=tpot_ms, output_throughput=1e3 / tpot_ms),
        trace=trace,
    )


def opened(path: Path) -> Trace:
    from assay.observe.importers.kineto import read

    return recover(read(path)).trace


def test_graphs_of_a_launch_bound_trace_gain_what_the_launches_took(tmp_path: Path) -> None:
    """By hand: a launch each 30 us against kernels of some 6 us; graphs leave the kernels."""
    written = eager()
    trace = opened(written.save(tmp_path / "eager.json"))
    step_ns = sorted(written.step_ns())[len(written.step_ns()) // 2]
    kernels_ns = sum(took for _, took, _ in KERNELS)
    answer = whatif.predict(ONE, situation(trace, step_ns / 1e6))
    assert isinstance(answer, Prediction)
    assert answer.ratio.lo <= answer.ratio.value <= answer.ratio.hi
    # At best the kernels alone remain; the copy, waits and gaps between nodes are some of the rest.
    assert 0.6 * step_ns / kernels_ns < answer.ratio.value < step_ns / kernels_ns
    assert "launch=graph" in answer.by


def test_time_that_only_the_recording_took_is_no_gain(tmp_path: Path) -> None:
    written = eager()
    trace = opened(written.save(tmp_path / "eager.json"))
    step_ms = written.step_ns()[3] / 1e6
    plain = whatif.predict(ONE, situation(trace, step_ms))
    untraced = whatif.predict(ONE, situation(trace, 0.6 * step_ms))
    assert isinstance(plain, Prediction)
    assert isinstance(untraced, Prediction)
    # The host may have been slower for the recording, or for another reason: both are inside.
    assert untraced.ratio.lo < 0.6 * plain.ratio.value
    assert untraced.ratio.value < plain.ratio.value < untraced.ratio.hi


FOLDER = os.environ.get("ASSAY_TRACES")


@pytest.mark.skipif(not FOLDER, reason="ASSAY_TRACES names no folder of traces")
def test_eager_vllm_is_predicted_within_the_interval() -> None:
    """Measured without a profiler: 13.9 ms a step eager, 4.84 ms with graphs."""
    trace = opened(Path(FOLDER or "") / "vllm_llama8b_eager_b1.json.gz")
    answer = whatif.predict(ONE, situation(trace, 13.9))
    assert isinstance(answer, Prediction)
    assert answer.ratio.lo < 13.9 / 4.84 < answer.ratio.hi
    assert answer.ratio.value == pytest.approx(13.9 / 4.84, rel=0.15)
