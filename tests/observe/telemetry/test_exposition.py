"""Prometheus' text format, against prometheus_client's own parser."""

import math
import time

import pytest
from hypothesis import given, settings, strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from assay.observe.telemetry.sources.exposition import Parser, histograms, split
from assay.observe.telemetry.sources.servers import recognize

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
numbers = st.floats(allow_nan=False)


def theirs(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ours(
    text: str, parser: Parser | None = None
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    scrape = (parser or Parser()).parse(text)
    assert scrape.bad_lines == 0
    found = {}
    for key, value in scrape.series.items():
        name, labels = split(key)
        found[name, tuple(sorted(labels.items()))] = value
    return found


@settings(max_examples=40)
@given(st.lists(st.tuples(texts, numbers), max_size=6), st.lists(numbers, max_size=8))
def test_generated_text_reads_as_prometheus_reads_it(
    labeled: list[tuple[str, float]], observed: list[float]
) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("vllm:num_requests_running", "a help\nof two lines", ["model"], registry=registry)
    for label, value in labeled:
        gauge.labels(label).set(value)
    histogram = Histogram("seconds", "help", registry=registry, buckets=(0.1, 1, 10))
    Counter("tokens", "help", registry=registry).inc(3)
    for value in observed:
        histogram.observe(abs(value))
    text = generate_latest(registry).decode()
    parser = Parser()
    assert ours(text, parser) == theirs(text)
    # The second scrape takes the fast way, with the same result.
    assert ours(text, parser) == theirs(text)


def test_timestamps_spaces_and_exemplars() -> None:
    text = (
        '# TYPE a gauge\na{ x = "1" , y="}, {" , } 3 1700000000000\n'
        "  b   +Inf\nc NaN\n"
        'd_bucket{le="1"} 2 # {trace_id="x"} 0.5\n# EOF\n'
    )
    scrape = Parser().parse(text)
    values = {split(key)[0]: value for key, value in scrape.series.items()}
    assert math.isnan(values.pop("c"))
    assert values == {"a": 3.0, "b": math.inf, "d_bucket": 2.0}
    assert split(next(iter(scrape.series)))[1] == {"x": "1", "y": "}, {"}
    assert scrape.types == {"a": "gauge"}


@given(st.text(max_size=200))
def test_any_text_is_read_or_counted(text: str) -> None:
    scrape = Parser().parse(text)
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    said = [line for line in lines if line[0] != "#"]
    assert len(scrape.series) + scrape.bad_lines <= len(said)
    assert scrape.bad_lines or len(scrape.series) or not said


def test_a_bad_line_does_not_lose_the_others() -> None:
    scrape = Parser().parse("good 1\n<html>\nbad{x=1} 2\nworse one\nalso_good 2\n")
    assert scrape.series == {"good": 1.0, "also_good": 2.0}
    assert scrape.bad_lines == 3


def test_series_are_bounded() -> None:
    text = "\n".join(f'x{{n="{n}"}} {n}' for n in range(50))
    scrape = Parser(max_series=20).parse(text)
    assert len(scrape.series) == 20
    assert scrape.left_out == 30


def test_hostile_labels_take_linear_time() -> None:
    begun = time.process_time()
    Parser().parse("a{" + 'x="1",' * 50_000 + "\n" + 'b{x="' + "\\" * 100_000 + "\n")
    assert time.process_time() - begun < 2


def test_histograms_become_counts_per_bucket() -> None:
    text = (
        't_bucket{le="0.1",m="a"} 2\nt_bucket{le="1",m="a"} 5\nt_bucket{le="+Inf",m="a"} 6\n'
        't_sum{m="a"} 3.5\nt_count{m="a"} 6\nt_bucket_total 9\n'
    )
    (found,) = histograms(Parser().parse(text).series, "t")
    assert found.labels == (("m", "a"),)
    assert found.bounds == (0.1, 1.0)
    assert found.counts == (2, 3, 1)
    assert (found.sum, found.count) == (3.5, 6)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (
            'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
            'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.7\n'
            "vllm:generation_tokens_total 100\nvllm:time_to_first_token_seconds_sum 2.5\n"
            "vllm:time_to_first_token_seconds_count 10\n",
            "vLLM",
            {
                "engine_requests_running": 7.0,
                "engine_kv_cache_usage": 0.6,
                "engine_generation_tokens": 100.0,
                "engine_ttft_seconds_sum": 2.5,
                "engine_ttft_seconds_count": 10.0,
            },
        ),
        (
            "sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\nsglang:token_usage 0.25\n",
            "SGLang",
            {
                "engine_requests_running": 2.0,
                "engine_requests_waiting": 1.0,
                "engine_kv_cache_usage": 0.25,
            },
        ),
        (
            "llamacpp:requests_processing 1\nllamacpp:tokens_predicted_total 9\n",
            "llama.cpp",
            {"engine_requests_running": 1.0, "engine_generation_tokens": 9.0},
        ),
        (
            "tgi_queue_size 4\ntgi_batch_current_size 8\ntgi_request_duration_sum 6\n"
            "tgi_request_duration_count 3\n",
            "TGI",
            {
                "engine_requests_waiting": 4.0,
                "engine_requests_running": 8.0,
                "engine_e2e_seconds_sum": 6.0,
                "engine_e2e_seconds_count": 3.0,
            },
        ),
        ("node_load1 0.5\n", "unknown server", {}),
    ],
)
def test_servers_are_recognized(text: str, kind: str, expected: dict[str, float]) -> None:
    assert recognize(Parser().parse(text)) == (kind, pytest.approx(expected))


def test_assay_serve_is_recognized_by_its_own_metrics() -> None:
    from assay.engine.server.metrics import Metrics

    metrics = Metrics("tiny")
    metrics.arrived(12)
    metrics.first_token("chat", 0.25)
    counts = {"used": 3, "blocks": 4, "running": 2, "waiting": 1, "preemptions": 5}
    counts |= {"queried_tokens": 10, "hit_tokens": 6}
    counts |= {"asleep": 0, "drafts": 0, "drafted_tokens": 0, "accepted_tokens": 0}
    kind, values = recognize(Parser().parse(metrics.text(counts).decode()))
    assert kind == "assay"
    assert values["engine_requests_running"] == 2
    assert values["engine_kv_cache_usage"] == 0.75
    assert values["engine_prefix_cache_hits"] == 6
    assert values["engine_ttft_seconds_sum"] == 0.25
