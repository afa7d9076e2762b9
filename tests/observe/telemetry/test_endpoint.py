"""Endpoints over real sockets: answers, dead and slow servers, discovery."""

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import assay
from assay.errors import InputError
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sources.endpoint import Endpoint, find_endpoints
from assay.observe.telemetry.sources.engine import EngineCounters

VLLM = b"vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.5\n"


@contextmanager
def server(
    body: bytes = VLLM, status: int = 200, delay: float = 0.0, seen: list[str | None] | None = None
) -> Iterator[str]:

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers["Authorization"])
            time.sleep(delay)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that gave up is part of these tests."""

    httpd = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def test_an_answer_has_our_fields_and_every_series() -> None:
    with server() as url:
        endpoint = Endpoint(url, Gaps())
        for _ in range(2):
            (reading,) = endpoint.read(fast_only=False)
        endpoint.close()
    assert reading.device == f"{url}/metrics"
    assert reading.name == "vLLM"
    assert reading.values["endpoint_up"] == 1
    assert reading.values["engine_requests_running"] == 3
    assert reading.series == {"vllm:num_requests_running": 3.0, "vllm:kv_cache_usage_perc": 0.5}


@pytest.mark.parametrize(
    ("user", "expected"),
    [("user:pass%20word@", "Basic dXNlcjpwYXNzIHdvcmQ="), ("", "Bearer secret-token")],
)
def test_passwords_are_sent_and_never_printed(user: str, expected: str) -> None:
    seen: list[str | None] = []
    with server(seen=seen) as url:
        host = url.removeprefix("http://")
        endpoint = Endpoint(f"http://{user}{host}/metrics", Gaps(), token="secret-token")
        endpoint.read(fast_only=False)
        endpoint.close()
    assert seen == [expected]
    assert "pass" not in endpoint.url
    assert "secret" not in endpoint.url


def refused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_a_dead_endpoint_is_down_and_listed_once() -> None:
    gaps = Gaps()
    endpoint = Endpoint(f"http://127.0.0.1:{refused_port()}", gaps)
    for _ in range(3):
        (reading,) = endpoint.read(fast_only=False)
        assert reading.values == {"endpoint_up": 0}
    (listed,) = gaps.listed()
    assert "refused" in listed.reason


@pytest.mark.parametrize(
    ("options", "timeout_s", "reason"),
    [
        ({"status": 500}, 20.0, "expected HTTP status 200, got 500"),
        ({"delay": 2.0}, 0.2, "timed out"),
    ],
)
def test_bad_answers_are_named(options: dict[str, float], timeout_s: float, reason: str) -> None:
    gaps = Gaps()
    with server(**options) as url:  # type: ignore[arg-type]
        endpoint = Endpoint(url, gaps, timeout_s=timeout_s)
        (reading,) = endpoint.read(fast_only=False)
        endpoint.close()
    assert reading.values["endpoint_up"] == 0
    assert reason in gaps.listed()[0].reason


def test_an_html_page_is_no_scrape() -> None:
    gaps = Gaps()
    with server(b"<html>\n<body>not metrics</body>\n") as url:
        endpoint = Endpoint(url, gaps)
        (reading,) = endpoint.read(fast_only=False)
        endpoint.close()
    assert reading.series == {}
    assert "2 lines are not in Prometheus' text format; no series kept" in gaps.listed()[0].reason


def test_a_hanging_endpoint_does_not_delay_the_host() -> None:
    with server(delay=60.0) as url:
        ticks: list[tuple[str, int]] = []
        with assay.telemetry(
            [],
            rate=10,
            endpoints=[url],
            listener=lambda batch: ticks.extend((one.reading.source, one.tick) for one in batch),
        ) as state:
            end = time.monotonic() + 30
            while sum(source == "host" for source, _ in ticks) < 5 and time.monotonic() < end:
                time.sleep(0.02)
            begun = time.monotonic()
        assert time.monotonic() - begun < 30
    assert sum(source == "host" for source, _ in ticks) >= 5
    # The host's ticks follow each other; the endpoint at most said that it is down.
    assert sum(source == "endpoint" for source, _ in ticks) <= 2
    assert state.missing


def test_local_servers_are_found_by_their_metrics() -> None:
    with server() as known, server(b"node_load1 1\n") as unknown:
        ports = [int(url.rpartition(":")[2]) for url in (known, unknown)]
        (found,) = find_endpoints(Gaps(), [*ports, refused_port()])
    assert found.url == f"{known}/metrics"


@pytest.mark.parametrize(
    "url", ["ftp://x/metrics", "127.0.0.1:8000", "http://", "http://u:secret@", "http://x:99999"]
)
def test_bad_urls_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(InputError, match="endpoint") as error:
        Endpoint(url, Gaps())
    assert "secret" not in error.value.message


def test_counters_of_an_engine_in_this_process() -> None:
    counts = {"running": 2, "waiting": 1, "preemptions": 0, "blocks": 8, "used": 2, "steps": 7}
    (reading,) = EngineCounters(lambda: counts).read(fast_only=False)
    assert reading.values == {
        "engine_requests_running": 2.0,
        "engine_requests_waiting": 1.0,
        "engine_preemptions": 0.0,
        "engine_kv_cache_usage": 0.25,
    }
    assert reading.series is not None
    assert reading.series["assay_engine_steps"] == 7.0
