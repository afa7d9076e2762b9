"""The memory pool: pairs of one allocation and one free."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any, Final

import numpy as np

from assay import _native
from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Size, Subject, Suite
from assay.bench.harness.clocks import Call, HostClock, SelfTimedClock
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
    """In the native core on the simulated device, then from Python."""
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


def _inside(pairs: int, smallest: int, largest: int) -> PreparedCase:
    def call(_: int) -> float:
        elapsed = _native.measure_pool(
            pairs, smallest_bytes=smallest, largest_bytes=largest, live=LIVE
        )
        return elapsed * 1e-9

    return PreparedCase(
        Subject("assay", call, SelfTimedClock(), pairs),
        Check(
            "memory without overlap or leak",
            lambda number: _overlap(Device("sim"), smallest, largest, number),
            0.0,
        ),
        note=f"one core, simulated device, a random one of {LIVE} allocations replaced each time",
    )


def _overlap(device: Device, smallest: int, largest: int, seed: int) -> float:
    """Bytes that overlap or leak over many random allocations and frees."""
    source = random.Random(seed)
    live: list[Any] = []
    wrong = 0
    for _ in range(100):
        if live and source.random() < 0.4:
            live.pop(source.randrange(len(live))).free()
            continue
        live.append(device.allocate(source.randint(smallest, largest)))
        spans = sorted((buffer.pointer, buffer.pointer + buffer.nbytes) for buffer in live)
        for (_, end), (start, _) in itertools.pairwise(spans):
            wrong += max(0, end - start)
    for buffer in live:
        buffer.free()
    return float(wrong + device.pool_statistics()["allocated_bytes"])


def _from_python(device: Device) -> PreparedCase:
    def call(_: int) -> None:
        device.allocate(PYTHON_BYTES).free()

    def in_torch(module: Any, upload: Any) -> Call:
        return lambda _: module.empty(PYTHON_BYTES, dtype=module.uint8)

    return PreparedCase(
        Subject("assay", call, HostClock()),
        Check(
            "memory without overlap or leak",
            lambda number: _overlap(Device("cpu"), 1, PYTHON_BYTES, number),
            0.0,
        ),
        rivals=[
            numpy_rival(lambda _: np.empty(PYTHON_BYTES, np.uint8), 1.0),
            pytorch_rival(device, in_torch, 1.0),
        ],
        note="ours writes two records per pair, the rivals none",
    )


SUITE = Suite("pool", cases, devices=("cpu",), axes=(2,), size_meaning="SMALLESTxLARGEST bytes")
