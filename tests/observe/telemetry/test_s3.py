"""S3: moto's server behind a proxy that injects faults; nothing acknowledged is lost."""

import io
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import obstore
import polars as pl
import pytest
from obstore.store import S3Store
from samples import HEADER, samples

from assay.errors import InputError
from assay.observe.telemetry import reading
from assay.observe.telemetry.sinks import pump as pumps
from assay.observe.telemetry.sinks.parquet import current
from assay.observe.telemetry.sinks.pump import Pump
from assay.observe.telemetry.sinks.s3 import S3
from assay.observe.telemetry.sinks.sink import Summary

BUCKET = "telemetry"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test-access",
    "AWS_SECRET_ACCESS_KEY": "very-secret-key",
    "AWS_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def storage() -> Iterator[int]:
    """The port of an S3 server."""
    pytest.importorskip("moto.server", reason="moto and flask are not installed")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main()", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **KEYS},
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
                urllib.request.urlopen(request, timeout=5)
                break
            except OSError:
                assert time.monotonic() < end, "the S3 server did not start"
                assert server.poll() is None, "the S3 server ended"
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(20)


class Proxy(socketserver.ThreadingTCPServer):
    """Forwards requests to the S3 server, unless its script has a fault for one.

    503 answers without forwarding; reset closes at once; partial forwards half of the body and
    closes; lost forwards everything and closes without the answer; slow delays the answer.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        self.upstream = port
        self.script: list[str] = []
        self.delay = 0.5
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), Connection)

    def handle_error(self, *_: object) -> None:
        """Connections that break are the point."""


class Connection(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        act = self.server.script.pop(0) if self.server.script else "ok"
        self.server.seen.append(act)
        if act == "reset":
            return
        length = int((re.search(rb"(?i)content-length: (\d+)", head) or [b"", b"0"])[1])
        body = self.rfile.read(length)
        if act == "503":
            self.wfile.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
            return
        head = re.sub(rb"(?i)connection: [^\r]*\r\n", b"", head)
        head = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        with socket.create_connection(("127.0.0.1", self.server.upstream)) as upstream:
            if act == "partial":
                upstream.sendall(head + body[: length // 2])
                return
            upstream.sendall(head + body)
            answer = b""
            while chunk := upstream.recv(1 << 16):
                answer += chunk
        if act == "slow":
            time.sleep(self.server.delay)
        if act != "lost":
            self.wfile.write(answer)


@pytest.fixture
def proxy(storage: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    server = Proxy(storage)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(pumps, "_FIRST_PAUSE_S", 0.002)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def stored(port: int, prefix: str) -> pl.DataFrame:
    """Everything under a prefix, straight from the server."""
    store = S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=f"http://127.0.0.1:{port}",
        client_options={"allow_http": True},
        access_key_id="test-access",
        secret_access_key="very-secret-key",
        region="us-east-1",
    )
    names = [one["path"] for batch in obstore.list(store) for one in batch]
    frames = [
        pl.read_parquet(io.BytesIO(bytes(obstore.get(store, name).bytes())))
        for name in current(names)
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=reading.columns())


def record(sink: S3, count: int, deadline: float = 30.0) -> Any:
    sink.open(HEADER)
    pump = Pump(sink)
    pump.start()
    for one in samples(count):
        pump.offer([one])
    return pump.close(time.monotonic() + deadline, Summary())


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_under_faults(
    proxy: Proxy, storage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3, "batch_samples", 5)
    proxy.script = ["503", "ok", "reset", "partial", "ok", "lost", "503", "slow", "ok", "lost"]
    status = record(S3(f"s3://{BUCKET}/faults"), 30)
    assert {"503", "reset", "partial", "lost", "slow"} <= set(proxy.seen)
    assert status.acknowledged == 30
    assert status.retries >= 6
    frame = stored(storage, f"faults/{HEADER.run}")
    # A batch whose answer was lost was written twice, under the same name: nothing is doubled.
    assert sorted(frame["tick"].to_list()) == list(range(30))
    assert set(frame["run"].to_list()) == {"run-1"}


@pytest.mark.slow
def test_a_dead_store_is_given_up_and_its_samples_counted(
    proxy: Proxy, storage: int, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.script = ["503"] * 100_000
    begun = time.monotonic()
    status = record(S3(f"s3://{BUCKET}/dead"), 10, deadline=0.5)
    assert time.monotonic() - begun < 10
    assert (status.acknowledged, status.backlog) == (0, 10)
    assert "not delivered" in (status.sentence() or "")
    assert stored(storage, "dead").height == 0
    assert "very-secret" not in f"{status} {caplog.text}"


@pytest.mark.slow
def test_a_store_that_hangs_times_out(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    sink = S3(
        f"s3://{BUCKET}/slow",
        client_options={"timeout": timedelta(seconds=1.5), "allow_http": True},
    )
    sink.open(HEADER)
    proxy.script, proxy.delay = ["slow"], 4.0
    with pytest.raises(OSError, match=r"error sending request|timed? ?out"):
        sink.write(samples(1))
    sink.write(samples(1))
    assert proxy.seen[0] == "slow"


def test_wrong_keys_never_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-key")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access-id")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    sink = S3(f"s3://{BUCKET}/x")
    sink.open(HEADER)
    with pytest.raises(OSError, match="error sending request") as error:
        sink.write(samples(1))
    assert "very-secret" not in str(error.value)
    assert "very-secret" not in sink.name


@pytest.mark.parametrize("url", ["s3:", "s3://", "s3://key:very-secret@bucket/x"])
def test_bad_urls_are_refused_without_their_keys(url: str) -> None:
    with pytest.raises(InputError, match="sink s3: expected s3://BUCKET/PREFIX") as error:
        S3(url)
    assert "secret@" not in error.value.message
