"""Figures of a window beside those that `vllm bench serve` itself computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.load.metrics import figures, is_latency
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import ServiceLevel

ORACLE = json.loads(
    (Path(__file__).parents[1] / "data" / "vllm_bench_serve_metrics.json").read_text()
)
RENAMED = {"total_input": "total_input_tokens", "total_output": "total_output_tokens"}
NOT_OURS = {"rtfx", "request_goodput"}


def records(requests: list[dict[str, Any]]) -> list[RequestRecord]:
    return [
        RequestRecord(
            number,
            one["start"],
            one["start"] + one["ttft"] if one["ok"] else None,
            one["start"] + one["ttft"] + sum(one["itl"]),
            one["prompt"],
            one["tokens"],
            tuple(one["itl"]),
            None if one["ok"] else "boom",
        )
        for number, one in enumerate(requests)
    ]


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: str(len(case["requests"])))
def test_every_figure_equals_that_of_vllm(case: dict[str, Any]) -> None:
    slo = ServiceLevel(**{f"{name}_ms": limit for name, limit in case["slo"].items()})
    found = figures(records(case["requests"]), case["duration"], slo)
    expected: dict[str, float] = {}
    for name, value in case["expected"].items():
        if name.startswith("percentiles_"):
            latency = name.removeprefix("percentiles_")
            expected |= {f"p{percentile:g}_{latency}": figure for percentile, figure in value}
        elif name not in NOT_OURS:
            expected[RENAMED.get(name, name)] = value
    if case["slo"]:
        expected["request_goodput"] = case["expected"]["request_goodput"]
    # vLLM prints zeros for a latency without a sample; here it has no figure.
    has_several = any(one["ok"] and one["tokens"] > 1 for one in case["requests"])
    if not has_several:
        expected = {
            name: value
            for name, value in expected.items()
            if not name.endswith(("_tpot_ms", "_itl_ms"))
        }
    assert set(found) == {*expected, "duration"}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def test_tokens_of_one_chunk_all_count() -> None:
    # Two chunks of four tokens, as speculative decoding sends them: TPOT divides by the seven
    # tokens after the first, the peak counts eight tokens.
    one = RequestRecord(0, 0.0, 0.1, 0.8, 10, 8, itls_s=(0.7,))
    found = figures([one], 1.0)
    assert found["mean_tpot_ms"] == pytest.approx(100.0)
    assert found["mean_itl_ms"] == pytest.approx(700.0)
    assert found["output_throughput"] == 8.0
    assert found["max_output_tokens_per_s"] == 8.0


def test_a_window_without_a_success_has_no_latency() -> None:
    failed = RequestRecord(0, 0.0, None, 1.0, 10, 0, error="connection refused")
    found = figures([failed], 1.0, ServiceLevel(ttft_ms=10.0))
    assert found["failed"] == 1.0
    assert found["output_throughput"] == found["request_goodput"] == 0.0
    assert not [name for name in found if name.endswith("_ms")]


def test_a_limit_itself_is_kept() -> None:
    one = RequestRecord(0, 0.0, 0.25, 0.25, 10, 1)
    assert figures([one], 1.0, ServiceLevel(ttft_ms=250.0))["request_goodput"] == 1.0
    assert figures([one], 1.0, ServiceLevel(ttft_ms=249.0))["request_goodput"] == 0.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mean_itl_ms", True), ("request_goodput", True), ("request_throughput", False)],
)
def test_what_counts_as_a_latency(name: str, expected: bool) -> None:
    assert is_latency(name) is expected
