"""Launches one by one are told by the step's length; times are of vLLM 0.24 on an H200."""

from __future__ import annotations

import pytest

from assay.diagnose.live.expectation import Expectation
from assay.diagnose.live.session import host_launch
from assay.planner import hardware_spec, model_spec


@pytest.fixture(scope="module")
def expected() -> Expectation:
    specs = (
        model_spec("llama-3.1-8b"),
        hardware_spec("h200_sxm"),
        {"engine": "vllm", "kv_dtype": "bf16"},
    )
    return Expectation(_specs=specs)


def test_a_server_with_enforce_eager_is_launch_bound(expected: Expectation) -> None:
    # `vllm serve --enforce-eager` with the shape of Llama-3-8B, one request at a time.
    found = host_launch(expected, 1, 80, 13.31e6)
    assert found is not None
    assert found.name == "host launch"
    # The same server with graphs takes 4.83 ms.
    assert found.lo < 13.31e6 - 4.83e6 < found.hi
    assert "CUDA graphs" in found.evidence[0].statement
    assert "trace" in found.status


@pytest.mark.parametrize("step_ns", [4.83e6, 60e6])
def test_other_steps_are_not(expected: Expectation, step_ns: float) -> None:
    # With graphs as measured; and far beyond what launches explain.
    assert host_launch(expected, 1, 80, step_ns) is None


def test_without_a_prediction_nothing_is_said() -> None:
    assert host_launch(Expectation(), 1, 80, 13.31e6) is None
