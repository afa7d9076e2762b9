"""Programs that read a trace file and sum it, each in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.bench.rivals import elsewhere
from assay.bench.rivals.process_start import environment

HTA: Final = "HolisticTraceAnalysis"

_ANALYZE: Final = (
    "import json, sys, time\n"
    "from hta.trace_analysis import TraceAnalysis\n"
    "begun = time.perf_counter()\n"
    "analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='')\n"
    "analysis.get_gpu_kernel_breakdown(visualize=False)\n"
    "print(json.dumps({'seconds': time.perf_counter() - begun}))\n"
)


_SCAN: Final = (
    "import json, sys\n"
    "quotes = 0\n"
    "with open(sys.argv[1], 'rb') as file:\n"
    "    while part := file.read(1 << 20):\n"
    "        quotes += part.count(b'\"')\n"
    "print(json.dumps({'quotes': quotes}))\n"
)


class Analysis(NamedTuple):
    """A process that read a trace and ended."""

    seconds: float
    """From start to end."""
    resident_bytes: float
    """Its peak resident memory."""
    data: dict[str, Any]
    """What it printed."""


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> Analysis:
    """Run a command that prints one JSON object; `variables` are its environment, else ours."""
    variables = environment() if variables is None else variables
    # A file takes any amount of logs; a pipe that nobody reads would stop the process.
    with tempfile.TemporaryFile() as log:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=variables, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            errors = log.read().decode("utf-8", "replace")
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {errors[-500:]}")
    scale = 1 if sys.platform == "darwin" else 1024
    start = out.index("{")
    return Analysis(seconds, usage.ru_maxrss * scale, json.loads(out[start:]))


def scan(path: Path) -> Analysis:
    """A process that looks at every byte of the file once: no reader of it is faster."""
    return run([sys.executable, "-c", _SCAN, str(path)])


def summarize(path: Path) -> Analysis:
    """`assay trace summary`: steps, operations and sums of a file."""
    return run([sys.executable, "-m", "assay", "--quiet", "trace", "summary", str(path), "--json"])


def store(path: Path, folder: Path) -> Analysis:
    """`assay trace import`: the file as Parquet."""
    words = ("trace", "import", str(path), "--out", str(folder), "--json")
    return run([sys.executable, "-m", "assay", "--quiet", *words])


def has_hta(python: Path | None = None) -> bool:
    """Whether HolisticTraceAnalysis is installed, here or in another environment."""
    if python is None:
        return importlib.util.find_spec("hta") is not None
    return HTA in elsewhere.about(python, (HTA,))


def analyze_with_hta(path: Path, python: Path | None = None) -> Analysis:
    """Parsing and kernel breakdown of HolisticTraceAnalysis; its imports are not counted."""
    if python is None:
        done = run([sys.executable, "-c", _ANALYZE, str(path)])
    else:
        words = [str(python), "-P", "-c", _ANALYZE, str(path)]
        done = run(words, elsewhere.environment())
    return done._replace(seconds=done.data["seconds"])
