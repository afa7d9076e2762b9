"""`assay run --workload order-book`: the engine and the requests of a workload on arrays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from assay.bench.harness.case import unit_named
from assay.errors import InputError
from assay.load.workloads.spec import parse_objective, parse_slo
from assay.load.workloads.workload import (
    DataSetShape,
    Objective,
    PlannedRequest,
    ServiceLevel,
    Workload,
)
from assay.planner.counted import Work, floor_seconds
from assay.runs.array_engine import ArrayEngine
from assay.runs.calibrated import hardware_of
from assay.runs.subject_options import SubjectOptions
from assay.runtime.hardware import Device
from assay.workloads.contract import ArrayWorkload, DataSet, start_of
from assay.workloads.registry import workload as workload_named

DATA_SETS: Final = 3
"""Different data sets, which take turns; to verify one by another implementation may take a minute, and each
configuration's outputs of each are verified."""
LONGEST_S: Final = 0.5
"""A data set whose run takes longer at the start is replaced by one of the quick size: a verdict
needs many runs."""
_OBJECTIVE: Final = Objective("request_throughput")


def open_arrays(
    asked: SubjectOptions, planned: Workload | None, say: Callable[[str], None]
) -> tuple[ArrayEngine, Workload]:
    """The engine of a workload on arrays, and the requests: a data set each."""
    _check(asked)
    workload = workload_named(str(asked.workload))
    device = Device(asked.device or "cpu")
    kind = device.name.partition(":")[0]
    if kind not in workload.devices:
        raise InputError(
            f"--device: expected {' or '.join(workload.devices)} for {workload.name}, "
            f"got {device.name}"
        )
    start: Literal["plain", "default"] = "default" if asked.start == "defaults" else "plain"
    settings = {**start_of(workload, device, start), **asked.settings()}
    _check_settings(workload, device, asked)
    say("generating data sets")
    data, size_note = _data(workload, device, asked)
    work = workload.work(data[0])
    floor_s = floor_seconds([Work(work.flops, work.bytes)], hardware_of(device, say, ("f32",)))
    engine = ArrayEngine(workload, device, data, settings, floor_s, _chain(workload, data[0]))
    if planned is not None:
        return engine, replace(planned, data_set=_shape(workload, data[0]))
    return engine, _requests(workload, asked, data, size_note)


def _data(
    workload: ArrayWorkload, device: Device, asked: SubjectOptions
) -> tuple[list[DataSet], str]:
    """Data sets of the usual size, or of the quick one where a run of those takes too long."""
    size, note = workload.sizes.usual, ""
    first = workload.generate(asked.seed + 1, size)
    program = workload.prepare(first, device, start_of(workload, device, "plain"))
    start = time.perf_counter()
    program.run()
    seconds = time.perf_counter() - start
    program.close()
    if seconds > LONGEST_S and workload.sizes.quick < size:
        note = (
            f"{size:,} {workload.unit}s take {seconds:.1f} s at the start: data sets have "
            f"{workload.sizes.quick:,}"
        )
        size = workload.sizes.quick
        first = workload.generate(asked.seed + 1, size)
    others = [workload.generate(asked.seed + 1 + at, size) for at in range(1, DATA_SETS)]
    return [first, *others], note


def _requests(
    workload: ArrayWorkload, asked: SubjectOptions, data: list[DataSet], size_note: str
) -> Workload:
    units = data[0].units
    gate = (
        f"a change is kept only if the outputs of all {len(data)} data sets stay the same, and equal "
        "to those of another implementation"
    )
    shape = _shape(workload, data[0])
    one = f"a request is {shape.request}: 1 request/s is {shape.figure(1.0):,.4g} {shape.unit}"
    left_out = _chain(workload, data[0])
    chain = f"{left_out} are not in the floor" if left_out else ""
    return Workload(
        workload.name,
        f"{units:,} {workload.unit}s, one data set after the other",
        tuple(
            PlannedRequest(at, f"{workload.name} {entry.sha256}", units)
            for at, entry in enumerate(data)
        ),
        objective=_OBJECTIVE if asked.metric is None else parse_objective("--metric", asked.metric),
        slo=_slo(asked),
        notes=tuple(filter(None, [one, gate, size_note, chain])),
        data_set=shape,
    )


def _shape(workload: ArrayWorkload, data: DataSet) -> DataSetShape:
    """What a request is, and its figure in the workload's own unit."""
    unit, amount = unit_named(workload.figure), workload.amount(data)
    is_time = unit.kind == "time"
    scale = 1.0 / (amount * unit.scale) if is_time else amount / unit.scale
    rows, row = workload.rows(data)
    plural = "" if data.units == 1 else "s"
    words = f"a data set of {data.units:,} {workload.unit}{plural}"
    return DataSetShape(words, row, rows, workload.figure, scale, is_time)


def _chain(workload: ArrayWorkload, data: DataSet) -> str:
    """What the floor leaves out, in words: steps that wait for each other."""
    steps = workload.work(data).serial_steps
    return f"{steps:,.0f} steps one after the other" if steps else ""


def _check(asked: SubjectOptions) -> None:
    for name in ("model", "concurrency", "rate", "input_tokens", "output_tokens", "maximize"):
        if getattr(asked, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')}: expected none for {asked.workload}, got "
                f"{getattr(asked, name)}",
                "data sets come one after the other",
            )


def _check_settings(workload: ArrayWorkload, device: Device, asked: SubjectOptions) -> None:
    known = {setting.name: setting for setting in workload.settings(device)}
    for name, value in asked.settings().items():
        if name not in known or value not in known[name].values:
            offered = known[name].values if name in known else tuple(known)
            words = ", ".join(str(choice) for choice in offered)
            raise InputError(f"--knob {name}: expected one of {words}, got {value}")


def _slo(asked: SubjectOptions) -> ServiceLevel:
    if isinstance(asked.slo, str):
        return parse_slo("--slo", asked.slo)
    return asked.slo or ServiceLevel()
