"""Windows in other tools' formats: their keys and units, and the figures counted again from them."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest
from queues import queue_records

from assay.load.formats import FORMATS, to_llm_d, to_records, to_vllm
from assay.load.window import summarize
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Workload

REQUESTS = tuple(PlannedRequest(i, "words", 8 if i % 2 else 4) for i in range(20))
OPEN = Workload("chat", "talk", REQUESTS, "poisson", None, 3.5, slo=ServiceLevel(ttft_ms=200.0))
CLOSED = Workload("chat", "talk", REQUESTS, "closed", 4)

VLLM_KEYS = {
    "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts",
    "request_rate", "burstiness", "max_concurrency", "duration", "completed", "failed",
    "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
    "output_throughput", "total_token_throughput", "max_output_tokens_per_s",
    "max_concurrent_requests", "input_lens", "output_lens", "ttfts", "itls", "start_times", "errors",
    *(
        f"{kind}_{name}_ms"
        for kind in ("mean", "median", "std", "p50", "p90", "p95", "p99")
        for name in ("ttft", "tpot", "itl", "e2el")
    ),
}  # fmt: skip
"""What vLLM's result has, from its source; less what needs its own server (rtfx, texts)."""


def records() -> list[RequestRecord]:
    rng = np.random.default_rng(2)
    found = []
    for number in range(20):
        sent = number * 0.3
        gaps = tuple(float(gap) for gap in rng.exponential(0.02, 7 if number % 2 else 3))
        first = sent + float(rng.exponential(0.15))
        error = "HTTP 503: busy" if number == 5 else None
        end = first + sum(gaps)
        found.append(
            RequestRecord(
                number,
                sent,
                None if error else first,
                end,
                30 + number,
                0 if error else len(gaps) + 1,
                () if error else gaps,
                error,
                scheduled_s=sent,
            )
        )
    return found


def measured(workload: Workload = OPEN, found: list[RequestRecord] | None = None) -> Measurement:
    requests = found or records()
    seconds = max(one.end_s for one in requests)
    return summarize(
        workload,
        requests,
        seconds,
        started_at=1_700_000_000.0,
        settings={},
        details={"model": "m", "interface": "/v1/completions"},
    )


def test_the_result_of_vllm_bench_serve() -> None:
    data = json.loads(to_vllm(measured(), OPEN))
    assert set(data) == VLLM_KEYS | {"load_state", "client"}
    assert (data["request_rate"], data["max_concurrency"], data["num_prompts"]) == (3.5, None, 20)
    assert data["backend"] == "openai"
    assert (data["completed"], data["failed"]) == (19, 1)
    assert data["errors"][5] == "HTTP 503: busy"
    assert [len(data[key]) for key in ("input_lens", "output_lens", "ttfts", "itls")] == [20] * 4
    # Counted again from the lists, as a reader of the file would.
    good = [i for i in range(20) if not data["errors"][i]]
    ttfts = [data["ttfts"][i] for i in good]
    tpots = [sum(data["itls"][i]) / (data["output_lens"][i] - 1) for i in good]
    assert data["mean_ttft_ms"] == pytest.approx(1e3 * statistics.fmean(ttfts))
    assert data["median_ttft_ms"] == pytest.approx(1e3 * statistics.median(ttfts))
    assert data["std_ttft_ms"] == pytest.approx(1e3 * statistics.pstdev(ttfts))
    assert data["mean_tpot_ms"] == pytest.approx(1e3 * statistics.fmean(tpots))
    tokens = sum(data["output_lens"])
    assert data["output_throughput"] == pytest.approx(tokens / data["duration"])
    assert data["total_output_tokens"] == tokens
    kept = sum(ttft <= 0.2 for ttft in ttfts)
    assert data["request_goodput"] == pytest.approx(kept / data["duration"])


def test_a_closed_loop_has_no_rate_and_no_goodput() -> None:
    data = json.loads(to_vllm(measured(CLOSED), CLOSED))
    assert (data["request_rate"], data["max_concurrency"]) == ("inf", 4)
    assert data["request_goodput"] is None


def numbers(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return [found for value in data.values() for found in numbers(value)]
    return [data]


def test_the_report_of_llm_d() -> None:
    data = json.loads(to_llm_d(measured(), OPEN))
    assert (data["version"], list(data)) == ("0.2.1", ["version", "run", "scenario", "results"])
    assert data["run"]["time"]["start"] == "2023-11-14T22:13:20+00:00"
    load = data["scenario"]["load"]["standardized"]
    assert load["tool"] == "assay"
    assert load["rate_qps"] == 3.5
    assert load["output_seq_len"] == {
        "distribution": "other", "value": 6.0, "std_dev": 2.0, "min": 4, "max": 8,
    }  # fmt: skip
    aggregate = data["results"]["request_performance"]["aggregate"]
    assert (aggregate["requests"]["total"], aggregate["requests"]["failures"]) == (20, 1)
    ours = measured().figures
    for name, key, units in (
        ("time_to_first_token", "ttft", "ms"),
        ("time_per_output_token", "tpot", "ms/token"),
        ("inter_token_latency", "itl", "ms/token"),
        ("request_latency", "e2el", "ms"),
    ):
        found = aggregate["latency"][name]
        assert found["units"] == units
        assert found["mean"] == pytest.approx(ours[f"mean_{key}_ms"])
        assert found["p50"] == pytest.approx(ours[f"median_{key}_ms"])
        assert found["stddev"] == pytest.approx(ours[f"std_{key}_ms"])
        order = [
            "min",
            "p0p1",
            "p1",
            "p5",
            "p10",
            "p25",
            "p50",
            "p75",
            "p90",
            "p95",
            "p99",
            "p99p9",
            "max",
        ]
        values = [found[key] for key in order]
        assert values == sorted(values)
    rates = aggregate["throughput"]
    assert rates["request_rate"] == {"units": "queries/s", "mean": ours["request_throughput"]}
    both = rates["input_token_rate"]["mean"] + rates["output_token_rate"]["mean"]
    assert both == pytest.approx(rates["total_token_rate"]["mean"])
    assert None not in numbers(data)
    # The same window has the same name, another has another.
    assert json.loads(to_llm_d(measured(), OPEN))["run"] == data["run"]
    other = json.loads(to_llm_d(measured(found=records()[1:]), OPEN))
    assert other["run"]["uid"] != data["run"]["uid"]


def test_latencies_of_an_overloaded_window_are_in_no_summary() -> None:
    window = measured(found=queue_records(np.random.default_rng(1), load=2.0, variation=0.0))
    assert window.load_state == "overloaded"
    data = json.loads(to_vllm(window, OPEN))
    assert data["load_state"] == "overloaded"
    assert not [key for key in data if key.endswith("_ms")]
    report = json.loads(to_llm_d(window, OPEN))
    assert "latency" not in report["results"]["request_performance"]["aggregate"]


def test_records_come_back_as_they_were() -> None:
    lines = to_records(measured(), OPEN).splitlines()
    back = []
    for line in lines:
        data = json.loads(line)
        back.append(RequestRecord(**{**data, "itls_s": tuple(data["itls_s"])}))
    assert tuple(back) == measured().records


@pytest.mark.parametrize("name", FORMATS)
def test_a_window_in_which_everything_failed_can_be_written(name: str) -> None:
    failed = [RequestRecord(0, 0.0, None, 0.1, 0, 0, error="ConnectionRefusedError")]
    assert (
        "ConnectionRefusedError" in FORMATS[name](measured(found=failed), OPEN) or name == "llm-d"
    )
