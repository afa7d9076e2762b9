"""A recording that is killed: what was acknowledged is on the disk."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.observe.telemetry.reading import read

PROGRAM = """
import sys, time
import assay
from assay.observe.telemetry.sinks.parquet import Parquet
Parquet.batch_s = 0.2
with assay.telemetry(sys.argv[1:], rate=50, run="r", endpoints=[]) as state:
    while True:
        time.sleep(0.1)
        print(*(one.acknowledged for one in state.sinks), flush=True)
"""


@pytest.mark.slow
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    lines, folder = tmp_path / "r.jsonl", tmp_path / "r"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"jsonl:{lines}", f"parquet:{folder}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ASSAY_SCRATCH": str(tmp_path / "scratch")},
    )
    assert program.stdout is not None
    end, acknowledged = time.monotonic() + 60, (0, 0)
    while min(acknowledged) < 40:
        assert time.monotonic() < end
        first, second = program.stdout.readline().split()
        acknowledged = (int(first), int(second))
    program.send_signal(signal.SIGKILL)
    rest = program.communicate(timeout=30)[0].split("\n")
    for line in rest:
        if len(line.split()) == 2:
            acknowledged = (int(line.split()[0]), int(line.split()[1]))
    assert json.loads((folder / "header.json").read_text())["summary"] is None
    for path, count in zip((lines, folder), acknowledged, strict=True):
        ticks = read(path)["tick"].to_list()
        assert len(ticks) >= count
        assert ticks == sorted(set(ticks))
