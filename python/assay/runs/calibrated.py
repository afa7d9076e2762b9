"""The ceilings of the machine that a run is on, measured where they were not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from assay.errors import InputError
from assay.planner import hardware_spec
from assay.planner.specs import HardwareSpec
from assay.runtime.hardware import Device

CALIBRATION_S: Final = 8.0
"""Seconds for the ceilings of the machine, where it was not calibrated before."""


def hardware_of(device: Device, say: Callable[[str], None], formats: Sequence[str]) -> HardwareSpec:
    """This machine's ceilings, measured for this run where they were not before."""
    try:
        return hardware_spec(device.name)
    except InputError:
        from assay.bench.calibration import calibrate

        say(f"calibrating {device.name} for this run")
        return calibrate(device, say, formats=formats, budget_s=CALIBRATION_S).spec("run")
