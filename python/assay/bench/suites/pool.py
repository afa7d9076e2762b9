"""The memory pool: pairs of one allocation and one free."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any, Final

import numpy as np

from assay import _native
from assay.bench.harness.case import Case, Check, Contestant, Settings, Size, Suite, Trial
from assay.bench.harness.clocks import Call, HostClock, ToldClock
from assay.bench.harness.text import bytes_text
from assay.bench.rivals.numpy import numpy_rival
from assay.bench.rivals.pytorch import pytorch_rival
from assay.runtime.hardware import Device

LIVE: Final = 1000
PAIRS: Final = 20_000
QUICK_PAIRS: Final = 5_000
SIZES: Final[tuple[Size, ...]] = ((256, 4 << 20), (256, 4096), (1 << 20, 4 << 20))
PYTHON_BYTES: Final = 4096


def cases(settings: Settings) -> list[Case]:
    """Inside the core, on the simulated device; then as Python sees it."""
    pairs = QUICK_PAIRS if settings.quick else PAIRS
    listed = [
        Case(
            f"pairs of {bytes_text(smallest)} to {bytes_text(largest)}",
            "M pairs/s",
            functools.partial(_inside, pairs, smallest, largest),
            {"smallest": smallest, "largest": largest, "live": LIVE},
        )
        for smallest, largest in settings.sizes or SIZES
    ]
    listed.append(
        Case(
            f"pair of {bytes_text(PYTHON_BYTES)} from Python",
            "us",
            functools.partial(_from_python, settings.device),
            {"bytes": PYTHON_BYTES},
        )
    )
    return listed


def _inside(pairs: int, smallest: int, largest: int) -> Trial:
    def call(_: int) -> float:
        elapsed = _native.measure_pool(
            pairs, smallest_bytes=smallest, largest_bytes=largest, live=LIVE
        )
        return elapsed * 1e-9

    return Trial(
        Contestant("assay", call, ToldClock(), pairs),
        Check(
            "memory without overlap or leak",
            lambda number: _overlap(Device("sim"), smallest, largest, number),
            0.0,
        ),
        note=f"one core, simulated device, a random one of {LIVE} allocations replaced each time",
    )


def _overlap(device: Device, smallest: int, largest: int, seed: int) -> float:
    """Bytes handed out twice or not given back, over many random allocations and frees."""
    source = random.Random(seed)
    held: list[Any] = []
    wrong = 0
    for _ in range(100):
        if held and source.random() < 0.4:
            held.pop(source.randrange(len(held))).free()
            continue
        held.append(device.allocate(source.randint(smallest, largest)))
        spans = sorted((one.pointer, one.pointer + one.nbytes) for one in held)
        for (_, end), (start, _) in itertools.pairwise(spans):
            wrong += max(0, end - start)
    for one in held:
        one.free()
    return float(wrong + device.pool_statistics()["allocated_bytes"])


def _from_python(device: Device) -> Trial:
    def call(_: int) -> None:
        device.allocate(PYTHON_BYTES).free()

    def in_torch(module: Any, put: Any) -> Call:
        return lambda _: module.empty(PYTHON_BYTES, dtype=module.uint8)

    return Trial(
        Contestant("assay", call, HostClock()),
        Check(
            "memory without overlap or leak",
            lambda number: _overlap(Device("cpu"), 1, PYTHON_BYTES, number),
            0.0,
        ),
        rivals=[
            numpy_rival(lambda _: np.empty(PYTHON_BYTES, np.uint8), 1.0),
            pytorch_rival(device, in_torch, 1.0),
        ],
        note="with two records each; the rivals keep none",
    )


SUITE = Suite(
    "pool",
    "the memory pool: pairs of one allocation and one free",
    cases,
    devices=("cpu",),
    axes=(2,),
    size_meaning="SMALLESTxLARGEST bytes",
)
