"""OTLP: a receiver that decodes the real wire format, with faults."""

import gzip
import http.server
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from samples import HEADER, sample, samples

from assay.errors import InputError
from assay.observe.telemetry.sample import Reading, Sample
from assay.observe.telemetry.sinks import pump as pumps
from assay.observe.telemetry.sinks.otlp import Otlp
from assay.observe.telemetry.sinks.pump import Pump
from assay.observe.telemetry.sinks.sink import RejectedError, Summary


class Receiver(http.server.ThreadingHTTPServer):
    """A collector: decodes requests, and answers as its script says."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: list[Any] = []
        self.script: list[int | str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_: object) -> None:
        """A client that is cut off is part of these tests."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        act = self.server.script.pop(0) if self.server.script else 200
        if act == "reset":
            self.connection.close()
            return
        if isinstance(act, int) and act != 200:
            self.send_response(act)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.headers["Content-Encoding"] == "gzip":
            data = gzip.decompress(data)
        request: Any = metrics_service_pb2.ExportMetricsServiceRequest.FromString(data)
        self.server.requests.append(request)
        self.server.headers.append((self.path, dict(self.headers)))
        response: Any = metrics_service_pb2.ExportMetricsServiceResponse()
        if act == "partial":
            response.partial_success.rejected_data_points = 3
            response.partial_success.error_message = "too old"
        body = response.SerializeToString()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def url(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.server_port}"


def attributes(pairs: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in pairs}


def metrics(request: Any) -> dict[str, Any]:
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_metrics_have_opentelemetrys_names_units_and_identity(receiver: Receiver) -> None:
    sink = Otlp(url(receiver), {"OTEL_RESOURCE_ATTRIBUTES": "team=inference%20core"})
    sink.open(HEADER)
    sink.write([sample(0, gpu_utilization=0.5, gpu_memory_used_bytes=7, gpu_energy_joules=3.0)])
    (request,) = receiver.requests
    resource = attributes(request.resource_metrics[0].resource.attributes)
    assert resource["service.name"] == "assay"
    assert resource["assay.run"] == "run-1"
    assert resource["assay.workload"] == "decode"
    assert resource["assay.fingerprint"] == "abc123"
    assert resource["host.name"] == "host-1"
    assert resource["team"] == "inference core"
    found = metrics(request)
    (point,) = found["hw.gpu.utilization"].gauge.data_points
    assert point.as_double == 0.5
    assert point.time_unix_nano == 1_700_000_000_000_000_000
    labels = attributes(point.attributes)
    assert labels["hw.id"] == "GPU-1"
    assert labels["hw.gpu.task"] == "general"
    assert found["hw.gpu.memory.usage"].unit == "By"
    assert found["hw.gpu.memory.usage"].gauge.data_points[0].as_int == 7
    assert found["hw.energy"].sum.is_monotonic
    assert found["hw.energy"].sum.aggregation_temporality == 2
    assert found["hw.power"].gauge.data_points[0].as_double == 600.5


def test_histograms_of_a_server_have_the_gen_ai_names(receiver: Receiver) -> None:
    name = "vllm:time_to_first_token_seconds"
    series = {
        f'{name}_bucket{{le="0.5",model_name="m"}}': 2.0,
        f'{name}_bucket{{le="+Inf",model_name="m"}}': 3.0,
        f'{name}_sum{{model_name="m"}}': 1.25,
        f'{name}_count{{model_name="m"}}': 3.0,
    }
    reading = Reading("endpoint", "http://x/metrics", 0, "vLLM", {"endpoint_up": 1}, series=series)
    sink = Otlp(url(receiver), {})
    sink.open(HEADER)
    sink.write([Sample(9, 9, 0, "run-1", None, None, "decode", reading)])
    metric = metrics(receiver.requests[0])["gen_ai.server.time_to_first_token"]
    (point,) = metric.histogram.data_points
    assert list(point.explicit_bounds) == [0.5]
    assert list(point.bucket_counts) == [2, 1]
    assert (point.count, point.sum) == (3, 1.25)
    assert attributes(point.attributes)["model_name"] == "m"
    assert attributes(point.attributes)["assay.phase"] == "decode"


