"""Samples as an OTLP request: resource, scope, metrics, data points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from assay._native import build_info
from assay.observe.telemetry.fields import FIELDS, Field
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sources.exposition import histograms
from assay.observe.telemetry.sources.servers import USAGE, histogram_name

_CUMULATIVE: Final = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE."""

GEN_AI: Final = {
    "ttft": ("gen_ai.server.time_to_first_token", "s"),
    "itl": ("gen_ai.server.time_per_output_token", "s"),
    "e2e": ("gen_ai.server.request.duration", "s"),
}
"""Histograms of servers under the names of OpenTelemetry's conventions for generative AI.

A server's inter-token latency is the nearest that it has to the time per output token. Energy is
`hw.energy` of the conventions for hardware; those for generative AI have no name for cost yet.
"""

TOKEN_USAGE: Final = ("gen_ai.client.token.usage", "{token}")
"""Tokens of a request as its server counted them, an attribute tells prompts from outputs."""
OPERATION: Final = "inference"
"""What `gen_ai.operation.name`, which the conventions require, says: a server counts all of its operations as one."""
_MODEL_LABELS: Final = ("model_name", "model", "model_id")


def request_of(samples: Sequence[Sample], header: RunHeader, attributes: Mapping[str, str]) -> Any:
    """The request for these samples."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    request: Any = metrics_service_pb2.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    for name, value in {
        **attributes,
        "host.name": header.hostname,
        "assay.run": header.run,
        "assay.workload": header.workload,
        "assay.fingerprint": header.fingerprint,
        **{f"assay.{name}": value for name, value in header.labels.items()},
    }.items():
        if value is not None:
            _add_attribute(resource.resource.attributes, name, value)
    scope = resource.scope_metrics.add()
    scope.scope.name = "assay.telemetry"
    scope.scope.version = build_info()["version"]
    metrics: dict[str, Any] = {}
    start_ns = min((sample.realtime_ns for sample in samples), default=0)
    for sample in samples:
        for name, measured in sample.reading.values.items():
            field = FIELDS.get(name)
            if field is None or isinstance(measured, str) or not math.isfinite(measured):
                continue
            _add_point(scope, metrics, field, sample, measured, start_ns)
        if sample.reading.series and sample.reading.source == "endpoint":
            _add_histograms(scope, metrics, sample, start_ns)
    return request


def metric_name(field: Field) -> str:
    """OpenTelemetry's name, or ours with dots: hw.gpu.utilization, assay.gpu.sm_clock_hz."""
    if field.otel is not None:
        return field.otel
    group, _, rest = field.name.partition("_")
    return f"assay.{group}.{rest}"


def _add_point(
    scope: Any, metrics: dict[str, Any], field: Field, sample: Sample, value: float, start_ns: int
) -> None:
    name = metric_name(field)
    if name not in metrics:
        metric = metrics[name] = scope.metrics.add()
        metric.name, metric.unit = name, field.unit
        metric.description = field.meaning
        if field.kind == "counter":
            metric.sum.aggregation_temporality = _CUMULATIVE
            metric.sum.is_monotonic = True
    metric = metrics[name]
    points = metric.sum.data_points if field.kind == "counter" else metric.gauge.data_points
    point = points.add()
    point.time_unix_nano = sample.realtime_ns
    if field.kind == "counter":
        point.start_time_unix_nano = start_ns
    if field.type is int:
        point.as_int = int(value)
    else:
        point.as_double = float(value)
    _add_all(point.attributes, _identity(sample))
    _add_all(point.attributes, field.otel_attributes)


def _add_histograms(scope: Any, metrics: dict[str, Any], sample: Sample, start_ns: int) -> None:
    series = sample.reading.series or {}
    for which, (name, unit) in {**GEN_AI, **dict.fromkeys(USAGE, TOKEN_USAGE)}.items():
        own = histogram_name(series, which)
        if own is None:
            continue
        for histogram in histograms(series, own):
            if name not in metrics:
                metric = metrics[name] = scope.metrics.add()
                metric.name, metric.unit = name, unit
                metric.description = (
                    f"{own} of the server" if which in GEN_AI else "tokens of a request"
                )
                metric.histogram.aggregation_temporality = _CUMULATIVE
            point = metrics[name].histogram.data_points.add()
            point.time_unix_nano, point.start_time_unix_nano = sample.realtime_ns, start_ns
            point.count, point.sum = histogram.count, histogram.sum
            point.explicit_bounds.extend(histogram.bounds)
            point.bucket_counts.extend(histogram.counts)
            _add_all(point.attributes, _identity(sample))
            _add_all(point.attributes, histogram.labels)
            _add_all(point.attributes, _gen_ai(sample, dict(histogram.labels), which))


def _gen_ai(sample: Sample, labels: Mapping[str, str], which: str) -> Iterator[tuple[str, str]]:
    """Attributes of the conventions that the server's own labels do not have already."""
    given = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": sample.reading.name.lower(),
    }
    if model := next((labels[name] for name in _MODEL_LABELS if name in labels), None):
        given["gen_ai.request.model"] = model
    if which in USAGE:
        given["gen_ai.token.type"] = which
    yield from given.items()


def _identity(sample: Sample) -> list[tuple[str, str]]:
    reading = sample.reading
    if reading.source in ("nvidia", "amd"):
        identity = [
            ("hw.id", reading.device),
            ("hw.name", reading.name),
            ("hw.type", "gpu"),
            ("hw.vendor", reading.source),
            ("assay.index", str(reading.index)),
        ]
    else:
        identity = [("assay.source", reading.source), ("assay.device", reading.device)]
    if sample.phase is not None:
        identity.append(("assay.phase", sample.phase))
    return identity


def _add_all(attributes: Any, pairs: Iterable[tuple[str, str]]) -> None:
    for name, value in pairs:
        _add_attribute(attributes, name, value)


def _add_attribute(attributes: Any, name: str, value: str) -> None:
    attribute = attributes.add()
    attribute.key = name
    attribute.value.string_value = value
