"""How many tokens the KV cache can hold in the memory that weights and buffers leave free."""

from __future__ import annotations

import math
from typing import Final

from assay.engine.models.model_shape import ModelShape
from assay.engine.runner.kv_memory import KvMemory
from assay.errors import InputError, OutOfMemoryError
from assay.runtime import Device

MAX_PLANE_BYTES: Final = 2**31 - 1
"""Bytes of the keys of one layer at most, so that 32 bits hold every offset within them."""


def tokens_that_fit(device: Device, kv: KvMemory, shape: ModelShape, share: float) -> int:
    """Tokens of a cache in place of this one, so that `share` of the device's memory is in use."""
    if not 0.0 < share <= 1.0:
        raise InputError(f"share: expected more than 0 and at most 1, got {share:g}")
    report = device.memory_report()
    # What the pool holds and has not handed out is free for its next allocation.
    unused = report.pool["held_bytes"] - report.pool["allocated_bytes"]
    free = report.device_free_bytes + max(unused, 0)
    available = free - (1.0 - share) * report.device_bytes + kv.memory.nbytes
    bytes_per_token = kv.memory.nbytes / kv.capacity
    plane = max(math.prod(block) for block in shape.block_extents(1)) * kv.memory.dtype.itemsize
    tokens = min(int(available // bytes_per_token), MAX_PLANE_BYTES // plane)
    if tokens < 1:
        raise OutOfMemoryError(
            f"KV cache: expected memory for a token, got {max(free, 0):,} bytes free of "
            f"{report.device_bytes:,} on {device.name}, of which {1.0 - share:.0%} stay free",
            "another process uses the device, or the weights leave too little",
        )
    return tokens
