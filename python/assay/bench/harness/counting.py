"""Bytes and FLOPs of a call, from the device's launch records."""

from __future__ import annotations

from typing import NamedTuple

from assay.bench.harness.clocks import Call
from assay.runtime.hardware import Device


class WorkCounts(NamedTuple):
    """Bytes moved and FLOPs computed by the launches of one call."""

    bytes: float
    flops: float


def count(device: Device, call: Call) -> WorkCounts:
    """Make a call once and sum the counts of its launch records."""
    device.synchronize()
    device.take_records()
    call(0)
    device.synchronize()
    launches = [record for record in device.take_records().records if record.kind == "launch"]
    return WorkCounts(
        float(sum(launch.bytes for launch in launches)),
        float(sum(launch.flops for launch in launches)),
    )
