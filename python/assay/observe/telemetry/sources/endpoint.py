"""A server's Prometheus `/metrics`, over HTTP."""

from __future__ import annotations

import base64
import http.client
import math
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from assay.errors import InputError
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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f'endpoint "{_without_password(url)}": expected a URL such as '
                "http://127.0.0.1:8000/metrics"
            )
        try:
            port = parts.port
        except ValueError:
            raise InputError(f'endpoint "{_without_password(url)}": bad port') from None
        self._host, self._port = parts.hostname, port
        self._tls = parts.scheme == "https"
        path = parts.path if parts.path not in ("", "/") else "/metrics"
        self._target = path + (f"?{parts.query}" if parts.query else "")
        place = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{parts.scheme}://{place}{'' if port is None else f':{port}'}{path}"
        self._headers = {"Accept": "text/plain;version=0.0.4", "User-Agent": "assay"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode(
                "ascii"
            )
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._gaps = gaps
        self._index = index
        self._timeout_s = timeout_s
        self._parser = Parser()
        self._connection: http.client.HTTPConnection | None = None
        self._kind = "unknown server"
        self._cpu_s = 0.0

    def read(self, *, fast_only: bool) -> Sequence[Reading]:
        """One reading; an endpoint that does not answer has `endpoint_up` 0 and nothing else."""
        begun_s, begun_cpu_s = time.monotonic(), time.thread_time()
        try:
            text = self.fetch()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._disconnect()
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
        deadline_s = time.monotonic() + self._timeout_s
        was_kept = self._connection is not None
        try:
            answer = self._ask()
        except (http.client.RemoteDisconnected, ConnectionError):
            # The server closed a connection that was kept since the last tick: open a new one.
            if not was_kept:
                raise
            self._disconnect()
            answer = self._ask()
        data = b""
        while chunk := answer.read1(1 << 16):
            data += chunk
            if len(data) > MAX_BYTES:
                self._disconnect()
                raise ValueError(f"the answer is larger than {MAX_BYTES:,} bytes")
            if time.monotonic() > deadline_s:
                self._disconnect()
                raise TimeoutError(f"no complete answer within {self._timeout_s:g} s")
        # Read to its end; the connection does not take another request before it is closed.
        answer.close()
        if answer.status != 200:
            raise ValueError(f"expected HTTP status 200, got {answer.status}")
        return data.decode("utf-8", errors="replace")

    def _ask(self) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("GET", self._target, headers=self._headers)
        return self._connection.getresponse()

    def costs(self) -> Mapping[str, float]:
        """CPU seconds of scraping."""
        return {"scrape": self._cpu_s}

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(
                self._host,
                self._port,
                timeout=self._timeout_s,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


LOCAL_PORTS: Final = (8000, 30000, 8080, 3000)
"""Where vLLM and assay serve, SGLang, llama.cpp and TGI listen unless told otherwise."""


def find_endpoints(
    gaps: Gaps, ports: Sequence[int] = LOCAL_PORTS, timeout_s: float = 0.3
) -> list[Endpoint]:
    """Servers of a known kind on this machine's usual ports."""
    found: list[Endpoint] = []
    for port in ports:
        with socket.socket() as probe:
            probe.settimeout(timeout_s)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                continue
        endpoint = Endpoint(
            f"http://127.0.0.1:{port}/metrics", Gaps(), index=len(found), timeout_s=timeout_s
        )
        try:
            kind, _ = recognize(Parser().parse(endpoint.fetch()))
        except (OSError, http.client.HTTPException, ValueError):
            kind = "unknown server"
        finally:
            endpoint.close()
        if kind != "unknown server":
            found.append(Endpoint(endpoint.url, gaps, index=len(found)))
    return found


def bearer_token() -> str | None:
    """The token for endpoints that were named."""
    return os.environ.get(TOKEN) or None


def _without_password(url: str) -> str:
    start, at, end = url.rpartition("@")
    return end if at and start else url
