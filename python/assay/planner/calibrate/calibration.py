"""A calibration: the ceilings of one device of one machine, and what the equations take from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.errors import InputError
from assay.planner.calibrate.lookup import select
from assay.planner.specs import Ceiling, HardwareSpec

FORMAT: Final = "assay.calibration/1"

QUIET_CORES: Final = 0.1
"""Cores that other processes may keep busy before a calibration says that it was disturbed."""

_RENAMED: Final = {"kernels.decode.read_share": "kernels.decode.rise_share"}
"""Names in older files, and today's."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Ceilings as they were measured, in base units."""

    device: str
    """cpu, or a GPU such as cuda:0."""
    machine: Mapping[str, Any]
    """Properties of machine and device that decide performance, with their `fingerprint`."""
    date: str
    """When the measurement began, as an ISO date."""
    seconds: float
    ceilings: Mapping[str, Ceiling]
    given: Mapping[str, float]
    """Values by variable of the graph of equations."""
    accelerator: str = ""
    """The catalog's name of the GPU; empty for a CPU, or a GPU that is not in it."""
    failed: tuple[str, ...] = ()
    """Ceilings that are left out because what was timed computed a wrong answer."""
    other_cores: float | None = None
    """Mean number of cores that other processes used meanwhile; None where unknown."""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Of the machine and the device."""
        return str(self.machine["fingerprint"])

    @property
    def description(self) -> str:
        """What the device is called: the name of the GPU, or of the processor."""
        name = self.machine["processor" if self.device == "cpu" else "device_description"]
        return str(name)

    def select(self, operation: str, **parameters: Any) -> Iterator[Ceiling]:
        """Ceilings of an operation that have these parameters."""
        return select(self.ceilings, operation, **parameters)

    def spec(self, source: str, notes: tuple[str, ...] = ()) -> HardwareSpec:
        """The device as hardware of a prediction."""
        return HardwareSpec(
            name=self.description,
            given=self.given,
            source=source,
            ceilings=self.ceilings,
            notes=(*self.notes, *notes),
            accelerator=self.accelerator,
        )

    def to_data(self) -> dict[str, Any]:
        """As plain data, in the format of the file."""
        return {
            "format": FORMAT,
            **asdict(self),
            "failed": list(self.failed),
            "notes": list(self.notes),
        }


def from_data(data: Any, source: str) -> Calibration:
    """A calibration from the content of its file; `source` names it in errors."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        got = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise _not_one(source, f"expected format {FORMAT}, got {got}")
    try:
        other = data["other_cores"]
        return Calibration(
            device=str(data["device"]),
            machine={**data["machine"], "fingerprint": str(data["machine"]["fingerprint"])},
            date=str(data["date"]),
            seconds=_number(data["seconds"]),
            ceilings={str(name): _ceiling(ceiling) for name, ceiling in data["ceilings"].items()},
            given={
                _RENAMED.get(str(name), str(name)): _number(value)
                for name, value in data["given"].items()
            },
            accelerator=str(data["accelerator"]),
            failed=tuple(str(name) for name in data["failed"]),
            other_cores=None if other is None else _number(other),
            versions=dict(data["versions"]),
            notes=tuple(str(note) for note in data["notes"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _not_one(source, f"{type(error).__name__}: {error}") from None


def _ceiling(data: Mapping[str, Any]) -> Ceiling:
    made = Ceiling(
        _number(data["value"]),
        _number(data["lo"]),
        _number(data["hi"]),
        str(data["unit"]),
        int(data["repeats"]),
        dict(data["parameters"]),
    )
    if not 0.0 < made.lo <= made.value <= made.hi:
        raise ValueError(f"expected 0 < lo <= value <= hi, got {made.lo}, {made.value}, {made.hi}")
    return made


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return float(value)


def _not_one(source: str, why: str) -> InputError:
    return InputError(f"{source} is no calibration: {why}", "assay calibrate --out FILE writes one")
