"""A program that is traced from outside: runs the blocks that it is told to, line by line.

Each line of standard input is the name of a workload; each line of standard output is what one
block of it took, as JSON.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.bench.suites.tracing_workloads import (
    LAUNCHES,
    REPLAYS,
    Decoding,
    Gemms,
    SmallKernels,
    load_engine,
)

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.runtime import Device

CPU_GEMM_SIDE: Final = 256
LEAD_SECONDS: Final = 0.25
"""How long a workload runs before its block is timed.

A GPU that was idle runs faster at first, until its power and temperature have risen; one that is
told to record pauses longer than one that is not.
"""
LEAD_STEPS: Final = 32


class Block(NamedTuple):
    """What a block took."""

    seconds: float
    """Mean seconds of a step, GEMM or kernel."""
    kernels: int
    """Kernels that it launched at least."""


class Workloads:
    """Every workload by name, set up at its first block."""

    def __init__(self, device: Device, model: str, steps: int) -> None:
        self.device = device
        self.model = model
        self.steps = steps

    @property
    def by_name(self) -> Mapping[str, Callable[[], Block]]:
        """The workloads."""
        return {
            "decode graph": lambda: self._decode(graphs=True),
            "decode eager": lambda: self._decode(graphs=False),
            "gemm": lambda: Block(self._gemms.run(), self.steps),
            "small kernels one by one": lambda: Block(self._small.one_by_one(0), LAUNCHES),
            "small kernels in a graph": lambda: Block(self._small.in_graph(0), LAUNCHES * REPLAYS),
        }

    def run(self, name: str) -> Block:
        """One block, of a device that has been at work for a while."""
        end = time.perf_counter() + (LEAD_SECONDS if self.device.capabilities.is_gpu else 0.0)
        lead = self.by_name[name] if "decode" not in name else lambda: self._lead_in(name)
        while time.perf_counter() < end:
            lead()
        return self.by_name[name]()

    @functools.cached_property
    def _engine(self) -> Engine:
        return load_engine(self.model, self.device, 1, self.steps)

    @functools.cached_property
    def _buckets(self) -> int:
        return self._engine.settings.graph_buckets

    @functools.cached_property
    def _gemms(self) -> Gemms:
        if self.device.capabilities.is_gpu:
            return Gemms(self.device, self.steps)
        return Gemms(self.device, self.steps, CPU_GEMM_SIDE)

    @functools.cached_property
    def _small(self) -> SmallKernels:
        return SmallKernels(self.device)

    def _lead_in(self, name: str) -> Block:
        return self._decode(graphs=name == "decode graph", steps=min(LEAD_STEPS, self.steps))

    def _decode(self, *, graphs: bool, steps: int | None = None) -> Block:
        buckets = self._buckets if graphs else 0
        if self._engine.settings.graph_buckets != buckets:
            self._engine.configure({"graph_buckets": buckets})
        count = self.steps if steps is None else steps
        # Nothing is captured, so nothing is written.
        decoding = Decoding(self._engine, 1, count, Path(tempfile.gettempdir()))
        seconds = decoding.plain(0)
        decoding.stop()
        return Block(seconds, count)


def main() -> None:
    """Run the blocks that standard input names: DEVICE MODEL STEPS are the arguments."""
    from assay.runtime.hardware import Device

    device, model, steps = sys.argv[1:]
    workloads = Workloads(Device(device), model, int(steps))
    for line in sys.stdin:
        print(json.dumps(workloads.run(line.strip())._asdict()), flush=True)


if __name__ == "__main__":
    main()
