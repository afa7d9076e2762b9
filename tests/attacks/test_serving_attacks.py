"""A server under hostile clients: nothing leaks or hangs, and healthy requests are answered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_attack import attack

FAKE = """
from fake_engine import FakeEngine, fake_model

engine = FakeEngine(blocks=512, batch=64, step_seconds=0.001)
model = fake_model()
"""
REAL = """
from assay.engine import Engine
from assay.engine.server import served_model

engine = Engine.load("synthetic", kv_tokens=4096, max_batch=64, deterministic=True)
model = served_model(engine, "synthetic")
"""
PROGRAM = """
from assay.engine.server import Limits, create_app, listen, serve

listener = listen("127.0.0.1", 0)
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
# Closing an engine aborts its requests: leaks are counted before.
close, left = engine.close, []
engine.close = lambda: (left.append((engine.statistics()["used"], engine.has_work)), close())
serve(create_app(engine, model, limits=Limits(requests=4096)), listener)
print("blocks in use", left[0][0], "working", left[0][1])
"""


@pytest.fixture
def server(
    root: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    paths = [str(root / "tests" / "engine" / "server"), os.environ.get("PYTHONPATH", "")]
    child = subprocess.Popen(
        [sys.executable, "-c", request.param + PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        # uvicorn warns of every malformed request.
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip(), child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("server", "clients", "seconds"),
    [
        pytest.param(FAKE, 300, 5, id="fake"),
        pytest.param(REAL, 100, 5, id="real"),
        pytest.param(FAKE, 1000, 60, id="fake-long", marks=pytest.mark.slow),
        pytest.param(REAL, 1000, 60, id="real-long", marks=pytest.mark.slow),
    ],
    indirect=["server"],
)
def test_hostile_clients_leak_nothing(
    server: tuple[str, "subprocess.Popen[str]"], clients: int, seconds: float
) -> None:
    url, child = server
    report = attack(url, clients, seconds)
    assert report.wrong == []
    assert report.done["healthy"] >= clients // 20
    assert all(
        report.done[action] > 0 for action in ("cancel_stream", "cancel_whole", "garbage", "half")
    )
    child.terminate()
    assert child.wait(30) == 0
    assert child.stdout is not None
    assert child.stdout.read() == "blocks in use 0 working False\n"
