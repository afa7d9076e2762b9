"""The floor of work that was counted while it ran: every operation at the best rate of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from assay.errors import InputError
from assay.planner.specs import HardwareSpec

_PEAK: Final = "gpu.peak_flops"
_RATE: Final = "FLOP/s"


class Work(NamedTuple):
    """What an operation computes, and what it reads and writes."""

    flops: float
    bytes: float


def floor_seconds(operations: Iterable[Work], hardware: HardwareSpec) -> float:
    """The sum of each operation's arithmetic at the peak, or of its bytes if those take longer.

    The peak is the best rate of arithmetic that was measured, of whatever format.
    Bytes are read at the bandwidth that was measured of no more of them: caches are no slower.
    """
    measured = (ceiling.value for ceiling in hardware.ceilings.values() if ceiling.unit == _RATE)
    peak = max((hardware.given.get(_PEAK, 0.0), *measured))
    rates: dict[float, float] = {}
    for ceiling in hardware.ceilings.values():
        if ceiling.parameters.get("operation") == "read":
            size = float(ceiling.parameters["bytes"])
            rates[size] = max(rates.get(size, 0.0), ceiling.value)
    if not peak or not rates:
        raise InputError(
            f"{hardware.name}: expected a calibration with read bandwidths and a peak, got none",
            "assay calibrate measures this machine",
        )
    return sum(max(work.flops / peak, work.bytes / _bandwidth(rates, work)) for work in operations)


def _bandwidth(rates: dict[float, float], work: Work) -> float:
    fitting = [size for size in rates if size <= work.bytes]
    return rates[max(fitting)] if fitting else max(rates.values())
