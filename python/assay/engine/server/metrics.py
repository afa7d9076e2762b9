"""Prometheus metrics under vLLM's names and OpenTelemetry's names for generative AI.

Dashboards made for vLLM read the first, those made for OpenTelemetry the second. Dots in
OpenTelemetry's names become underscores, as in its Prometheus exporter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from assay.engine.core.device_sharing import ShareStatistics

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


class Families:
    """The counters and histograms of a server, labeled by model."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.prompt_tokens = self._counter(
            "prompt_tokens",
            "Prompt tokens of accepted requests; a prompt of several choices counts once.",
        )
        self.tokens = self._counter(
            "generation_tokens",
            "Tokens generated, also those of requests that were aborted or failed.",
        )
        self.finished = self._counter(
            "request_success", "Finished requests by finish reason.", "finished_reason"
        )
        self.prompt_length = self._histogram(
            "vllm:request_prompt_tokens", "Tokens of a prompt.", _TOKENS
        )
        self.length = self._histogram(
            "vllm:request_generation_tokens", "Tokens of an output.", _TOKENS
        )
        self.queue = self._histogram(
            "vllm:request_queue_time_seconds", "Seconds from arrival to the first step.", _DURATION
        )
        first = "Seconds from arrival to the first token."
        self.first = self._histogram("vllm:time_to_first_token_seconds", first, _FIRST_TOKEN)
        self.first_otel = self._histogram(
            "gen_ai_server_time_to_first_token_seconds", first, _FIRST_TOKEN, _OTEL
        )
        self.gap = GapHistogram(
            "vllm:inter_token_latency_seconds", "Seconds from token to token.", _FIRST_TOKEN
        )
        self.registry.register(self.gap)
        self.gap_otel = self._histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Seconds for each token after the first, averaged over an output.",
            _NEXT_TOKEN,
            _OTEL,
        )
        latency = "Seconds from arrival to the last token."
        self.latency = self._histogram("vllm:e2e_request_latency_seconds", latency, _DURATION)
        self.latency_otel = self._histogram(
            "gen_ai_server_request_duration_seconds", latency, _DURATION, (*_OTEL, "error_type")
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", meaning, (*_VLLM, *labels), registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, buckets: Sequence[float], labels: Sequence[str] = _VLLM
    ) -> Histogram:
        return Histogram(name, meaning, labels, registry=self.registry, buckets=buckets)


class Gaps:
    """Seconds between the tokens of one model, counted by bucket."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float, count: int) -> None:
        """Count equal ones; the event loop alone calls it, tens of thousands of times a second."""
        self.counts[bisect_left(self._bounds, seconds)] += count
        self.total += seconds * count


class GapHistogram(Collector):
    """A histogram by model whose observations take a tenth of the time of the library's."""

    def __init__(self, name: str, meaning: str, bounds: Sequence[float]) -> None:
        self._name, self._meaning, self._bounds = name, meaning, bounds
        self._by_model: dict[str, Gaps] = {}

    def of(self, model: str) -> Gaps:
        """The counts of a model."""
        return self._by_model.setdefault(model, Gaps(self._bounds))

    def collect(self) -> Iterator[Metric]:
        """The cumulative counts, as Prometheus has them."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=_VLLM)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for model, gaps in self._by_model.items():
            buckets = list(zip(names, accumulate(gaps.counts), strict=True))
            family.add_metric((model,), buckets, gaps.total)
        yield family


class Metrics:
    """The counters and histograms of one model; models of one server share the families."""

    def __init__(self, model: str, families: Families | None = None) -> None:
        self._model = model
        self._families = families or Families()

    def arrived(self, prompt_tokens: int) -> None:
        """A prompt was accepted."""
        self._families.prompt_tokens.labels(self._model).inc(prompt_tokens)
        self._families.prompt_length.labels(self._model).observe(prompt_tokens)

    def queued(self, seconds: float) -> None:
        """A finished request was queued for this long before its first step."""
        self._families.queue.labels(self._model).observe(seconds)

    def generated(self, tokens: int) -> None:
        """Tokens of a step arrived."""
        self._tokens.inc(tokens)

    def first_token(self, operation: str, seconds: float) -> None:
        """The first tokens of an output arrived."""
        self._families.first.labels(self._model).observe(seconds)
        self._families.first_otel.labels(*self._otel(operation)).observe(seconds)

    def next_tokens(self, seconds: float, tokens: int) -> None:
        """More tokens of an output arrived, this long after the last ones."""
        self._gaps.observe(seconds / tokens, tokens)

    @cached_property
    def _tokens(self) -> Counter:
        return self._families.tokens.labels(self._model)

    @cached_property
    def _gaps(self) -> Gaps:
        return self._families.gap.of(self._model)

    def finished(self, operation: str, reason: str, tokens: int, first: float, last: float) -> None:
        """A request finished: why, its tokens, and its seconds to the first and to the last one."""
        self._families.finished.labels(self._model, reason).inc()
        self._families.length.labels(self._model).observe(tokens)
        self._families.latency.labels(self._model).observe(last)
        error = reason if reason in ("abort", "error") else ""
        self._families.latency_otel.labels(*self._otel(operation), error).observe(last)
        if tokens > 1:
            each = (last - first) / (tokens - 1)
            self._families.gap_otel.labels(*self._otel(operation)).observe(each)

    def text(self, statistics: Mapping[str, Any]) -> bytes:
        """All metrics in Prometheus text format, with the statistics of the one engine."""
        return exposition(self._families, {self._model: statistics})

    def _otel(self, operation: str) -> tuple[str, ...]:
        return (operation, "assay", self._model, self._model)


def exposition(
    families: Families,
    statistics: Mapping[str, Mapping[str, Any]],
    shares: Sequence[ShareStatistics] = (),
) -> bytes:
    """All metrics in Prometheus text format, with the statistics of each model's engine."""
    engines = CollectorRegistry()
    engines.register(_Engines(statistics, shares))
    return generate_latest(engines) + generate_latest(families.registry)


