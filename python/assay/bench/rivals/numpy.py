"""NumPy on the host, as a rival."""

from __future__ import annotations

from assay.bench.harness.case import Absent, Subject
from assay.bench.harness.clocks import Call, HostClock
from assay.runtime.hardware import Device


def numpy_rival(call: Call, amount: float, device: Device | None = None) -> Subject | Absent:
    """NumPy on the host; not measured beside a device with its own memory."""
    if device is not None and not device.host_memory:
        return Absent("NumPy", f"has no device {device.name}")
    return Subject("NumPy", call, HostClock(), amount)
