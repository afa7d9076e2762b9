"""NumPy on the host, as a rival."""

from __future__ import annotations

from assay.bench.harness.case import Absent, Contestant
from assay.bench.harness.clocks import Call, HostClock
from assay.runtime.hardware import Device


def numpy_rival(call: Call, amount: float, device: Device | None = None) -> Contestant | Absent:
    """NumPy, on the host; it takes no part where a device with memory of its own is measured."""
    if device is not None and not device.host_memory:
        return Absent("NumPy", f"has no device {device.name}")
    return Contestant("NumPy", call, HostClock(), amount)
