"""What runs in blocks while tracing is on or off: decode steps, GEMMs, and small kernels."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.observe.capture import Capture
    from assay.runtime import Array, Device

PROMPT: Final = 128
WARMUP: Final = 3
"""Steps of a block before it is timed."""
LAUNCHES: Final = 1000
"""Small kernels of a sample: launched one by one, or in a graph."""
REPLAYS: Final = 10
"""Replays of the graph of them."""
GEMM_SIDE: Final = 4096


def load_engine(source: str, device: Device, batch: int, steps: int) -> Engine:
    """An engine without prefix caching, so that blocks are alike, for up to `batch` requests."""
    from assay.engine import Engine

    if not device.capabilities.is_gpu:
        return Engine.load(source, device, prefix_caching=False)
    return Engine.load(
        source,
        device,
        kv_tokens=batch * (PROMPT + steps + 32) + 4096,
        prefix_caching=False,
        max_batch=batch,
        token_budget=2048,
    )


class Decoding:
    """A batch that decodes blocks of steps, captured or not, and counts what was recorded."""

    def __init__(self, engine: Engine, batch: int, steps: int, folder: Path) -> None:
        self.engine = engine
        self.batch = batch
        self.steps = steps
        self._folder = folder
        self._number = 0
        self.missing = 0
        """Records that a captured block lacks; steps and nodes are counted."""

    def plain(self, _: int) -> float:
        """Mean seconds of a step."""
        self._refill()
        self._step(WARMUP)
        return self._block()

    def captured(self, _: int) -> float:
        """Mean seconds of a step while every step and node is recorded."""
        import assay

        self._refill()
        self._number += 1
        path = self._folder / f"block-{self._number}"
        with assay.capture(path) as capture:
            # The first step takes the recorder up, and captures graphs that store times.
            self._step(WARMUP)
            seconds = self._block()
        self.missing += self._missing(capture)
        shutil.rmtree(path)
        return seconds

    def stop(self) -> None:
        """Abort all requests."""
        while self.engine.has_work:
            for name in tuple(self._names):
                if self.engine.is_under_way(name):
                    self.engine.abort(name)
            self.engine.step()

    _names: Sequence[str] = ()

    def _block(self) -> float:
        # The device is idle after the other subject: this step refills the pipeline.
        self._step(1)
        begun = time.perf_counter()
        self._step(self.steps)
        return (time.perf_counter() - begun) / self.steps

    def _refill(self) -> None:
        """New requests of the same length, so that every block has the same contexts."""
        from assay.engine import SamplingParams

        self.stop()
        vocabulary = self.engine.model.shape.vocabulary
        source = np.random.default_rng(0)
        prompts = source.integers(0, vocabulary, (self.batch, PROMPT)).tolist()
        tokens = self.steps + 16
        params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
        self._names = [self.engine.add_request(prompt, params) for prompt in prompts]
        started: set[str] = set()
        while len(started) < self.batch:
            started.update(output.request_id for output in self.engine.step() if output.chunks)

    def _step(self, count: int) -> None:
        for _ in range(count):
            self.engine.step()

    def _missing(self, capture: Capture) -> int:
        """Decode steps that are not recorded, or lack launches, and records that were dropped."""
        assert capture.header is not None
        launches = capture.launches
        expected = max(launches.values(), default=0)
        short = sum(count != expected for count in launches.values())
        return capture.header.dropped + short + max(0, self.steps - len(launches))


class SmallKernels:
    """Kernels of about a microsecond: launched one by one, or replayed as a graph."""

    def __init__(self, device: Device) -> None:
        from assay import xp

        self.device = device
        self._rows: Array = xp.zeros((1, 64), dtype=xp.float32, device=device)
        self._out: Array = xp.empty((1, 32), dtype=xp.float32, device=device)

    def launch(self, count: int = LAUNCHES) -> None:
        """Launch them one by one."""
        from assay import ops

        for _ in range(count):
            ops.swiglu(self._rows, out=self._out, label="small")

    def one_by_one(self, _: int) -> float:
        """Mean seconds of a launch."""
        self.device.synchronize()
        begun = time.perf_counter()
        self.launch()
        self.device.synchronize()
        return (time.perf_counter() - begun) / LAUNCHES

    def traced(self, run: Callable[[int], float]) -> Callable[[int], float]:
        """The same while the device keeps when each launch ran."""
        from assay._native import set_trace_step

        def call(number: int) -> float:
            self.device.start_trace(64 * LAUNCHES)
            set_trace_step(0)
            try:
                return run(number)
            finally:
                set_trace_step(None)
                work = self.device.stop_trace()
                if work.dropped or work.counts()[2]:
                    raise AssertionError(f"launches were lost: {work.counts()}")

        return call

    def in_graph(self, _: int) -> float:
        """Mean seconds of a node of a graph of them."""
        from assay.runtime.graphs import capture_graph

        with capture_graph(self.launch, device=self.device, label="small") as graph:
            graph.replay()
            self.device.synchronize()
            begun = time.perf_counter()
            for _ in range(REPLAYS):
                graph.replay()
            self.device.synchronize()
            return (time.perf_counter() - begun) / (REPLAYS * LAUNCHES)


class Gemms:
    """Square GEMMs of bfloat16, or of FP32 on a CPU, launched one by one."""

    def __init__(self, device: Device, steps: int, side: int = GEMM_SIDE) -> None:
        from assay import ops, xp

        self.device = device
        self.steps = steps
        dtype = xp.bfloat16 if device.capabilities.is_gpu else xp.float32
        drawn = np.random.default_rng(0).standard_normal((side, side), np.float32)
        self._x: Array = xp.astype(xp.asarray(drawn, device=device, copy=True), dtype)
        name = "bf16" if device.capabilities.is_gpu else "f32"
        self._weights = ops.pack(drawn, name, (side, side), device)
        self._out: Array = xp.empty((side, side), dtype=dtype, device=device)

    def run(self) -> float:
        """Mean seconds of a GEMM."""
        from assay import ops

        for _ in range(WARMUP):
            ops.linear(self._x, self._weights, out=self._out)
        self.device.synchronize()
        begun = time.perf_counter()
        for _ in range(self.steps):
            ops.linear(self._x, self._weights, out=self._out)
        self.device.synchronize()
        return (time.perf_counter() - begun) / self.steps
