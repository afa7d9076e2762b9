"""Graceful shutdown of a server, with HTTP in its process and in one of its own."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fake_engine import expected_text

PROGRAM = """
import logging, sys
from fake_engine import FakeEngine, FakeSource, fake_model
from assay.engine.server import LoadedEngine, ModelFacts, create_app, listen, serve
from assay.engine.server.engine_process import HttpProcess
from assay.engine.server.http_settings import HttpSettings
from assay.engine.server.logs import LogSettings
from assay.second_process import SecondProcess

logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
engine = FakeEngine(step_seconds=float(sys.argv[2]))
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
drain_seconds = float(sys.argv[1])
if sys.argv[3] == "apart":
    settings = HttpSettings([FakeSource()], drain_seconds=drain_seconds, logs=LogSettings())
    with SecondProcess("assay.engine.server.http_process") as second:
        process = HttpProcess(second, listener, settings)
        process.serve([LoadedEngine("fake", engine, ModelFacts(512, 257))])
else:
    serve(create_app(engine, fake_model()), listener, drain_seconds=drain_seconds)
print("blocks", engine.blocks - engine.free, "closed", engine.closed)
"""


@pytest.fixture(params=["together", "apart"], autouse=True)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether HTTP has a process of its own."""
    monkeypatch.setenv("MODE_OF_TEST", request.param)
    return str(request.param)


@contextmanager
def process(
    drain_seconds: float, step_seconds: float = 0.01
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    folder, mode = Path(__file__).parent, os.environ["MODE_OF_TEST"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(drain_seconds), str(step_seconds), mode],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        url = f"http://127.0.0.1:{int(child.stdout.readline())}"
        wait_for_health(url)
        yield child, url
    finally:
        child.kill()
        child.communicate()


@contextmanager
def streaming(
    drain_seconds: float, tokens: int, step_seconds: float = 0.01
) -> Iterator[tuple[subprocess.Popen[str], str, Iterator[str]]]:
    """A server with a request under way: the process, its URL, and what follows the first event."""
    body = {"model": "fake", "prompt": "abc", "max_tokens": tokens, "stream": True}
    with (
        process(drain_seconds, step_seconds) as (child, url),
        httpx.stream(
            "POST", f"{url}/v1/completions", json=body, trust_env=False, timeout=20
        ) as answer,
    ):
        # Kept, since dropping the iterator closes the connection.
        lines = (line for line in answer.iter_lines() if line)
        first = next(lines)
        yield child, url, itertools.chain([first], lines)


def wait_until_draining(url: str) -> httpx.Response:
    deadline = time.monotonic() + 10
    while (health := httpx.get(f"{url}/health", trust_env=False)).status_code == 200:
        assert time.monotonic() < deadline
    return health


def ended_well(child: subprocess.Popen[str]) -> bool:
    assert child.wait(60) == 0
    assert child.stdout is not None
    return child.stdout.read() == "blocks 0 closed True\n"


def log_of(child: subprocess.Popen[str]) -> str:
    assert child.stderr is not None
    return child.stderr.read()


def wait_for_health(url: str) -> None:
    # Two processes import the server, beside what else the machine does.
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError("the server did not start")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_accepted_requests_are_completed(number: signal.Signals) -> None:
    with streaming(20, tokens=60) as (child, _, lines):
        child.send_signal(number)
        *events, done = lines
        assert done == "data: [DONE]"
        # A slow reader gets several tokens in one event, but all of them.
        choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
        assert "".join(choice["text"] for choice in choices) == expected_text("abc", 60)
        assert choices[-1]["finish_reason"] == "length"
        assert ended_well(child)


def test_requests_beyond_the_drain_time_end_with_an_error() -> None:
    with streaming(0.2, tokens=500) as (child, _, lines):
        child.send_signal(signal.SIGTERM)
        assert "the server is shutting down" in list(lines)[-1]
        assert ended_well(child)


def test_draining_server_says_so() -> None:
    with streaming(4, tokens=500, step_seconds=0.05) as (child, url, lines):
        child.send_signal(signal.SIGTERM)
        health = wait_until_draining(url)
        assert health.status_code == 503
        assert health.headers["retry-after"] == "1"
        assert health.json()["error"]["code"] == "unavailable"
        body = {"model": "fake", "prompt": "abc", "max_tokens": 5}
        refused = httpx.post(f"{url}/v1/completions", json=body, trust_env=False)
        assert refused.status_code == 503
        assert list(lines)
        assert child.wait(60) == 0
        log = log_of(child)
    assert "draining, requests under way: 1; they have 4 s" in log
    assert "drained, requests finished: 0, aborted: 1" in log
    assert "Traceback" not in log


def test_second_ctrl_c_ends_at_once() -> None:
    with streaming(30, tokens=500, step_seconds=0.05) as (child, url, _lines):
        child.send_signal(signal.SIGINT)
        wait_until_draining(url)
        child.send_signal(signal.SIGINT)
        # The request under way would take 25 s.
        assert child.wait(15) == 130
        log = log_of(child)
    assert log.endswith("ended at once: requests under way are lost\n")
    assert "Traceback" not in log


def test_second_sigterm_does_not_hurry() -> None:
    with streaming(20, tokens=100) as (child, _, lines):
        child.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        child.send_signal(signal.SIGTERM)
        assert list(lines)[-1] == "data: [DONE]"
        assert ended_well(child)
