"""Windows in formats of other tools: the result of `vllm bench serve`, the benchmark report of llm-d.

`records` is our own: one JSON object a line, a request each, as exact as it was measured. Latencies of
an overloaded window are in none of the summaries; the lists of single requests have them.
"""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from assay.array_types import Floats
from assay.load.metrics import latencies_ms, limits_ms, succeeded
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import Workload

LLM_D_VERSION: Final = "0.2.1"

_COUNTS: Final = (
    "completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests",
)  # fmt: skip


def to_vllm(measurement: Measurement, workload: Workload, burstiness: float = 1.0) -> str:
    """The JSON of `vllm bench serve --save-result --save-detailed`.

    `load_state` and `client` are additional, where vLLM writes its `--metadata`.
    """
    records = measurement.records
    details = measurement.details
    backend = "openai-chat" if "chat" in str(details.get("interface")) else "openai"
    rate = "inf" if workload.rate is None else workload.rate
    data: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S", time.localtime(measurement.started_at)),
        "endpoint_type": backend,
        "backend": backend,
        "label": workload.name,
        "model_id": details.get("model"),
        "tokenizer_id": None,
        "num_prompts": len(records),
        "load_state": measurement.load_state,
        "client": "assay",
        "request_rate": rate,
        "burstiness": burstiness,
        "max_concurrency": workload.concurrency,
    }
    figures = dict(measurement.figures)
    if not limits_ms(workload.slo):
        figures["request_goodput"] = None  # type: ignore[assignment]
    for name in _COUNTS:
        if name in figures:
            figures[name] = int(figures[name])
    data |= figures
    data |= {
        "input_lens": [record.prompt_tokens for record in records],
        "output_lens": [record.output_tokens if succeeded(record) else 0 for record in records],
        "ttfts": [
            0.0 if record.first_token_s is None else record.first_token_s - record.sent_s
            for record in records
        ],
        "itls": [list(record.itls_s) for record in records],
        "start_times": [record.sent_s for record in records],
        "errors": [record.error or "" for record in records],
    }
    return json.dumps(data, indent=1) + "\n"


def to_records(measurement: Measurement, workload: Workload) -> str:
    """One line of JSON for each request; times are seconds from the window's start."""
    del workload
    return "".join(json.dumps(dataclasses.asdict(record)) + "\n" for record in measurement.records)


def to_llm_d(measurement: Measurement, workload: Workload) -> str:
    """The benchmark report of llm-d-benchmark, version 0.2.1, as JSON."""
    from assay._native import build_info

    start = datetime.fromtimestamp(measurement.started_at, UTC)
    end = datetime.fromtimestamp(measurement.started_at + measurement.seconds, UTC)
    done = [record for record in measurement.records if succeeded(record)]
    lengths = np.array([record.prompt_tokens for record in done], dtype=np.float64)
    outputs = np.array([request.max_tokens for request in workload.requests], dtype=np.float64)
    standardized: dict[str, Any] = {
        "tool": "assay",
        "tool_version": build_info()["version"],
        "parallelism": 1,
        "source": "random" if workload.source == "built-in" else "sampled",
        "input_seq_len": _sequence_length(lengths),
        "output_seq_len": _sequence_length(outputs) if outputs.size else None,
        "rate_qps": workload.rate,
        "concurrency": workload.concurrency,
    }
    report = {
        "version": LLM_D_VERSION,
        "run": {
            # The same window always has the same name.
            "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, _identity(measurement))),
            "time": {
                "start": start.isoformat(),
                "end": end.isoformat(),
                "duration": f"PT{measurement.seconds:.6f}S",
            },
            "description": f"assay load, workload {workload.name}: {measurement.load_state}",
        },
        "scenario": {
            "load": {
                "metadata": {"description": workload.description},
                "standardized": standardized,
                "native": {"config": {"arrival": workload.arrival, "source": workload.source}},
            }
        },
        "results": {"request_performance": {"aggregate": _aggregate(measurement, done, lengths)}},
    }
    return json.dumps(_without_none(report), indent=1) + "\n"


FORMATS: Final[Mapping[str, Callable[[Measurement, Workload], str]]] = {
    "vllm": to_vllm,
    "llm-d": to_llm_d,
    "records": to_records,
}
"""Writers by the name of their format."""


def _aggregate(
    measurement: Measurement, done: Sequence[RequestRecord], lengths: Floats
) -> dict[str, Any]:
    figures = measurement.figures
    tokens = np.array([record.output_tokens for record in done], dtype=np.float64)
    throughput = {
        "output_token_rate": _rate(figures.get("output_throughput"), "tokens/s"),
        "total_token_rate": _rate(figures.get("total_token_throughput"), "tokens/s"),
        "request_rate": _rate(figures.get("request_throughput"), "queries/s"),
    }
    if measurement.seconds > 0 and done:
        throughput["input_token_rate"] = _rate(lengths.sum() / measurement.seconds, "tokens/s")
    aggregate: dict[str, Any] = {
        "requests": {
            "total": len(measurement.records),
            "failures": len(measurement.records) - len(done),
            "input_length": _statistics(lengths, "count"),
            "output_length": _statistics(tokens, "count"),
        },
        "throughput": throughput,
    }
    if measurement.load_state != "overloaded":
        values = latencies_ms(done)
        aggregate["latency"] = {
            "time_to_first_token": _statistics(values["ttft"], "ms"),
            "time_per_output_token": _statistics(values["tpot"], "ms/token"),
            "inter_token_latency": _statistics(values["itl"], "ms/token"),
            "request_latency": _statistics(values["e2el"], "ms"),
        }
    return aggregate


def _statistics(values: Floats, units: str) -> dict[str, Any] | None:
    if not values.size:
        return None
    statistics = {
        "units": units,
        "mean": float(values.mean()),
        "stddev": float(values.std()),
        "min": float(values.min()),
    }
    for percentile in (0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9):
        name = f"p{percentile:g}".replace(".", "p")
        statistics[name] = float(np.percentile(values, percentile))
    return statistics | {"max": float(values.max())}


def _rate(value: float | None, units: str) -> dict[str, Any] | None:
    return None if value is None else {"units": units, "mean": float(value)}


def _sequence_length(values: Floats) -> dict[str, Any]:
    if not values.size:
        return {"distribution": "other", "value": 0}
    if values.min() == values.max():
        return {"distribution": "fixed", "value": int(values[0])}
    return {
        "distribution": "other",
        "value": float(values.mean()),
        "std_dev": float(values.std()),
        "min": int(values.min()),
        "max": int(values.max()),
    }


def _identity(measurement: Measurement) -> str:
    ends = ",".join(f"{record.number}:{record.end_s!r}" for record in measurement.records)
    return f"{measurement.workload}|{measurement.started_at!r}|{ends}"


def _without_none(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_none(value) for key, value in data.items() if value is not None}
    return data
