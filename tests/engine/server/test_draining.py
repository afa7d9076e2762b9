"""Graceful shutdown of a server process."""

import json
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
import sys
from fake_engine import FakeEngine, fake_model
from assay.engine.server import create_app, listen, serve

engine = FakeEngine(step_seconds=0.01)
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
serve(create_app(engine, fake_model()), listener, drain_seconds=float(sys.argv[1]))
print("blocks", engine.blocks - engine.free, "closed", engine.closed)
"""


@contextmanager
def process(drain_seconds: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    folder = Path(__file__).parent
    import os

    environment = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(drain_seconds)],
        env=environment,
        stdout=subprocess.PIPE,
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


def wait_for_health(url: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError("the server did not start")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_accepted_requests_are_completed(number: signal.Signals) -> None:
    body = {"model": "fake", "prompt": "abc", "max_tokens": 60, "stream": True}
    with (
        process(20) as (child, url),
        httpx.stream(
            "POST", f"{url}/v1/completions", json=body, trust_env=False, timeout=20
        ) as answer,
    ):
        lines = answer.iter_lines()
        first = next(lines)
        child.send_signal(number)
        *events, done = (line for line in (first, *lines) if line)
        assert done == "data: [DONE]"
        # A slow reader gets several tokens in one event, but all of them.
        choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
        assert "".join(choice["text"] for choice in choices) == expected_text("abc", 60)
        assert choices[-1]["finish_reason"] == "length"
        assert child.wait(10) == 0
        assert child.stdout is not None
        assert child.stdout.read() == "blocks 0 closed True\n"


def test_requests_beyond_the_drain_time_end_with_an_error() -> None:
    body = {"model": "fake", "prompt": "abc", "max_tokens": 500, "stream": True}
    with (
        process(0.2) as (child, url),
        httpx.stream(
            "POST", f"{url}/v1/completions", json=body, trust_env=False, timeout=20
        ) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        child.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]
        assert "the server is shutting down" in rest[-1]
        assert child.wait(10) == 0
        assert child.stdout is not None
        assert child.stdout.read() == "blocks 0 closed True\n"
