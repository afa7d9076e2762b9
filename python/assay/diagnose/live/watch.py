"""What a server's metrics and this machine's state say while a server is watched and probed."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from assay.diagnose.live.client import Client
from assay.lazy_import import pl
from assay.observe.telemetry import table
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Sample
from assay.observe.telemetry.session import telemetry
from assay.observe.telemetry.sources.discovery import find_sources
from assay.observe.telemetry.sources.endpoint import Endpoint, bearer_token
from assay.observe.telemetry.sources.exposition import split
from assay.observe.telemetry.sources.source import Source
from assay.openai_api.address import KEY_VARIABLE

CONFIG: Final = "vllm:cache_config_info"
"""A metric whose labels are settings of the engine."""

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Watch:
    """Samples of the server's endpoint, and of the machine where the server runs on this one."""

    def __init__(self, client: Client) -> None:
        self.is_local = is_local(client.host)
        self.metrics_url = f"{client.url}/metrics"
        self._gaps = Gaps()
        self._token = bearer_token() or os.environ.get(KEY_VARIABLE)
        self._samples: list[Sample] = []
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample once a second until the block ends."""
        sources: list[Source] = [self._endpoint()]
        if self.is_local:
            sources += find_sources(self._gaps, endpoints=[])
        with telemetry([], rate=1.0, fingerprint="", sources=sources, listener=self._keep):
            yield

    def mark(self) -> int:
        """Scrape now, out of turn; the moment, in nanoseconds of the monotonic clock."""
        endpoint = self._endpoint()
        realtime_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
        try:
            rows = endpoint.read(fast_only=False)
        finally:
            endpoint.close()
        self._keep(
            [Sample(realtime_ns, monotonic_ns, -1, "", None, None, None, row) for row in rows]
        )
        return monotonic_ns

    def samples(self) -> pl.DataFrame:
        """Everything so far, as a frame of telemetry in time order."""
        with self._lock:
            samples = list(self._samples)
        return table.of_samples(samples).sort("monotonic_ns")

    @property
    def server(self) -> str | None:
        """The kind of server by its metrics; None where it has none."""
        with self._lock:
            kinds = [
                sample.reading.name
                for sample in self._samples
                if sample.reading.source == "endpoint" and sample.reading.values.get("endpoint_up")
            ]
        return kinds[-1] if kinds else None

    def gaps(self) -> list[str]:
        """Why metrics are missing."""
        return [
            f"{self.metrics_url}: {gap.reason}"
            for gap in self._gaps.listed()
            if gap.source == "endpoint"
        ]

    def _endpoint(self) -> Endpoint:
        return Endpoint(self.metrics_url, self._gaps, token=self._token)

    def _keep(self, samples: Sequence[Sample]) -> None:
        with self._lock:
            self._samples.extend(samples)


def is_local(host: str) -> bool:
    """Whether a server is on this machine, so that its state is the server's."""
    return host in _LOOPBACK or host == platform.node()


class Window:
    """The metrics between two moments: what counters grew by, and what gauges were."""

    def __init__(self, samples: pl.DataFrame, start_ns: int, end_ns: int) -> None:
        self.samples = samples.filter(pl.col("monotonic_ns").is_between(start_ns, end_ns))
        is_endpoint = pl.col("source") == "endpoint"
        self.endpoint = self.samples.filter(is_endpoint & (pl.col("endpoint_up") == 1))
        self.machine = self.samples.filter(~is_endpoint)
        self.seconds = (end_ns - start_ns) * 1e-9

    def grown(self, field: str) -> float | None:
        """How much a counter grew; None where the server does not count it, or began anew."""
        values = self.endpoint[field].drop_nulls()
        if len(values) < 2:
            return None
        growth = float(values[-1] - values[0])
        return growth if growth >= 0.0 else None

    def ratios(self, over: str, under: str) -> list[float]:
        """Growth of one counter over the growth of another, scrape by scrape, where it grew."""
        rows = self.endpoint.select(over, under).drop_nulls()
        if rows.height < 2:
            return []
        top, bottom = (np.diff(rows[name].to_numpy()) for name in (over, under))
        return [float(over / under) for over, under in zip(top, bottom, strict=True) if under > 0]

    def gauge(self, field: str) -> list[float]:
        """A gauge of the server at each scrape."""
        return [float(value) for value in self.endpoint[field].drop_nulls()]

    def settings(self) -> dict[str, str]:
        """The engine's settings, as far as its metrics state them (vLLM: `cache_config_info`)."""
        for series in reversed(self.endpoint["series"].drop_nulls().to_list()):
            for entry in series:
                name, labels = split(entry["key"])
                if name == CONFIG:
                    return labels
        return {}

    def state(self, field: str) -> list[float]:
        """A field of the machine at each sample."""
        return [float(value) for value in self.machine[field].drop_nulls()]

    def summary(self) -> dict[str, Any]:
        """What is worth printing, by our field names; absent ones are absent."""
        figures: dict[str, Any] = {"seconds": self.seconds, "scrapes": self.endpoint.height}
        for name in ("engine_requests_running", "engine_requests_waiting", "engine_kv_cache_usage"):
            if values := self.gauge(name):
                figures[name] = {"mean": float(np.mean(values)), "max": max(values)}
        for name in (
            "engine_generation_tokens", "engine_prompt_tokens", "engine_requests_finished",
            "engine_preemptions", "engine_prefix_cache_queries", "engine_prefix_cache_hits",
        ):  # fmt: skip
            if (growth := self.grown(name)) is not None:
                figures[name] = growth
        for name in ("ttft", "itl", "e2e", "queue"):
            total = self.grown(f"engine_{name}_seconds_sum")
            count = self.grown(f"engine_{name}_seconds_count")
            if total is not None and count:
                figures[f"{name}_mean_seconds"] = total / count
        return figures
