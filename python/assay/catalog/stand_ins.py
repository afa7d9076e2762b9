"""Accelerators without streaming multiprocessors, as the GPU whose constants they borrow would be with their peak.

Systolic arrays have no kernels that this model knows. What a step takes is bounded by the same three rates: of
the arithmetic units, of the memory and of the links, which data sheets state. The rest is borrowed: as many
multiprocessors of the GPU as have the peak of the chip, and its L2 in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from assay.catalog import accelerators, constants
from assay.catalog.entries import CatalogEntry
from assay.catalog.sourced_value import SourcedValue

_PEAK: Final = ("gpu.multiprocessors", "gpu.flops_per_cycle", "gpu.clock")
_NEEDED: Final = ("gpu.memory.bandwidth", "gpu.memory.capacity", "gpu.link.bandwidth")
_ADAPTER: Final = "assumed: one adapter a chip at the rate of the reference system, between nodes"


def is_modeled(entry: CatalogEntry) -> bool:
    """Whether an accelerator has multiprocessors and constants of kernels, its own or borrowed."""
    return "gpu.multiprocessors" in entry.given and bool(entry.facts.get("calibration"))


def modeled(entry: CatalogEntry) -> CatalogEntry:
    """The entry, or what stands in for one without multiprocessors.

    >>> chip = modeled(accelerators.find("tpu_v6e"))
    >>> round(chip.given["gpu.multiprocessors"], 1)
    122.5
    """
    is_known = all(name in entry.given for name in _NEEDED) and _peak(entry) is not None
    if is_modeled(entry) or "unmodeled" not in entry.facts or not is_known:
        return entry
    return _stand_in(entry.name)


def notes(entry: CatalogEntry) -> tuple[str, ...]:
    """What stands in for an accelerator, as a note beside a prediction."""
    stand_in = modeled(entry)
    if stand_in is entry:
        return ()
    cores = stand_in.given["gpu.multiprocessors"]
    lender = constants.source_system(entry.name)
    return (f"{entry.name} ({entry.facts['unmodeled']}): as {cores:.0f} SMs of {lender}",)


def _peak(entry: CatalogEntry) -> float | None:
    """FLOP/s on 16-bit operands, stated or by the arrays of the chip."""
    given = entry.given
    if "gpu.peak_flops" in given:
        return given["gpu.peak_flops"]
    return math.prod(given[name] for name in _PEAK) if all(n in given for n in _PEAK) else None


@cache
def _stand_in(name: str) -> CatalogEntry:
    entry = accelerators.find(name)
    lender = accelerators.find(constants.source_system(name))
    core = lender.given["gpu.flops_per_cycle"] * lender.given["gpu.clock"]
    cores = (_peak(entry) or 0.0) / core
    clock = entry.given.get("gpu.clock", lender.given["gpu.clock"])
    cache_size = cores * lender.given["gpu.cache.capacity"] / lender.given["gpu.multiprocessors"]
    said = f"borrowed from {lender.name}, by peak rate"
    borrowed = {
        "gpu.multiprocessors": _assumed(f"{cores:.6g} 1/GPU", said),
        "gpu.flops_per_cycle": _assumed(f"{core / clock:.6g} FLOP", said),
        "gpu.clock": _assumed(f"{clock:.6g} Hz", said),
    }
    unless_stated = {
        "gpu.cache.capacity": _assumed(f"{cache_size:.6g} byte/GPU", said),
        "interconnect.nic.count": _assumed("1 1/GPU", _ADAPTER),
        "interconnect.nic.line_rate": _assumed("400 Gbit/s", _ADAPTER),
    }
    facts: Mapping[str, Any] = {**entry.facts, "calibration": entry.name}
    return replace(entry, values={**unless_stated, **entry.values, **borrowed}, facts=facts)


def _assumed(text: str, source: str) -> SourcedValue:
    return SourcedValue(text, source, "assumed")
