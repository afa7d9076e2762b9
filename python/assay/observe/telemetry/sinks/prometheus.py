"""A Prometheus exporter of the newest samples, under DCGM's names where DCGM has one.

Dashboards of dcgm-exporter work unchanged for those; the other fields are `assay_` plus their
name. Series of endpoints are not exported again: Prometheus scrapes the endpoint itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from assay.errors import InputError
from assay.observe.telemetry import throttle
from assay.observe.telemetry.fields import FIELDS, Field
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks.sink import Summary

STALE_S: Final = 30.0
"""A device that gave no sample for so long is no longer exported."""

_GPU_LABELS: Final = ("gpu", "UUID", "modelName", "hostname")
_LABELS: Final = ("source", "device", "name", "hostname")


class PrometheusExporter:
    """Serves `/metrics`; on the loopback address unless told otherwise."""

    batch_s = 0.0
    batch_samples = 1000

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.host, self.port = host, port
        self.name = f"prometheus:{host}:{port}"
        self._newest: dict[tuple[str, str], tuple[float, Sample, dict[str, Any]]] = {}
        self._listed: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """The processes of each device, which are read more rarely than the rest."""
        self._lock = threading.Lock()
        self._server: Any = None
        self._thread: Any = None
        self._header: RunHeader | None = None

    def open(self, header: RunHeader) -> None:
        """Begin to serve."""
        try:
            import prometheus_client
        except ImportError:
            raise InputError(
                "the Prometheus exporter needs prometheus-client, which is not installed",
                "install it with: pip install 'assay[telemetry]'",
            ) from None
        self._header = header
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = prometheus_client.start_http_server(
                self.port, addr=self.host, registry=registry
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{self.name}: cannot listen: {reason}") from None
        self.port = self._server.server_port
        self.name = f"prometheus:{self.host}:{self.port}"

    def write(self, samples: Sequence[Sample]) -> None:
        """Keep the newest value of every field; a scrape reads them."""
        now_s = time.monotonic()
        with self._lock:
            for sample in samples:
                key = (sample.reading.source, sample.reading.device)
                values = dict(self._newest[key][2]) if key in self._newest else {}
                # Fields that are read more rarely keep their last value between two reads.
                values.update(sample.reading.values)
                self._newest[key] = (now_s, sample, values)
                if sample.reading.processes is not None:
                    self._listed[key] = sample.reading.processes

    def close(self, summary: Summary) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def collect(self) -> Iterator[Any]:
        """What prometheus_client asks for at a scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            oldest_s = time.monotonic() - STALE_S
            newest = [entry for entry in self._newest.values() if entry[0] >= oldest_s]
        families: dict[str, Any] = {}
        for _, sample, values in newest:
            for name, value in values.items():
                field = FIELDS.get(name)
                if field is None or isinstance(value, str):
                    continue
                metric = field.dcgm or f"assay_{name}"
                if metric not in families:
                    # DCGM's exporter gives its counters without the suffix _total.
                    is_counter = field.kind == "counter" and field.dcgm is None
                    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
                    families[metric] = kind(metric, field.meaning, labels=self._names(field))
                scale = field.dcgm_scale if field.dcgm else 1.0
                families[metric].add_metric(self._labels(field, sample), float(value) * scale)
        yield from families.values()
        yield from self._throttling(newest)
        yield from self._processes(newest)

    def _throttling(self, newest: Sequence[tuple[float, Sample, dict[str, Any]]]) -> Iterator[Any]:
        """One series a reason: a bitmask cannot be read in a dashboard."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "assay_gpu_throttled",
            "1 where the reason holds the clocks down, else 0",
            labels=(*_GPU_LABELS, "reason"),
        )
        for _, sample, values in newest:
            mask = values.get("gpu_throttle")
            if mask is None:
                continue
            labels = self._labels(FIELDS["gpu_throttle"], sample)
            for bit, words in throttle.WORDS.items():
                family.add_metric((*labels, words), float(bool(mask & bit)))
        if family.samples:
            yield family

    def _processes(self, newest: Sequence[tuple[float, Sample, dict[str, Any]]]) -> Iterator[Any]:
        """Memory and use of a shared GPU, a series a process."""
        from prometheus_client.core import GaugeMetricFamily

        labels = (*_GPU_LABELS, "pid", "process")
        families = {
            "memory_bytes": GaugeMetricFamily(
                "assay_gpu_process_memory_bytes", "device memory of the process", labels=labels
            ),
            "utilization": GaugeMetricFamily(
                "assay_gpu_process_utilization",
                "share of time the process had a kernel running",
                labels=labels,
            ),
        }
        for _, sample, _ in newest:
            device = self._labels(FIELDS["gpu_throttle"], sample)
            key = (sample.reading.source, sample.reading.device)
            for process in self._listed.get(key, ()):
                named = (*device, str(process["pid"]), process["name"] or "")
                for member, family in families.items():
                    if process[member] is not None:
                        family.add_metric(named, process[member])
        yield from (family for family in families.values() if family.samples)

    def _names(self, field: Field) -> tuple[str, ...]:
        return _GPU_LABELS if field.name.startswith("gpu_") else _LABELS

    def _labels(self, field: Field, sample: Sample) -> tuple[str, ...]:
        assert self._header is not None
        reading = sample.reading
        if field.name.startswith("gpu_"):
            return (str(reading.index), reading.device, reading.name, self._header.hostname)
        return (reading.source, reading.device, reading.name, self._header.hostname)
