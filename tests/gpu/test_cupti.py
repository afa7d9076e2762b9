"""CUPTI on a GPU: every kernel of this process, and of a traced PyTorch program, exactly once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assay._native import CuptiSession
from assay.bench.suites.tracing_workloads import SmallKernels
from assay.runtime import Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pl = pytest.importorskip("polars")
pytestmark = pytest.mark.gpu

PROGRAM = """
import sys
import torch

x = torch.ones(4096, device="cuda")
for _ in range(3000):
    x.sqrt_()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(7):
        x.cos_()
for _ in range(100):
    graph.replay()
torch.cuda.synchronize()
sys.exit(4)
"""


def test_every_kernel_of_this_process_is_recorded_once() -> None:
    device = Device("cuda:0", pool_bytes=1 << 30)
    small = SmallKernels(device)
    small.launch(1)
    device.synchronize()
    session = CuptiSession(folders=cuda.library_folders(), activities=["kernel"])
    small.launch(5000)
    device.synchronize()
    events = pl.DataFrame(session.stop())
    assert len(events) == 5000
    assert events["correlation"].n_unique() == 5000
    assert events["dur_ns"].min() > 0
    assert (session.dropped, session.incomplete, session.degradations) == (0, 0, [])


def test_a_pytorch_program_is_traced_to_the_last_kernel(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "assay", "trace", "attach", "--json", "--out"]
    finished = subprocess.run(
        [*words, str(tmp_path / "trace"), "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 4, finished.stderr
    answer = json.loads(finished.stdout)
    assert (answer["dropped"], answer["degradations"]) == (0, [])
    events = pl.read_parquet(tmp_path / "trace" / "events.parquet")
    names = events["name"].cast(str)
    assert int(names.str.contains("sqrt").sum()) == 3000
    replayed = events.filter(names.str.contains("cos"))
    assert len(replayed) == 700
    assert replayed["node"].n_unique() == 7
