"""A workload on arrays as a suite: our program and its rivals on the same data, seed by seed."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.program_check import ProgramCheck
from assay.errors import InputError
from assay.planner import hardware_spec
from assay.planner.counted import Work as CountedWork, floor_seconds
from assay.runtime.hardware import Device
from assay.workloads.contract import (
    DEFAULT,
    ArrayWorkload,
    DataSet,
    Missing,
    Program,
    WorkloadRival,
    start_of,
)
from assay.workloads.registry import workload as workload_named

SEEDS: Final = (1, 2, 3)
_CLOCK: Final = SelfTimedClock()


def suite_of(name: str) -> Suite:
    """The suite of a workload."""
    workload = workload_named(name)
    return Suite(
        name,
        functools.partial(_cases, workload),
        axes=(1,),
        size_meaning=f"{workload.unit}s",
        devices=workload.devices,
        rivals=tuple(rival.name for rival in workload.rivals),
    )


def _cases(workload: ArrayWorkload, settings: Settings) -> list[Case]:
    usual = workload.sizes.quick if settings.quick else workload.sizes.usual
    sizes = [size[0] for size in settings.sizes] or [usual]
    chosen = [
        rival for rival in workload.rivals if not settings.rivals or rival.name in settings.rivals
    ]
    return [
        Case(
            f"{workload.name}, {size:,} {workload.unit}s",
            workload.figure,
            functools.partial(_prepare, workload, settings.device, size, chosen),
            {"workload": workload.name, "size": size, "seeds": list(SEEDS)},
        )
        for size in sizes
    ]


def _prepare(
    workload: ArrayWorkload, device: Device, size: int, rivals: Sequence[WorkloadRival]
) -> PreparedCase:
    data = [workload.generate(seed, size) for seed in SEEDS]
    program = workload.prepare(data[0], device, start_of(workload, device, DEFAULT))
    own = _Timed(program, data)
    check = ProgramCheck(workload, program, size)
    # Ours is verified before a rival has seen any data that it could copy from.
    first = check.error(0)
    floor_s, note = _floor(workload, data[0], device)
    units = data[0].units
    work = workload.work(data[0])
    return PreparedCase(
        Subject("assay", own, _CLOCK, units),
        Check(check.against, lambda number: _worse(first, check.error(number)), check.tolerance),
        ceiling=None if floor_s is None else Subject("floor", lambda _: floor_s, _CLOCK, units),
        rivals=[_rival(workload, rival, data, device) for rival in rivals],
        bytes=work.bytes,
        flops=work.flops,
        note=note,
        degradations=lambda: check.complaints,
    )


@dataclass(slots=True)
class _Timed:
    """Runs of a program on one data set after the other; loading is not timed."""

    program: Program
    data: Sequence[DataSet]
    stages: list[dict[str, float]] = field(default_factory=list)

    def __call__(self, number: int) -> float:
        self.program.load(self.data[number % len(self.data)])
        start = time.perf_counter()
        stages = self.program.run()
        seconds = time.perf_counter() - start
        self.stages.append(dict(stages))
        return seconds


def _rival(
    workload: ArrayWorkload, rival: WorkloadRival, data: Sequence[DataSet], device: Device
) -> Subject | Absent:
    prepared = rival.prepare(data[0], device)
    if isinstance(prepared, Missing):
        return Absent(rival.name, f"{prepared.reason} ({rival.install})")
    if rival.is_exact:
        prepared.load(data[1])
        prepared.run()
        verified = workload.verify(prepared.outputs(), data[1])
        if not verified.error <= verified.tolerance:
            return Absent(rival.name, f"computes something else: error {verified.error:.1e}")
    return Subject(rival.name, _Timed(prepared, data), _CLOCK, data[0].units)


def _floor(workload: ArrayWorkload, data: DataSet, device: Device) -> tuple[float | None, str]:
    """Seconds that the work of a data set takes at the least, or why they are not known."""
    try:
        hardware = hardware_spec(device.name)
        work = workload.work(data)
        return floor_seconds([CountedWork(work.flops, work.bytes)], hardware), ""
    except InputError as error:
        return None, f"no floor: {error.message}"


def _worse(first: float, second: float) -> float:
    return math.nan if math.isnan(first) or math.isnan(second) else max(first, second)
