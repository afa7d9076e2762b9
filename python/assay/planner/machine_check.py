"""What this machine has, what is missing, and its measured ceilings: `assay doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.answers import Answer
from assay.errors import CheckFailedError, InputError
from assay.planner.calibrate import Calibration, stored
from assay.runtime.survey import Survey, survey

Headline = dict[str, float | str | None]


@dataclass(frozen=True)
class MachineCheck(Answer):
    """Devices, drivers, libraries and folders, with the headline ceilings of each device."""

    survey: Survey
    ceilings: Mapping[str, Headline]

    def to_json(self) -> dict[str, Any]:
        """The survey with its ceilings in base units."""
        return {**self.survey.to_data(), "ceilings": dict(self.ceilings)}


def check_machine() -> MachineCheck:
    """Check devices, drivers, libraries and folders; what is required and missing is a problem."""
    surveyed = survey()
    ceilings: dict[str, Headline] = {}
    unreadable: list[str] = []
    for name in (
        device.name for device in surveyed.devices if device.works and device.name != "sim"
    ):
        try:
            calibration = stored(name)
        except InputError as error:
            unreadable.append(f"{error.message}: assay calibrate --device {name} replaces it")
            continue
        if calibration is not None:
            ceilings[name] = headline(calibration)
    required = [requirement.what for requirement in surveyed.missing if requirement.required]
    problem = CheckFailedError(f"missing: {', '.join(required)}") if required else None
    return MachineCheck(surveyed, ceilings, notes=unreadable, problem=problem)


def headline(measured: Calibration) -> Headline:
    """The headline ceilings of a device in base units; None for what was not measured."""

    def best(operation: str, unit: str) -> float | None:
        """The one of the largest working set on the most threads, or the highest rate."""
        ceilings = [ceiling for ceiling in measured.select(operation) if ceiling.unit == unit]
        if unit == "FLOP/s":
            return max((ceiling.value for ceiling in ceilings), default=None)
        ceilings.sort(
            key=lambda ceiling: (
                ceiling.parameters.get("threads", 1),
                ceiling.parameters.get("bytes"),
            )
        )
        return ceilings[-1].value if ceilings else None

    return {
        "memory_read": best("read", "byte/s"),
        "memory_copy": best("copy", "byte/s"),
        "linear": best("linear", "FLOP/s"),
        "launch": best("launch", "s"),
        "measured": measured.date,
    }
