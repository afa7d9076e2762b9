"""The overhead of `assay.capture`: the same steps in alternating blocks, captured and not."""

from __future__ import annotations

import functools
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.statistics import median, median_interval
from assay.bench.suites import attaching
from assay.bench.suites.tracing_workloads import LAUNCHES, Decoding, SmallKernels, load_engine
from assay.engine.loading.opening import SYNTHETIC

if TYPE_CHECKING:
    from assay.bench.harness.result import Figure, Result
    from assay.engine import Engine
    from assay.runtime import Device

BLOCKS: Final = 12
"""Pairs of blocks, captured and not."""
CPU_BLOCKS: Final = 60
"""On a CPU the system takes its share of the cores: a bound of a percent needs more pairs."""
STEPS: Final = 200
QUICK_STEPS: Final = 20
GPU_MODEL: Final = "llama-3-8b-shape"
GPU_BATCHES: Final = (1, 64)
CPU_MODEL: Final = "smollm2"
MAX_BUSY_CORES: Final = 0.25
"""Of other processes, beyond which a measurement says nothing of this machine."""
MAX_SECONDS: Final = 600.0
"""Of a case: all blocks count, however slow the machine."""
CONFIDENCE: Final = 0.8
"""Two-sided: 10 % lie above the upper bound."""

_SELF_TIMED: Final = SelfTimedClock()


class Engines:
    """The engine of all cases, loaded once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_gpu = settings.device.capabilities.is_gpu
        on_cpu = SYNTHETIC if settings.quick else CPU_MODEL
        self.source = settings.model or (GPU_MODEL if self.on_gpu else on_cpu)
        self.folder = Path(tempfile.mkdtemp(prefix="assay-tracing-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @functools.cached_property
    def engine(self) -> Engine:
        """The engine, without prefix caching, so that blocks are alike."""
        return load_engine(self.source, self.settings.device, GPU_BATCHES[-1], STEPS)


def cases(settings: Settings) -> list[Case]:
    """Decode steps by batch, then small kernels."""
    engines = Engines(settings)
    steps = QUICK_STEPS if settings.quick else STEPS
    blocks = 3 if settings.quick else BLOCKS if engines.on_gpu else CPU_BLOCKS
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
    listed = [*decode, *small]
    if engines.on_gpu:
        listed += attaching.cases(engines.source, settings.device.name, steps, blocks)
    return listed


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

    overheads = [overhead(figure) for figure in result.figures]
    decode = [case for case in overheads if case["case"].startswith("decode")]
    is_busy = (result.other_cores or 0.0) > MAX_BUSY_CORES
    if decode and not result.quick and not is_busy:
        worst = max(decode, key=lambda case: case["upper_bound"])
        kept.keep(machine(device).fingerprint, {**worst, "cases": overheads})
    note = "not kept, since other processes were busy; " if is_busy else ""
    return f"{note}overhead of capturing, median and upper 90 % bound: " + "; ".join(
        f"{case['case']}: {case['median']:+.2%}, {case['upper_bound']:+.2%}" for case in overheads
    )


SUITE: Final = Suite("tracing", cases, finish=finish)
