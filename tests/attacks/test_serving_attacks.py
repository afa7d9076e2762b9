"""A server holds out against a crowd: nothing leaks, nothing sticks, who behaves is answered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_attack import attack

PROGRAM = """
import sys
from steady_engine import SteadyEngine, steady_model
from assay.engine.server import Limits, create_app, listen, serve

engine = SteadyEngine(blocks=512, batch=64, step_seconds=0.001)
listener = listen("127.0.0.1", 0)
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
serve(create_app(engine, steady_model(), limits=Limits(requests=4096)), listener)
print("blocks in use", engine.blocks - engine.free, "working", engine.has_work)
"""


@pytest.fixture
def server(root: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    paths = [str(root / "tests" / "engine" / "server"), os.environ.get("PYTHONPATH", "")]
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        # Every malformed request is a warning of uvicorn's.
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
    ("clients", "seconds"),
    [(300, 5), pytest.param(1000, 60, marks=pytest.mark.slow)],
)
def test_a_crowd(server: tuple[str, "subprocess.Popen[str]"], clients: int, seconds: float) -> None:
    url, child = server
    tally = attack(url, clients, seconds)
    assert tally.wrong == []
    assert tally.done["healthy"] >= clients // 20
    assert all(tally.done[act] > 0 for act in ("cancel_stream", "cancel_whole", "garbage", "half"))
    child.terminate()
    assert child.wait(30) == 0
    assert child.stdout is not None
    assert child.stdout.read() == "blocks in use 0 working False\n"
