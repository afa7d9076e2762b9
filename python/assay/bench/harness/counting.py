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
    launches = [one for one in device.take_records().records if one.kind == "launch"]
    return WorkCounts(
        float(sum(one.bytes for one in launches)), float(sum(one.flops for one in launches))
    )
