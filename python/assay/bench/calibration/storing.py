"""Measures the ceilings of a device and stores them for predictions: `assay calibrate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers import Answer, Progress, silent
from assay.bench.calibration.run import calibrate
from assay.errors import CheckFailedError, InputError
from assay.planner.calibrate import Calibration, save
from assay.runtime.hardware import Device


@dataclass(frozen=True)
class StoredCalibration(Answer):
    """Measured ceilings, and the file that holds them."""

    measured: Calibration
    path: str

    def to_json(self) -> dict[str, Any]:
        """The calibration with its path."""
        return {**self.measured.to_data(), "path": self.path}


def calibrate_device(
    device: str = "cpu", out: Path | None = None, *, progress: Progress = silent
) -> StoredCalibration:
    """Measure the ceilings of a device into a file, or this machine's store."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise InputError(f"--out: cannot write {out}", "name a file in a folder that exists")
    # A new device object, so that its records, pool and clock are not shared.
    target = Device(device)
    if target.kind == "sim":
        raise InputError("a simulated device has no ceilings", "--device cpu")
    measured = calibrate(target, progress)
    path = save(measured, out)
    problem = None
    if measured.failed:
        problem = CheckFailedError(f"wrong results, left out: {', '.join(measured.failed)}")
    return StoredCalibration(measured, str(path), notes=measured.notes, problem=problem)
