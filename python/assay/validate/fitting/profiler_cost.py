"""What PyTorch's profiler costs a host thread, for each operation and each CUDA call it records.

Runs loops of small operations with and without the profiler (`python -m assay.validate.fitting.profiler_cost`
on a machine with PyTorch and a GPU) and prints the two costs by least squares over the loops, without
and with shapes recorded. `assay.diagnose.itemizing.profiler_cost` has them.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from assay.lazy_import import LazyModule

torch: Any = LazyModule("torch", globals(), "torch")

REPEATS = 1000


def loops() -> dict[str, Callable[[], None]]:
    """Loops with other shares of operations and calls."""
    x = torch.randn(1, 256, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    c = torch.randn(8, 8)

    def linear() -> None:
        torch.nn.functional.linear(x, w)

    def views() -> None:
        x.view(256).view(1, 256).transpose(0, 1).unsqueeze(0).squeeze(0)

    def mixed() -> None:
        y = torch.nn.functional.linear(x, w).mul(0.5).add(1.0)
        y.view(256).unsqueeze(0)
        torch.softmax(y, -1)

    def events() -> None:
        event = torch.cuda.Event()
        event.record()
        event.query()

    def add() -> None:
        x.add_(1.0)

    def add_on_cpu() -> None:
        c.add(1.0)

    return {loop.__name__: loop for loop in (add, linear, views, add_on_cpu, mixed, events)}


def timed(loop: Callable[[], None]) -> float:
    """Nanoseconds of host time an iteration."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(REPEATS):
        loop()
    spent = time.perf_counter_ns() - begin
    torch.cuda.synchronize()
    return spent / REPEATS


def traced(loop: Callable[[], None], shapes: bool) -> tuple[float, Counter[str]]:
    """The same under the profiler, and records an iteration by category."""
    with torch.profiler.profile(record_shapes=shapes) as recording:
        timed(loop)
        spent = timed(loop)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recording.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return spent, Counter(event.get("cat") for event in events if event.get("ph") == "X")


def main() -> None:
    """Print the cost of an operation and of a call."""
    for shapes in (False, True):
        counts, costs = [], []
        for name, loop in loops().items():
            timed(loop)
            plain = median(timed(loop) for _ in range(9))
            runs = [traced(loop, shapes) for _ in range(5)]
            records = runs[0][1]
            operations = records["cpu_op"] / (2 * REPEATS)
            calls = (records["cuda_runtime"] + records["cuda_driver"]) / (2 * REPEATS)
            cost = median(run[0] for run in runs) - plain
            print(f"{name}: {operations:.1f} operations, {calls:.1f} calls, {cost:,.0f} ns more")
            counts.append((operations, calls))
            costs.append(cost)
        costs_ns = np.linalg.lstsq(np.array(counts), np.array(costs), rcond=None)[0]
        print(
            f"record_shapes={shapes}: {costs_ns[0]:,.0f} ns an operation, {costs_ns[1]:,.0f} ns a call"
        )


if __name__ == "__main__":
    main()
