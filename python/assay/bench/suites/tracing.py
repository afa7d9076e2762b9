"""The overhead of `assay.capture`: the same steps in alternating blocks, captured and not."""

from __future__ import annotations

import functools
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.statistics import median, median_interval
from assay.engine.loading.opening import SYNTHETIC

if TYPE_CHECKING:
    from assay.bench.harness.result import Figure, Result
    from assay.engine import Engine
    from assay.observe.capture import Capture
    from assay.runtime import Array, Device

BLOCKS: Final = 12
"""Pairs of blocks, captured and not."""
STEPS: Final = 200
QUICK_STEPS: Final = 20
PROMPT: Final = 128
GPU_MODEL: Final = "llama-3-8b-shape"
GPU_BATCHES: Final = (1, 64)
CPU_MODEL: Final = "smollm2"
WARMUP: Final = 3
"""Steps of a block before it is timed."""
LAUNCHES: Final = 1000
"""Small kernels of a sample: launched one by one, or in a graph."""
MAX_BUSY_CORES: Final = 0.25
"""Of other processes, beyond which a measurement says nothing of this machine."""
MAX_SECONDS: Final = 600.0
"""Of a case: all blocks count, however slow the machine."""
CONFIDENCE: Final = 0.8
"""Two-sided: 10 % lie above the upper bound."""

_SELF_TIMED: Final = SelfTimedClock()


class Decoding:
    """A batch that decodes blocks of steps, captured or not, and counts what was recorded."""

    def __init__(self, engine: Engine, batch: int, steps: int, folder: Path) -> None:
        self.engine = engine
        self.batch = batch
        self.steps = steps
        self._folder = folder
        self._number = 0
        self._left = 0
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
        self._left = 0

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
            for _ in range(10):
                graph.replay()
            self.device.synchronize()
            return (time.perf_counter() - begun) / (10 * LAUNCHES)


class Engines:
    """The engine of all cases, loaded once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_gpu = settings.device.capabilities.is_gpu
        on_cpu = SYNTHETIC if settings.quick else CPU_MODEL
        self.source = settings.model or (GPU_MODEL if self.on_gpu else on_cpu)
        self.folder = Path(tempfile.mkdtemp(prefix="assay-tracing-"))

    @functools.cached_property
    def engine(self) -> Engine:
        """The engine, without prefix caching, so that blocks are alike."""
        from assay.engine import Engine

        if not self.on_gpu:
            return Engine.load(self.source, self.settings.device, prefix_caching=False)
        most = GPU_BATCHES[-1]
        return Engine.load(
            self.source,
            self.settings.device,
            kv_tokens=most * (PROMPT + STEPS + 32) + 4096,
            prefix_caching=False,
            max_batch=most,
            token_budget=2048,
        )


def cases(settings: Settings) -> list[Case]:
    """Decode steps by batch, then small kernels."""
    engines = Engines(settings)
    steps = QUICK_STEPS if settings.quick else STEPS
    blocks = 3 if settings.quick else BLOCKS
    facts = {"model": engines.source, "steps": steps, "blocks": blocks}
    decode = [
        Case(
            f"decode, batch {batch}, {steps} steps a block",
            "ms",
            functools.partial(_decode, engines, batch, steps),
            {**facts, "batch": batch},
            blocks,
            MAX_SECONDS,
        )
        for batch in (GPU_BATCHES if engines.on_gpu else (1,))
    ]
    kernels = functools.cache(lambda: SmallKernels(settings.device))
    small = [
        Case(
            f"{LAUNCHES} small kernels, {name}",
            "us",
            functools.partial(_small, kernels, name),
            {"launches": LAUNCHES},
            blocks,
            MAX_SECONDS,
        )
        for name in ("one by one", "in a graph")
    ]
    return [*decode, *small]


def _decode(engines: Engines, batch: int, steps: int) -> PreparedCase:
    decoding = Decoding(engines.engine, batch, steps, engines.folder)
    # Compiles and captures everything that both subjects use.
    decoding.plain(0)
    decoding.captured(0)
    return PreparedCase(
        Subject("captured", decoding.captured, _SELF_TIMED),
        Check(
            "records that are missing: steps, and launches of each step",
            lambda _: float(decoding.missing),
            0.0,
        ),
        rivals=[Subject("not captured", decoding.plain, _SELF_TIMED)],
        note="alternating blocks over the same prompts",
        degradations=lambda: engines.engine.describe()["degradations"],
    )


def _small(kernels: Callable[[], SmallKernels], name: str) -> PreparedCase:
    small = kernels()
    run = small.one_by_one if name == "one by one" else small.in_graph
    traced = small.traced(run)
    return PreparedCase(
        Subject("captured", traced, _SELF_TIMED),
        Check("every launch has times", lambda number: 0.0 * traced(number), 0.0),
        rivals=[Subject("not captured", run, _SELF_TIMED)],
    )


def overhead(figure: Figure) -> dict[str, Any]:
    """The relative overhead of capturing: median over pairs of blocks, and its upper bound."""
    plain = figure.rivals[0]
    # `paired` gives not captured over captured.
    ratios = [1.0 / ratio - 1.0 for ratio in figure.paired(plain)]
    interval = median_interval(ratios, CONFIDENCE)
    return {
        "case": figure.name,
        "median": median(ratios),
        "upper_bound": interval.high if interval else math.inf,
        "confidence": 0.9,
        "blocks": len(ratios),
    }


def finish(result: Result, device: Device) -> str:
    """Keep the largest bound for the headers of traces; returns a line that says all of them."""
    from assay.observe.capture import overhead as kept
    from assay.runtime.fingerprint import machine

    found = [overhead(figure) for figure in result.figures]
    decode = [one for one in found if one["case"].startswith("decode")]
    is_busy = (result.other_cores or 0.0) > MAX_BUSY_CORES
    if decode and not result.quick and not is_busy:
        worst = max(decode, key=lambda one: one["upper_bound"])
        kept.keep(machine(device).fingerprint, {**worst, "cases": found})
    note = "not kept, since other processes were busy; " if is_busy else ""
    return f"{note}overhead of capturing, median and upper 90 % bound: " + "; ".join(
        f"{one['case']}: {one['median']:+.2%}, {one['upper_bound']:+.2%}" for one in found
    )


SUITE: Final = Suite(
    "tracing",
    "the overhead of assay.capture, in alternating blocks of steps",
    cases,
    finish=finish,
)
