"""The floor of decoding: a token cannot come sooner than its weights can be read."""

from __future__ import annotations

from typing import Final

from assay.bench import yardsticks
from assay.bench.case import Contestant
from assay.bench.statistics import median
from assay.runtime.hardware import Device

MOST_BYTES: Final = 256 << 20
"""Larger than caches are: beyond it, reading twice as much takes twice as long."""
_SAMPLES: Final = 5


def reading(device: Device, nbytes: int, tokens: float = 1.0) -> Contestant:
    """Reading so many bytes on all cores, which `tokens` tokens could share."""
    read = yardsticks.read(device, max(4, min(nbytes, MOST_BYTES)))
    # What is read for one token of a model too large to read here takes the longer for it.
    return Contestant("floor", read.call, read.clock, tokens * read.amount / nbytes)


def seconds_to_read(device: Device, nbytes: int) -> float:
    """How long this machine takes to read so many bytes, measured now."""
    contestant = reading(device, nbytes)
    samples = [contestant.clock.measure(contestant.call, i, 1) for i in range(_SAMPLES + 1)]
    return median(samples[1:]) / contestant.amount