def test_tokens_of_requests_have_the_gen_ai_name_of_usage(receiver: Receiver) -> None:
    """Name, unit and attributes as in the published conventions: gen-ai-metrics, token usage."""
    series = {
        f'vllm:request_{kind}_tokens_{row}model_name="m"}}': value
        for kind, low in (("prompt", 1.0), ("generation", 2.0))
        for row, value in (
            ('bucket{le="16",', low),
            ('bucket{le="+Inf",', 3.0),
            ("sum{", 40.0),
            ("count{", 3.0),
        )
    }
    reading = Reading("endpoint", "http://x/metrics", 0, "vLLM", {"endpoint_up": 1}, series=series)
    sink = Otlp(url(receiver), {})
    sink.open(HEADER)
    sink.write([Sample(9, 9, 0, "run-1", None, None, None, reading)])
    metric = metrics(receiver.requests[0])["gen_ai.client.token.usage"]
    assert metric.unit == "{token}"
    points = {
        attributes(point.attributes)["gen_ai.token.type"]: point
        for point in metric.histogram.data_points
    }
    assert list(points["input"].bucket_counts) == [1, 2]
    assert list(points["output"].bucket_counts) == [2, 1]
    given = attributes(points["input"].attributes)
    assert (given["gen_ai.request.model"], given["gen_ai.provider.name"]) == ("m", "vllm")
    assert given["gen_ai.operation.name"] == "inference"


def test_options_are_opentelemetrys_and_headers_are_not_printed(receiver: Receiver) -> None:
    sink = Otlp(
        "",
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1/ignored",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{url(receiver)}/custom/path",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20very-secret",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        },
    )
    sink.open(HEADER)
    sink.write(samples(2))
    ((path, headers),) = receiver.headers
    assert path == "/custom/path"
    assert headers["authorization"] == "Bearer very-secret"
    assert headers["Content-Encoding"] == "gzip"
    assert "secret" not in sink.name


def ticks(receiver: Receiver) -> list[int]:
    return [
        (point.time_unix_nano - 1_700_000_000_000_000_000) // 1_000_000_000
        for request in receiver.requests
        for point in metrics(request)["hw.power"].gauge.data_points
    ]


def test_nothing_acknowledged_is_lost_under_faults(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pumps, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(Otlp, "batch_samples", 4)
    receiver.script = [503, "reset", 200, 429, 502, "reset", 504, 200]
    sink = Otlp(url(receiver), {})
    sink.open(HEADER)
    pump = Pump(sink)
    pump.start()
    pump.offer(samples(20))
    status = pump.close(time.monotonic() + 20, Summary())
    assert status.acknowledged == 20
    assert status.retries == 6
    assert ticks(receiver) == list(range(20))


@pytest.mark.parametrize(("act", "reason"), [(400, "answered 400"), ("partial", "3 data points")])
def test_what_a_collector_refuses_is_counted_and_not_repeated(
    receiver: Receiver, act: int | str, reason: str
) -> None:
    receiver.script = [act]
    sink = Otlp(url(receiver), {})
    sink.open(HEADER)
    with pytest.raises(RejectedError, match=reason):
        sink.write(samples(1))


@pytest.mark.parametrize("text", ["", "ftp://x", "http://user:secret@host:4318"])
def test_bad_urls_are_refused_without_their_password(text: str) -> None:
    with pytest.raises(InputError, match="sink otlp") as error:
        Otlp(text, {})
    assert "secret" not in f"{error.value.message} {error.value.hint}"


def test_bad_headers_are_refused_without_showing_them() -> None:
    with pytest.raises(InputError, match="NAME=VALUE") as error:
        Otlp("http://h", {"OTEL_EXPORTER_OTLP_HEADERS": "very-secret"})
    assert "secret" not in error.value.message
