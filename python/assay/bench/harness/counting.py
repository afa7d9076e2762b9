"""Bytes and operations of a call, as the device's records have them."""

from __future__ import annotations

from typing import NamedTuple

from assay.bench.harness.clocks import Call
from assay.runtime.hardware import Device


class Counted(NamedTuple):
    """What the launches of one call move and compute."""

    bytes: float
    flops: float


def count(device: Device, call: Call) -> Counted:
    """Make a call once and add up what its launches were recorded with.

    Records carry the counts of the operations themselves, so that figure and record agree.
    """
    device.synchronize()
    device.take_records()
    call(0)
    device.synchronize()
    launches = [one for one in device.take_records().records if one.kind == "launch"]
    return Counted(
        float(sum(one.bytes for one in launches)), float(sum(one.flops for one in launches))
    )
