"""Runs a calibration: measures every ceiling and says what disturbed it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from assay.bench.calibration.ceilings import measurements
from assay.bench.calibration.sampling import (
    GPU_PLAN,
    PLAN,
    Measurement,
    Sampled,
    WrongAnswerError,
    measure,
)
from assay.bench.harness.background_load import BackgroundLoad
from assay.bench.harness.session import versions
from assay.bench.rivals.pytorch import without_pytorch
from assay.errors import AssayError
from assay.planner.calibrate.calibration import QUIET_CORES, Calibration
from assay.planner.calibrate.given import given_values
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device

BUDGET_SECONDS: Final = 40.0
"""How long all measurements may take; under load, those that need it get more samples."""


def calibrate(
    device: Device,
    progress: Callable[[str], None] | None = None,
    *,
    formats: Collection[str] | None = None,
    budget_s: float = BUDGET_SECONDS,
) -> Calibration:
    """Measure the ceilings of a device; `progress` receives the name of each.

    With `formats`, linear layers and attention of these formats only: enough to predict one model,
    not to be stored for others.
    """
    report = progress or (lambda _: None)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    start, background, facts = time.perf_counter(), BackgroundLoad(), machine(device)
    plan = GPU_PLAN if device.capabilities.is_gpu else PLAN
    sampled: dict[str, Sampled] = {}
    notes: list[str] = []
    failed: list[str] = []
    with without_pytorch():
        count = sum(1 for _ in _chosen(device, formats))
        # One after another, so that the weights of a format are freed before those of the next.
        for number, what in enumerate(_chosen(device, formats), 1):
            report(f"[{number}/{count}] {what.name}")
            try:
                left = budget_s - (time.perf_counter() - start)
                most = max(2.0 * left / (count - number + 1), plan.seconds)
                sampled[what.name] = measure(what, replace(plan, max_seconds=most))
            except WrongAnswerError as error:
                failed.append(what.name)
                notes.append(error.message)
            except AssayError as error:
                notes.append(f"not measured: {what.name}: {error.message}")
    ceilings = {name: sample.ceiling for name, sample in sampled.items()}
    values = given_values(device, ceilings)
    other = background.cores()
    return Calibration(
        device=device.name,
        machine=facts.to_data(),
        date=date,
        seconds=time.perf_counter() - start,
        ceilings=ceilings,
        given=values.given,
        accelerator=values.accelerator,
        failed=tuple(failed),
        other_cores=other,
        versions=versions(device),
        notes=(*notes, *values.notes, *_disturbances(sampled, other)),
    )


def _chosen(device: Device, formats: Collection[str] | None) -> Iterator[Measurement]:
    """The measurements of some formats; those that have none are always among them."""
    for measurement in measurements(device):
        format = measurement.parameters.get("dtype")
        if formats is None or format is None or format in formats:
            yield measurement


def _disturbances(sampled: dict[str, Sampled], other_cores: float | None) -> list[str]:
    notes = []
    if other_cores is not None and other_cores > QUIET_CORES:
        notes.append(
            f"other programs kept {other_cores:.2f} cores busy: calibrate again on an idle machine"
        )
    loud = [name for name, sample in sampled.items() if not sample.is_quiet]
    if loud:
        notes.append(
            f"{len(loud)} of {len(sampled)} ceilings had too few undisturbed samples and are the "
            f"best tenth of all: {', '.join(loud[:5])}{' ...' if len(loud) > 5 else ''}"
        )
    return notes
