"""A workload on arrays as a suite: our program and its rivals on the same data, seed by seed."""

from __future__ import annotations

import functools
import math
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.program_check import ProgramCheck
from assay.bench.harness.seeding import current_seed
from assay.bench.harness.statistics import median, quantile
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
        seeding="inputs",
    )


def _cases(workload: ArrayWorkload, settings: Settings) -> list[Case]:
    if settings.data is not None and settings.data_units is not None:
        data = _read(settings.data, settings.data_units)
        return [_case(workload, settings, data.units, lambda: data)]
    usual = workload.sizes.quick if settings.quick else workload.sizes.usual
    sizes = [size[0] for size in settings.sizes] or [usual]
    return [
        _case(workload, settings, size, functools.partial(_generated, workload, size))
        for size in sizes
    ]


def _generated(workload: ArrayWorkload, size: int) -> DataSet:
    return workload.generate(current_seed() or 1, size)


def _case(
    workload: ArrayWorkload, settings: Settings, size: int, data: Callable[[], DataSet]
) -> Case:
    return Case(
        f"{workload.name}, {size:,} {workload.unit}s",
        workload.figure,
        lambda: _prepare(workload, settings, data()),
        {"workload": workload.name, "size": size, **settings.settings},
    )


def _read(path: Path, units: int) -> DataSet:
    """A staged NumPy archive, whose hash was checked."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return DataSet({name: archive[name] for name in archive.files}, units)
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: expected a NumPy archive (.npz), got {error}") from None


def _prepare(workload: ArrayWorkload, settings: Settings, data: DataSet) -> PreparedCase:
    device = settings.device
    chosen = {**start_of(workload, device, DEFAULT), **settings.settings}
    program = workload.prepare(data, device, chosen)
    own = _Timed(program, data)
    check = ProgramCheck(workload, program, data.units)
    # Ours is verified before a rival has seen any data that it could copy from.
    first = check.error(0)
    floor_s, note = _floor(workload, data, device)
    rivals = [
        rival for rival in workload.rivals if not settings.rivals or rival.name in settings.rivals
    ]
    work = workload.work(data)

    def error(number: int) -> float:
        # The check before the rounds was made above; each takes the other implementation's time.
        if not own.seconds:
            return first
        again = check.error(number)
        if check.is_fake(median(own.seconds), floor_s):
            return math.nan
        return math.nan if math.isnan(first) or math.isnan(again) else max(first, again)

    return PreparedCase(
        Subject("assay", own, _CLOCK, data.units),
        Check(check.against, error, check.tolerance),
        ceiling=None
        if floor_s is None
        else Subject("floor", lambda _: floor_s, _CLOCK, data.units),
        rivals=[_rival(workload, rival, data, device) for rival in rivals],
        bytes=work.bytes,
        flops=work.flops,
        note=note,
        degradations=lambda: [*own.stage_lines(), *check.complaints],
    )


@dataclass(slots=True)
class _Timed:
    """Runs of a program, loaded before each; loading is not timed."""

    program: Program
    data: DataSet
    seconds: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, _: int) -> float:
        self.program.load(self.data)
        start = time.perf_counter()
        stages = self.program.run()
        self.seconds.append(time.perf_counter() - start)
        for name, seconds in stages.items():
            self.stages.setdefault(name, []).append(seconds)
        return self.seconds[-1]

    def stage_lines(self) -> Iterator[str]:
        """Each stage with its median and its 99th percentile."""
        for name, seconds in self.stages.items():
            p50, p99 = median(seconds), quantile(seconds, 0.99)
            yield f"{name}: p50 {p50 * 1e6:,.1f} us, p99 {p99 * 1e6:,.1f} us"


def _rival(
    workload: ArrayWorkload, rival: WorkloadRival, data: DataSet, device: Device
) -> Subject | Absent:
    prepared = rival.prepare(data, device)
    if isinstance(prepared, Missing):
        return Absent(rival.name, f"{prepared.reason} ({rival.install})")
    if rival.is_exact:
        prepared.load(data)
        prepared.run()
        verified = workload.verify(prepared.outputs(), data)
        if not verified.error <= verified.tolerance:
            return Absent(rival.name, f"computes something else: error {verified.error:.1e}")
    return Subject(rival.name, _Timed(prepared, data), _CLOCK, data.units)


def _floor(workload: ArrayWorkload, data: DataSet, device: Device) -> tuple[float | None, str]:
    """Seconds that the work of a data set takes at the least, or why they are not known."""
    try:
        hardware = hardware_spec(device.name)
        work = workload.work(data)
        floor_s = floor_seconds([CountedWork(work.flops, work.bytes)], hardware)
    except InputError as error:
        return None, f"no floor: {error.message}"
    steps = f"{work.serial_steps:,.0f} steps one after the other are not in the floor"
    return floor_s, steps if work.serial_steps else ""
