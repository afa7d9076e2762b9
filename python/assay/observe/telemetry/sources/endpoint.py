"""A server's Prometheus `/metrics`, over HTTP."""

from __future__ import annotations

import base64
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

from assay.errors import InputError
from assay.http_client import FAILURES, KeptConnection, read_address, without_password
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading, Value
from assay.observe.telemetry.sources.exposition import Parser
from assay.observe.telemetry.sources.servers import recognize

TIMEOUT_S: Final = 2.0
"""Seconds that an answer may take in all."""

MAX_BYTES: Final = 16 << 20
TOKEN: Final = "ASSAY_METRICS_TOKEN"
"""The environment variable whose value is sent as bearer token to endpoints that were named."""


class Endpoint:
    """One endpoint; it has a thread of its own, so that a dead one delays nobody."""

    name = "endpoint"
    least_period_s = 1.0

    def __init__(
        self,
        url: str,
        gaps: Gaps,
        *,
        index: int = 0,
        timeout_s: float = TIMEOUT_S,
        token: str | None = None,
    ) -> None:
        error = InputError(
            f'endpoint "{without_password(url)}": expected a URL such as '
            "http://127.0.0.1:8000/metrics"
        )
        address = read_address(url, error)
        path = address.path if address.path not in ("", "/") else "/metrics"
        self._target = path + (f"?{address.query}" if address.query else "")
        self.url = f"{address.origin}{path}"
        self._headers = {"Accept": "text/plain;version=0.0.4", "User-Agent": "assay"}
        if address.credentials is not None:
            pair = base64.b64encode(":".join(address.credentials).encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {pair}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = KeptConnection(address, timeout_s)
        self._gaps = gaps
        self._index = index
        self._parser = Parser()
        self._kind = "unknown server"
        self._cpu_s = 0.0

    def read(self, *, fast_only: bool) -> Sequence[Reading]:
        """One reading; an endpoint that does not answer has `endpoint_up` 0 and nothing else."""
        begun_s, begun_cpu_s = time.monotonic(), time.thread_time()
        try:
            text = self.fetch()
        except FAILURES as error:
            self._connection.close()
            reason = str(error) or type(error).__name__
            self._gaps.note(self.name, self.url, "all fields", reason)
            down = {"endpoint_up": 0}
            return [Reading(self.name, self.url, self._index, self._kind, dict(down))]
        took_s = time.monotonic() - begun_s
        scrape = self._parser.parse(text)
        if scrape.bad_lines:
            what = "no series" if not scrape.series else "all series but the bad lines"
            self._gaps.note(
                self.name,
                self.url,
                "series",
                f"{scrape.bad_lines:,} lines are not in Prometheus' text format; {what} kept",
            )
        if scrape.left_out:
            self._gaps.note(
                self.name, self.url, "series", f"{scrape.left_out:,} series over the limit left out"
            )
        self._kind, known = recognize(scrape)
        values: dict[str, Value] = {
            "endpoint_up": 1,
            "endpoint_scrape_seconds": took_s,
            **{name: value for name, value in known.items() if math.isfinite(value)},
        }
        self._cpu_s += time.thread_time() - begun_cpu_s
        return [Reading(self.name, self.url, self._index, self._kind, values, series=scrape.series)]

    def fetch(self) -> str:
        """The text of one answer; the connection is kept for the next."""
        status, body = self._connection.get(self._target, self._headers, most=MAX_BYTES)
        if status != 200:
            raise ValueError(f"expected HTTP status 200, got {status}")
        return body.decode("utf-8", errors="replace")

    def costs(self) -> Mapping[str, float]:
        """CPU seconds of scraping."""
        return {"scrape": self._cpu_s}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


LOCAL_PORTS: Final = (8000, 30000, 8080, 3000)
"""Where vLLM and assay serve, SGLang, llama.cpp and TGI listen unless told otherwise."""


def find_endpoints(
    gaps: Gaps, ports: Sequence[int] = LOCAL_PORTS, timeout_s: float = 0.3
) -> list[Endpoint]:
    """Servers of a known kind on this machine's usual ports."""
    endpoints: list[Endpoint] = []
    for port in ports:
        endpoint = Endpoint(
            f"http://127.0.0.1:{port}/metrics", Gaps(), index=len(endpoints), timeout_s=timeout_s
        )
        try:
            kind, _ = recognize(Parser().parse(endpoint.fetch()))
        except FAILURES:
            kind = "unknown server"
        finally:
            endpoint.close()
        if kind != "unknown server":
            endpoints.append(Endpoint(endpoint.url, gaps, index=len(endpoints)))
    return endpoints


def bearer_token() -> str | None:
    """The token for endpoints that were named."""
    return os.environ.get(TOKEN) or None
