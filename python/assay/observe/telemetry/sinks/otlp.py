"""OTLP over HTTP: metrics as protobuf, with OpenTelemetry's names where it has one.

Options are those of OpenTelemetry: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, _COMPRESSION,
_CERTIFICATE, each also with METRICS, and OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME. Headers hold
keys and are never printed.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from assay.errors import InputError
from assay.http_client import answered, read_address
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks.otlp_metrics import request_of
from assay.observe.telemetry.sinks.sink import RejectedError, RetryLaterError, Summary

_RETRYABLE: Final = (408, 429, 502, 503, 504)
"""Statuses after which a client tries again, as OTLP's specification lists them, and 408."""

_PREFIX: Final = "OTEL_EXPORTER_OTLP_"


class Otlp:
    """Posts every batch to a collector; a batch is acknowledged by status 200."""

    batch_s = 5.0
    batch_samples = 2000

    def __init__(self, url: str = "", environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self._url = _metrics_url(url, variables)
        error = InputError(
            "sink otlp: expected a URL such as otlp:http://127.0.0.1:4318",
            f"or set {_PREFIX}ENDPOINT",
        )
        self._address = read_address(self._url, error)
        if self._address.credentials is not None:
            raise InputError(
                "sink otlp: expected a URL without a password",
                f"{_PREFIX}HEADERS=authorization=... sends one",
            )
        self.name = f"otlp:{self._url}"
        self._headers = _headers(_option(variables, "HEADERS"))
        self._timeout_s = float(_option(variables, "TIMEOUT") or 10_000) / 1000
        self._is_gzip = _option(variables, "COMPRESSION") == "gzip"
        self._certificate = _option(variables, "CERTIFICATE")
        self._attributes = _headers(variables.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        self._service = variables.get("OTEL_SERVICE_NAME", "assay")
        self._header: RunHeader | None = None

    def open(self, header: RunHeader) -> None:
        """Check that the package is there; the collector may come later."""
        try:
            import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2  # noqa: F401
        except ImportError:
            raise InputError(
                "OTLP needs opentelemetry-proto, which is not installed",
                "install it with: pip install 'assay[telemetry]'",
            ) from None
        self._header = header

    def write(self, samples: Sequence[Sample]) -> None:
        """Post the samples."""
        assert self._header is not None
        attributes = {"service.name": self._service, **self._attributes}
        data = request_of(samples, self._header, attributes).SerializeToString()
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "assay", **self._headers}
        if self._is_gzip:
            data = gzip.compress(data, 1)
            headers["Content-Encoding"] = "gzip"
        status, answer, wait_s = self._post(data, headers)
        if status in _RETRYABLE:
            raise RetryLaterError(f"the collector answered {status}", wait_s)
        if status // 100 != 2:
            raise RejectedError(f"the collector answered {status}")
        if rejected := _rejected(answer):
            raise RejectedError(rejected)

    def close(self, summary: Summary) -> None:
        """Nothing is held."""

    def _post(self, data: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, float | None]:
        with answered(
            self._address, "POST", self._address.target, data, headers,
            timeout_s=self._timeout_s, certificate=self._certificate,
        ) as answer:  # fmt: skip
            wait = answer.getheader("Retry-After", "")
            return answer.status, answer.read(1 << 20), float(wait) if wait.isdigit() else None


def _option(variables: Mapping[str, str], name: str) -> str:
    return variables.get(f"{_PREFIX}METRICS_{name}") or variables.get(f"{_PREFIX}{name}") or ""


def _metrics_url(url: str, variables: Mapping[str, str]) -> str:
    """The URL to post to: a metrics endpoint as it is, a general one with v1/metrics appended."""
    if not url and (exact := variables.get(f"{_PREFIX}METRICS_ENDPOINT")):
        return exact
    base = url or variables.get(f"{_PREFIX}ENDPOINT", "")
    if not base or urlsplit(base).path.rstrip("/").endswith("/v1/metrics"):
        return base
    return base.rstrip("/") + "/v1/metrics"


def _headers(text: str) -> dict[str, str]:
    """Pairs such as `a=b,c=d`, percent-encoded."""
    headers = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            # The pair may be a secret: only its place is said.
            raise InputError("sink otlp: expected NAME=VALUE pairs separated by commas")
        headers[unquote(name.strip())] = unquote(value.strip())
    return headers


def _rejected(answer: bytes) -> str | None:
    """What a collector that answered 200 did not take; None where it took everything."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    response: Any = metrics_service_pb2.ExportMetricsServiceResponse()
    try:
        response.ParseFromString(answer)
    except DecodeError:
        return None
    count = response.partial_success.rejected_data_points
    if not count:
        return None
    return f"{count} data points rejected: {response.partial_success.error_message[:200]}"
