"""The ceilings of the machine that a run is on, measured where they were not before."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from assay.errors import InputError
from assay.planner import hardware_spec
from assay.planner.calibrate import Calibration
from assay.planner.specs import HardwareSpec
from assay.runtime.hardware import Device

CALIBRATION_S: Final = 8.0
"""Seconds for the ceilings of the machine, where it was not calibrated before."""


def hardware_of(
    device: Device, say: Callable[[str], None], formats: Collection[str]
) -> HardwareSpec:
    """This machine's ceilings, measured for this run where they were not before."""
    try:
        return hardware_spec(device.name)
    except InputError:
        return calibrated(device, say, formats).spec("run")


def calibrated(device: Device, say: Callable[[str], None], formats: Collection[str]) -> Calibration:
    """Measure what predicting one model needs, in seconds; `assay calibrate` measures all."""
    from assay.bench.calibration import calibrate

    say(f"calibrating {device.name} for this run, for about {CALIBRATION_S:.0f} s of its budget")
    return calibrate(device, say, formats=formats, budget_s=CALIBRATION_S)
