"""Ctrl-C ends the server at once, whatever it computes, and without a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

TOKEN = "a-token-of-the-server-tests"
PROGRAM = """
import sys, time
from assay.ui.api import about
@about.router.get("/sleep")
def sleep() -> str:
    time.sleep(600)
    return ""
from assay.cli.app import run
sys.exit(run(["ui", "--no-open", "--port", "0", "--token", sys.argv[1], "--json"]))
"""


def test_ctrl_c_does_not_wait_for_an_answer() -> None:
    pytest.importorskip("fastapi")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, TOKEN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    text = "".join(iter(process.stdout.readline, "}\n")) + "}"
    url = json.loads(text)["url"].split("#")[0]
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def ask() -> None:
        # The answer is cut off, or says that the server ends.
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{url}api/v1/sleep", headers=headers, timeout=120)

    asking = threading.Thread(target=ask)
    asking.start()
    # The first answer proves that the server is up; the other one is then under way.
    assert httpx.get(f"{url}api/v1/about", headers=headers, timeout=60).status_code == 200
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    asking.join(60)
    assert process.returncode == 0
    assert "Traceback" not in errors
