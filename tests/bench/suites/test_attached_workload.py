"""The program that is traced from outside, on a CPU."""

import json
import subprocess
import sys

from assay.bench.suites.attaching import WORKLOADS


def test_every_workload_runs_its_blocks() -> None:
    names = [*WORKLOADS, "decode graph"]
    finished = subprocess.run(
        [sys.executable, "-m", "assay.bench.suites.attached_workload", "cpu", "synthetic", "4"],
        input="".join(f"{name}\n" for name in names),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    blocks = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(blocks) == len(names)
    assert all(block["seconds"] > 0 for block in blocks)
    assert [block["kernels"] for block in blocks] == [4, 4, 4, 1000, 10_000, 4]
