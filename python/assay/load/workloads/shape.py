"""The shape of a workload in a few figures: what a fingerprint and a lever's predicate ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.errors import InputError
from assay.load.workloads.texts import CountTokens, approximate_tokens
from assay.load.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """Lengths, load and sharing."""

    requests: int
    input_mean: float
    input_p50: int
    """Prompt tokens at the median; words and marks where neither the requests nor a tokenizer say."""
    input_p90: int
    output_mean: float
    output_p50: int
    output_p90: int
    arrival: str
    concurrency: int | None
    rate: float | None
    prefix_share: float
    """Tokens of prompts that another request begins with as well, of all prompt tokens."""

    def to_data(self) -> dict[str, Any]:
        """As data of JSON, rounded."""
        data = asdict(self)
        data |= {
            "input_mean": round(self.input_mean, 1),
            "output_mean": round(self.output_mean, 1),
            "prefix_share": round(self.prefix_share, 3),
        }
        data["rate"] = None if self.rate is None else float(f"{self.rate:.4g}")
        return data


def shape(workload: Workload, count: CountTokens | None = None) -> WorkloadShape:
    """The shape of a workload."""
    if not workload.requests:
        raise InputError(f"workload {workload.name}: expected requests, got none")
    counted = count or approximate_tokens
    inputs = [
        (0 if count else request.prompt_tokens) or max(1, counted(request.prompt))
        for request in workload.requests
    ]
    outputs = [request.max_tokens for request in workload.requests]
    shared = sum(request.prefix_tokens for request in workload.requests)
    return WorkloadShape(
        len(workload.requests),
        sum(inputs) / len(inputs),
        _percentile(inputs, 50),
        _percentile(inputs, 90),
        sum(outputs) / len(outputs),
        _percentile(outputs, 50),
        _percentile(outputs, 90),
        workload.arrival,
        workload.concurrency,
        workload.rate,
        min(1.0, shared / sum(inputs)),
    )


def _percentile(values: Sequence[int], percent: int) -> int:
    """The percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[-(-percent * len(ordered) // 100) - 1]
