"""A workload on arrays as a suite: our program and its rivals on the same data, seed by seed."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.program_check import CLOCK, ProgramCheck
from assay.bench.harness.seeding import current_seed
from assay.bench.harness.statistics import median
from assay.bench.rivals.elsewhere import prepare_elsewhere
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
    """The suite of a workload of `assay.workloads`, whose rivals may run in another environment."""
    return dataclasses.replace(suite_for(workload_named(name)), has_rivals_elsewhere=True)


def suite_for(workload: ArrayWorkload) -> Suite:
    """The suite of a workload."""
    everywhere = [workload, *workload.gpu_cases]
    rivals = {rival.name: rival for case in everywhere for rival in case.rivals}
    return Suite(
        workload.name,
        functools.partial(_cases, workload),
        axes=(1,),
        size_meaning=f"{workload.unit}s",
        devices=tuple(dict.fromkeys(kind for case in everywhere for kind in case.devices)),
        rivals=tuple(rivals),
        seeding="inputs",
        packages={name: rival.packages for name, rival in rivals.items()},
        sources=workload.sources,
        summary=workload.summary,
    )


def _cases(workload: ArrayWorkload, settings: Settings) -> list[Case]:
    measured = workload.measured_on(settings.device)
    if settings.sizes and (settings.data is not None or measured != (workload,)):
        got = ", ".join(str(size[0]) for size in settings.sizes)
        whose = (
            "files of data have"
            if settings.data is not None
            else f"cases on {settings.device.name} have"
        )
        raise InputError(
            f"the suite {workload.name}: expected no sizes, got {got}: {whose} their own",
            "leave out --sizes, or run.sizes of the claim",
        )
    if settings.data is not None and settings.data_units is not None:
        data = workload.read(settings.data, settings.data_units)
        return [_case(workload, settings, data.units, lambda: data)]
    if measured != (workload,):
        # A smoke test has the first alone.
        chosen = measured[: 1 if settings.quick else None]
        return [
            _case(case, settings, size, functools.partial(_generated, case, size))
            for case in chosen
            for size in (case.sizes.usual,)
        ]
    usual = workload.sizes.quick if settings.quick else workload.sizes.usual
    sizes = [size[0] for size in settings.sizes] or [usual]
    return [
        _case(workload, settings, size, functools.partial(_generated, workload, size))
        for size in sizes
    ]


def _generated(workload: ArrayWorkload, size: int) -> DataSet:
    return workload.generate(current_seed(), size)


def _case(
    workload: ArrayWorkload, settings: Settings, size: int, data: Callable[[], DataSet]
) -> Case:
    return Case(
        workload.title(size),
        workload.figure,
        lambda: _prepare(workload, settings, size, data()),
        {"workload": workload.name, "size": size, **settings.settings},
    )


def _prepare(workload: ArrayWorkload, settings: Settings, size: int, data: DataSet) -> PreparedCase:
    device = settings.device
    chosen = {**start_of(workload, device, DEFAULT), **settings.settings}
    program = workload.prepare(data, device, chosen)
    own = _Timed(program, data)
    # Not of `data.units`, which are those of all calls of a sample.
    check = ProgramCheck(workload, program, size)
    # Ours is verified before a rival has seen any data that it could copy from.
    first = check.error(0)
    floor_s, note = _floor(workload, data, device)
    rivals = [
        rival for rival in workload.rivals if not settings.rivals or rival.name in settings.rivals
    ]
    work = workload.work(data)
    others = [_rival(workload, rival, data, settings) for rival in rivals]
    measured = [other.name for other in others if isinstance(other, Subject)]
    notes = [
        note,
        *workload.notes(data),
        *(rival.note for rival in rivals if rival.name in measured and not rival.is_exact),
    ]

    def error(number: int) -> float:
        # The check before the rounds was made above; each takes the other implementation's time.
        if not own.seconds:
            return first
        again = check.error(number)
        if check.is_fake(median(own.seconds), floor_s, median(own.wall_s)):
            return math.nan
        return math.nan if math.isnan(first) or math.isnan(again) else max(first, again)

    return PreparedCase(
        Subject(workload.subject, own, _CLOCK, workload.amount(data), lambda: own.began_ns),
        Check(check.against, error, check.tolerance),
        ceiling=None
        if floor_s is None
        else Subject("floor", lambda _: floor_s, _CLOCK, workload.amount(data)),
        rivals=others,
        bytes=work.bytes or None,
        flops=work.flops or None,
        serial_steps=work.serial_steps,
        note="; ".join(filter(None, notes)),
        degradations=lambda: [*check.complaints, *check.doubts],
        stages=lambda calls: _stages(workload.subject, own, others, calls),
    )


@dataclass(slots=True)
class _Timed:
    """Runs of a program, loaded before each; loading is not timed.

    What runs in another process has its own clock: messages between processes are no work of its.
    """

    program: Program
    data: DataSet
    seconds: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    """The same by the clock of this process, whatever a program says of itself."""
    stages: dict[str, list[float]] = field(default_factory=dict)
    began_ns: int = 0

    def __call__(self, _: int) -> float:
        self.program.load(self.data)
        self.began_ns = time.monotonic_ns()
        start = CLOCK()
        stages = self.program.run()
        taken = CLOCK() - start
        reported = self.program.own_seconds()
        self.wall_s.append(taken)
        self.seconds.append(taken if reported is None else reported)
        for name, seconds in stages.items():
            self.stages.setdefault(name, []).append(seconds)
        return self.seconds[-1]


def _stages(
    subject: str, own: _Timed, others: Sequence[Subject | Absent], calls: Mapping[str, int]
) -> dict[str, dict[str, list[float]]]:
    """Seconds of each stage of the last calls of ours, and of rivals that have it."""
    timed = {subject: own}
    for other in others:
        if isinstance(other, Subject) and isinstance(other.call, _Timed):
            timed[other.name] = other.call
    return {
        stage: {
            who: one.stages[stage][-calls[who] :]
            for who, one in timed.items()
            if stage in one.stages and calls[who]
        }
        for stage in own.stages
    }


def _rival(
    workload: ArrayWorkload, rival: WorkloadRival, data: DataSet, settings: Settings
) -> Subject | Absent:
    python, device = settings.rival_python, settings.device
    prepared = (
        rival.prepare(data, device)
        if python is None
        else prepare_elsewhere(python, workload, rival.name, data, device)
    )
    if isinstance(prepared, Missing):
        install = f" ({rival.install})" if rival.install else ""
        return Absent(rival.name, f"{prepared.reason}{install}")
    if rival.is_exact:
        prepared.load(data)
        prepared.run()
        verified = workload.verify(prepared.outputs(), data)
        if not verified.error <= verified.tolerance:
            return Absent(rival.name, f"computes something else: error {verified.error:.1e}")
    return Subject(rival.name, _Timed(prepared, data), _CLOCK, workload.amount(data))


def _floor(workload: ArrayWorkload, data: DataSet, device: Device) -> tuple[float | None, str]:
    """Seconds that the work of a data set takes at the least, or why they are not known."""
    work = workload.work(data)
    if not work.flops and not work.bytes:
        return None, "no floor: the claim says neither bytes nor flops of a unit of work"
    try:
        hardware = hardware_spec(device.name)
        floor_s = floor_seconds([CountedWork(work.flops, work.bytes)], hardware)
    except InputError as error:
        return None, f"no floor: {error.message}"
    steps = f"{work.serial_steps:,.0f} steps one after the other are not in the floor"
    return floor_s, steps if work.serial_steps else ""
