"""Metrics of the servers we know, under our field names; each from the server's own list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.observe.telemetry.sources.exposition import Scrape, split

Names = tuple[str, ...]

_HISTOGRAMS: Final = ("ttft", "itl", "e2e", "queue")

SERVERS: Final[dict[str, dict[str, Names]]] = {
    "vllm:": {
        "engine_requests_running": ("vllm:num_requests_running",),
        "engine_requests_waiting": ("vllm:num_requests_waiting",),
        "engine_kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "engine_preemptions": ("vllm:num_preemptions_total",),
        "engine_prefix_cache_queries": ("vllm:prefix_cache_queries_total",),
        "engine_prefix_cache_hits": ("vllm:prefix_cache_hits_total",),
        "engine_prompt_tokens": ("vllm:prompt_tokens_total",),
        "engine_generation_tokens": ("vllm:generation_tokens_total",),
        "engine_requests_finished": ("vllm:request_success_total",),
        "ttft": ("vllm:time_to_first_token_seconds",),
        "itl": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        "e2e": ("vllm:e2e_request_latency_seconds",),
        "queue": ("vllm:request_queue_time_seconds",),
    },
    "sglang:": {
        "engine_requests_running": ("sglang:num_running_reqs",),
        "engine_requests_waiting": ("sglang:num_queue_reqs",),
        "engine_kv_cache_usage": ("sglang:token_usage",),
        "engine_prompt_tokens": ("sglang:prompt_tokens_total",),
        "engine_generation_tokens": ("sglang:generation_tokens_total",),
        "engine_requests_finished": ("sglang:num_requests_total",),
        "ttft": ("sglang:time_to_first_token_seconds",),
        "itl": ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        "e2e": ("sglang:e2e_request_latency_seconds",),
    },
    "llamacpp:": {
        "engine_requests_running": ("llamacpp:requests_processing",),
        "engine_requests_waiting": ("llamacpp:requests_deferred",),
        "engine_kv_cache_usage": ("llamacpp:kv_cache_usage_ratio",),
        "engine_prompt_tokens": ("llamacpp:prompt_tokens_total",),
        "engine_generation_tokens": ("llamacpp:tokens_predicted_total",),
    },
    "tgi_": {
        "engine_requests_running": ("tgi_batch_current_size",),
        "engine_requests_waiting": ("tgi_queue_size",),
        "engine_requests_finished": ("tgi_request_success", "tgi_request_success_total"),
        "engine_generation_tokens": ("tgi_request_generated_tokens_sum",),
        "engine_prompt_tokens": ("tgi_request_input_length_sum",),
        "e2e": ("tgi_request_duration",),
        "queue": ("tgi_request_queue_duration",),
    },
}
"""Metrics by the prefix of the server's names; where there are several, the newest name first."""

USAGE: Final[dict[str, Names]] = {
    "input": ("vllm:request_prompt_tokens", "tgi_request_input_length"),
    "output": ("vllm:request_generation_tokens", "tgi_request_generated_tokens"),
}
"""Histograms of tokens of a request, by OpenTelemetry's type of token."""

_AVERAGED: Final = ("engine_kv_cache_usage",)
"""Fields of several engines behind one endpoint that are averaged; the others are summed."""

_KINDS: Final = {"vllm:": "vLLM", "sglang:": "SGLang", "llamacpp:": "llama.cpp", "tgi_": "TGI"}


def recognize(scrape: Scrape) -> tuple[str, dict[str, float]]:
    """What kind of server a scrape is of, and its values under our names."""
    by_name: dict[str, list[float]] = {}
    own = False
    for key, value in scrape.series.items():
        name = key.partition("{")[0].rstrip()
        if name.endswith("_bucket"):
            continue
        by_name.setdefault(name, []).append(value)
        own = own or (
            name.startswith("gen_ai_") and split(key)[1].get("gen_ai_provider_name") == "assay"
        )
    for prefix, fields in SERVERS.items():
        if any(name.startswith(prefix) for name in by_name):
            kind = "assay" if own and prefix == "vllm:" else _KINDS[prefix]
            return kind, _values(by_name, fields)
    return "unknown server", {}


def histogram_name(scrape: Mapping[str, float], which: str) -> str | None:
    """The server's own name of a histogram: ttft, itl, e2e, queue, or tokens: input, output."""
    names = [name for fields in SERVERS.values() for name in fields.get(which, ())]
    for name in (*names, *USAGE.get(which, ())):
        if any(key.startswith(f"{name}_bucket") for key in scrape):
            return name
    return None


def _values(by_name: Mapping[str, list[float]], fields: Mapping[str, Names]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for field, names in fields.items():
        for name in names:
            if field in _HISTOGRAMS:
                if f"{name}_count" not in by_name:
                    continue
                totals[f"engine_{field}_seconds_sum"] = sum(by_name.get(f"{name}_sum", [0.0]))
                totals[f"engine_{field}_seconds_count"] = sum(by_name[f"{name}_count"])
                break
            if values := by_name.get(name):
                total = sum(values)
                totals[field] = total / len(values) if field in _AVERAGED else total
                break
    return totals