class _Engines(Collector):
    """Collects the engines' statistics for a registry."""

    def __init__(
        self, statistics: Mapping[str, Mapping[str, Any]], shares: Sequence[ShareStatistics]
    ) -> None:
        self._statistics = statistics
        self._shares = shares

    def collect(self) -> Iterator[Metric]:
        yield from engine_families(self._statistics)
        if self._shares:
            yield from share_families(self._shares)


def engine_families(statistics: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    """The statistics of each model's engine under vLLM's names."""
    gauges: dict[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
        "num_requests_running": ("Requests in the running batch.", itemgetter("running")),
        "num_requests_waiting": ("Requests in the waiting queue.", itemgetter("waiting")),
        "kv_cache_usage_perc": (
            "Share of the KV cache in use; 1 is all.",
            lambda counts: counts["used"] / counts["blocks"],
        ),
    }
    counters = {
        "num_preemptions": ("Requests preempted to free KV blocks.", "preemptions"),
        "prefix_cache_queries": ("Prompt tokens looked up.", "queried_tokens"),
        "prefix_cache_hits": ("Prompt tokens found in the prefix cache.", "hit_tokens"),
        "spec_decode_num_drafts": ("Drafts that were verified.", "drafts"),
        "spec_decode_num_draft_tokens": ("Draft tokens.", "drafted_tokens"),
        "spec_decode_num_accepted_tokens": ("Draft tokens accepted.", "accepted_tokens"),
    }
    seconds = {
        "step_device": ("Device time of steps on a GPU.", "device_ns"),
        "step_idle": ("Time in which a GPU waited for the next step of requests.", "idle_ns"),
    }
    for name, (meaning, key) in seconds.items():
        counter = CounterMetricFamily(f"assay:{name}_seconds", meaning, labels=_VLLM)
        for model, counts in statistics.items():
            counter.add_metric((model,), 1e-9 * counts.get(key, 0))
        yield counter
    steps = CounterMetricFamily("assay:engine_steps", "Steps of the engine.", labels=_VLLM)
    for model, counts in statistics.items():
        steps.add_metric((model,), counts.get("steps", 0))
    yield steps
    for name, (meaning, value_of) in gauges.items():
        gauge = GaugeMetricFamily(f"vllm:{name}", meaning, labels=_VLLM)
        for model, counts in statistics.items():
            gauge.add_metric((model,), value_of(counts))
        yield gauge
    yield _sleep_state(statistics)
    for name, (meaning, key) in counters.items():
        counter = CounterMetricFamily(f"vllm:{name}", meaning, labels=_VLLM)
        for model, counts in statistics.items():
            counter.add_metric((model,), counts[key])
        yield counter


def _sleep_state(statistics: Mapping[str, Mapping[str, Any]]) -> Metric:
    """Which engines sleep, as vLLM tells it."""
    gauge = GaugeMetricFamily(
        "vllm:engine_sleep_state",
        "1 for the state of the engine: awake, or weights_offloaded to host memory.",
        labels=(*_VLLM, "sleep_state"),
    )
    for model, counts in statistics.items():
        gauge.add_metric((model, "awake"), 1 - counts["asleep"])
        gauge.add_metric((model, "weights_offloaded"), counts["asleep"])
    return gauge


def share_families(shares: Sequence[ShareStatistics]) -> Iterator[Metric]:
    """What models that share a device were promised and what they got."""

    def family(kind: Any, name: str, meaning: str, values: Sequence[float | None]) -> Metric:
        metric: Metric = kind(f"assay:{name}", meaning, labels=_VLLM)
        for one, value in zip(shares, values, strict=True):
            if value is not None:
                metric.add_metric((one.share.name,), value)  # type: ignore[attr-defined]
        return metric

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield family(
        gauge,
        "device_share_requested",
        "Share of device time while every model has work; 1 is all.",
        [share.share.percent / 100 for share in shares],
    )
    yield family(
        gauge,
        "device_share_achieved",
        "Share of all models' device time in the last second in which the model had work.",
        [share.achieved for share in shares],
    )
    yield family(
        counter,
        "device_time_seconds",
        "Device time of the model's work.",
        [share.device_seconds for share in shares],
    )
    yield family(
        gauge,
        "device_share_guaranteed",
        "1 if the share is guaranteed, else 0.",
        [float(share.share.guaranteed) for share in shares],
    )
    yield family(
        counter,
        "device_share_windows",
        "Seconds under load in which the share was measured.",
        [share.windows for share in shares],
    )
    yield family(
        counter,
        "guarantee_misses",
        "Those seconds in which a guaranteed model got less while others got more than the rest.",
        [share.misses for share in shares],
    )
    yield family(
        gauge,
        "memory_quota_bytes",
        "Device memory it may use.",
        [share.quota_bytes for share in shares],
    )
    yield family(
        gauge, "memory_used_bytes", "Device memory it uses.", [share.used_bytes for share in shares]
    )
    yield family(
        gauge,
        "task_admitted",
        "1 if the scheduler has admitted the model's task, else 0.",
        [float(share.state in ("admitted", "running")) for share in shares],
    )
