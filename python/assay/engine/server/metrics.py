"""Prometheus metrics under vLLM's names and OpenTelemetry's names for generative AI.

Dashboards made for vLLM read the first, those made for OpenTelemetry the second. Dots in
OpenTelemetry's names become underscores, as in its Prometheus exporter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# The buckets of OpenTelemetry's semantic conventions for generative AI.
_FIRST_TOKEN: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_NEXT_TOKEN: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_DURATION: Final = tuple(0.01 * 2**power for power in range(14))
_TOKENS: Final = tuple(float(4**power) for power in range(10))

_VLLM: Final = ("model_name",)
_OTEL: Final = (
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "gen_ai_response_model",
)


class Metrics:
    """Counters and histograms of one server that serves one model."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._registry = CollectorRegistry()
        self._prompt_tokens = self._counter(
            "prompt_tokens",
            "Prompt tokens of accepted requests; a prompt of several choices counts once.",
        )
        self._tokens = self._counter(
            "generation_tokens",
            "Tokens generated, also those of requests that were aborted or failed.",
        )
        self._finished = self._counter(
            "request_success", "Finished requests by finish reason.", "finished_reason"
        )
        self._prompt_length = self._histogram(
            "vllm:request_prompt_tokens", "Tokens of a prompt.", _TOKENS
        )
        self._length = self._histogram(
            "vllm:request_generation_tokens", "Tokens of an output.", _TOKENS
        )
        self._queue = self._histogram(
            "vllm:request_queue_time_seconds", "Seconds from arrival to the first step.", _DURATION
        )
        first = "Seconds from arrival to the first token."
        self._first = self._histogram("vllm:time_to_first_token_seconds", first, _FIRST_TOKEN)
        self._first_otel = self._histogram(
            "gen_ai_server_time_to_first_token_seconds", first, _FIRST_TOKEN, _OTEL
        )
        self._gap = self._histogram(
            "vllm:inter_token_latency_seconds", "Seconds from token to token.", _FIRST_TOKEN
        )
        self._gap_otel = self._histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Seconds for each token after the first, averaged over an output.",
            _NEXT_TOKEN,
            _OTEL,
        )
        latency = "Seconds from arrival to the last token."
        self._latency = self._histogram("vllm:e2e_request_latency_seconds", latency, _DURATION)
        self._latency_otel = self._histogram(
            "gen_ai_server_request_duration_seconds", latency, _DURATION, (*_OTEL, "error_type")
        )

    def arrived(self, prompt_tokens: int) -> None:
        """A prompt was accepted."""
        self._prompt_tokens.labels(self._model).inc(prompt_tokens)
        self._prompt_length.labels(self._model).observe(prompt_tokens)

    def queued(self, seconds: float) -> None:
        """A finished request was queued for this long before its first step."""
        self._queue.labels(self._model).observe(seconds)

    def first_token(self, operation: str, seconds: float, tokens: int) -> None:
        """The first tokens of an output arrived."""
        self._tokens.labels(self._model).inc(tokens)
        self._first.labels(self._model).observe(seconds)
        self._first_otel.labels(*self._otel(operation)).observe(seconds)

    def next_tokens(self, seconds: float, tokens: int) -> None:
        """More tokens of an output arrived, this long after the last ones."""
        self._tokens.labels(self._model).inc(tokens)
        self._gap.labels(self._model).observe(seconds / tokens)

    def finished(self, operation: str, reason: str, tokens: int, first: float, last: float) -> None:
        """A request finished: why, its tokens, and its seconds to the first and to the last one."""
        self._finished.labels(self._model, reason).inc()
        self._length.labels(self._model).observe(tokens)
        self._latency.labels(self._model).observe(last)
        error = reason if reason in ("abort", "error") else ""
        self._latency_otel.labels(*self._otel(operation), error).observe(last)
        if tokens > 1:
            each = (last - first) / (tokens - 1)
            self._gap_otel.labels(*self._otel(operation)).observe(each)

    def text(self, statistics: Mapping[str, Any]) -> bytes:
        """All metrics in Prometheus text format, with the engine's statistics."""
        engine = CollectorRegistry()
        engine.register(_Engine(self._model, statistics))
        return generate_latest(engine) + generate_latest(self._registry)

    def _otel(self, operation: str) -> tuple[str, ...]:
        return (operation, "assay", self._model, self._model)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", meaning, (*_VLLM, *labels), registry=self._registry)

    def _histogram(
        self, name: str, meaning: str, buckets: Sequence[float], labels: Sequence[str] = _VLLM
    ) -> Histogram:
        return Histogram(name, meaning, labels, registry=self._registry, buckets=buckets)


class _Engine(Collector):
    """Collects the engine's statistics for a registry."""

    def __init__(self, model: str, statistics: Mapping[str, Any]) -> None:
        self._model = model
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        return engine_families(self._model, self._statistics)


def engine_families(model: str, statistics: Mapping[str, Any]) -> Iterator[Metric]:
    """The engine's statistics under vLLM's names."""
    used = statistics["used"] / statistics["blocks"]
    gauges = {
        "num_requests_running": ("Requests in the running batch.", statistics["running"]),
        "num_requests_waiting": ("Requests in the waiting queue.", statistics["waiting"]),
        "kv_cache_usage_perc": ("Share of the KV cache in use; 1 is all.", used),
    }
    counters = {
        "num_preemptions": ("Requests preempted to free KV blocks.", statistics["preemptions"]),
        "prefix_cache_queries": ("Prompt tokens looked up.", statistics["queried_tokens"]),
        "prefix_cache_hits": ("Prompt tokens found in the prefix cache.", statistics["hit_tokens"]),
    }
    for name, (meaning, value) in gauges.items():
        gauge = GaugeMetricFamily(f"vllm:{name}", meaning, labels=_VLLM)
        gauge.add_metric((model,), value)
        yield gauge
    for name, (meaning, value) in counters.items():
        counter = CounterMetricFamily(f"vllm:{name}", meaning, labels=_VLLM)
        counter.add_metric((model,), value)
        yield counter
