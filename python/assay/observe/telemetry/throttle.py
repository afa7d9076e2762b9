"""One bitmask over vendors of what holds a GPU's clocks down, and its bits in words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Any, Final


class Throttle(IntFlag):
    """Reasons for clocks below their highest; several hold at once."""

    IDLE = 1 << 0
    APPLICATION_CLOCKS = 1 << 1
    POWER_CAP = 1 << 2
    HARDWARE_SLOWDOWN = 1 << 3
    SYNC_BOOST = 1 << 4
    THERMAL = 1 << 5
    HARDWARE_THERMAL = 1 << 6
    POWER_BRAKE = 1 << 7
    DISPLAY_CLOCKS = 1 << 8
    BOARD_LIMIT = 1 << 9
    RELIABILITY = 1 << 10
    CURRENT_LIMIT = 1 << 11
    MEMORY_THERMAL = 1 << 12
    REGULATOR_THERMAL = 1 << 13
    OTHER = 1 << 31


WORDS: Final = {
    Throttle.IDLE: "idle",
    Throttle.APPLICATION_CLOCKS: "clocks set by a user",
    Throttle.POWER_CAP: "power cap",
    Throttle.HARDWARE_SLOWDOWN: "hardware slowdown",
    Throttle.SYNC_BOOST: "sync boost group",
    Throttle.THERMAL: "thermal",
    Throttle.HARDWARE_THERMAL: "hardware thermal slowdown",
    Throttle.POWER_BRAKE: "external power brake",
    Throttle.DISPLAY_CLOCKS: "display clocks",
    Throttle.BOARD_LIMIT: "board limit",
    Throttle.RELIABILITY: "reliability voltage limit",
    Throttle.CURRENT_LIMIT: "current limit",
    Throttle.MEMORY_THERMAL: "memory too hot",
    Throttle.REGULATOR_THERMAL: "voltage regulator too hot",
    Throttle.OTHER: "a reason this version does not know",
}
"""What each bit means to a reader."""

HARMLESS: Final = Throttle.IDLE | Throttle.APPLICATION_CLOCKS | Throttle.DISPLAY_CLOCKS
"""Reasons that are a setting or the lack of work, not a limit that was hit."""


def words(mask: int) -> list[str]:
    """The reasons of a mask.

    >>> words(0x24)
    ['power cap', 'thermal']
    """
    return [text for bit, text in WORDS.items() if mask & bit]


def is_limited(mask: int) -> bool:
    """Whether a limit was hit, rather than clocks being low for want of work or by choice."""
    return bool(mask & ~HARMLESS)


_NVIDIA_BITS: Final = 0x7FF
"""NVML's bits (nvmlClocksEventReason*, nvmlClocksThrottleReason*) are the first eleven of ours."""


def from_nvidia(reasons: int) -> Throttle:
    """The mask for NVML's clock event reasons."""
    throttle = Throttle(reasons & _NVIDIA_BITS)
    return throttle | Throttle.OTHER if reasons & ~_NVIDIA_BITS else throttle


_AMD_RANGES: Final = (
    # First and last bit of the ASIC-independent throttler status of the amdgpu driver
    # (drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h).
    (0, 7, Throttle.POWER_CAP),
    (16, 23, Throttle.CURRENT_LIMIT),
    (32, 33, Throttle.THERMAL),
    (34, 34, Throttle.MEMORY_THERMAL),
    (35, 37, Throttle.THERMAL),
    (38, 41, Throttle.REGULATOR_THERMAL),
    (42, 43, Throttle.THERMAL),
    (44, 45, Throttle.REGULATOR_THERMAL),
    (46, 47, Throttle.HARDWARE_THERMAL),
    (57, 57, Throttle.RELIABILITY),
)


def from_amd(status: int) -> Throttle:
    """The mask for amdgpu's ASIC-independent throttler status."""
    throttle, known = Throttle(0), 0
    for first, last, reason in _AMD_RANGES:
        bits = (1 << last + 1) - (1 << first)
        known |= bits
        if status & bits:
            throttle |= reason
    return throttle | Throttle.OTHER if status & ~known else throttle


_AMD_VIOLATIONS: Final = {
    "active_prochot_thrm": Throttle.HARDWARE_THERMAL,
    "active_ppt_pwr": Throttle.POWER_CAP,
    "active_socket_thrm": Throttle.THERMAL,
    "active_vr_thrm": Throttle.REGULATOR_THERMAL,
    "active_hbm_thrm": Throttle.MEMORY_THERMAL,
}


def from_amd_violations(status: Mapping[str, Any]) -> Throttle | None:
    """The mask for amdsmi's violation status; None where it has none of the flags."""
    known = [name for name in _AMD_VIOLATIONS if isinstance(status.get(name), (bool, int))]
    if not known:
        return None
    throttle = Throttle(0)
    for name in known:
        if status[name]:
            throttle |= _AMD_VIOLATIONS[name]
    return throttle
