"""Measure this machine's processors as an accelerator of the catalog."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.catalog.entries import Entry
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError

_READ_BYTES = 1 << 28
"""Far beyond the caches, so that reading comes from memory."""
_MATRIX = 1024
_REPETITIONS = 7


def probe() -> Entry:
    """Rates that NumPy reaches here, each the best of several runs, as an entry of kind measured.

    Uncertainties are the distance from the median run to the best one: what a busy machine
    takes away.
    """
    import numpy as np

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    host = f"{platform.machine()} host with {os.cpu_count() or 1} processors"
    random = np.random.default_rng(0)
    data = random.random(_READ_BYTES // 8)
    left = random.random((_MATRIX, _MATRIX), dtype=np.float32)
    right = random.random((_MATRIX, _MATRIX), dtype=np.float32)
    read, read_spread = _best(lambda: data.max())
    product, product_spread = _best(lambda: left @ right)
    bandwidth = data.nbytes / read
    flops = 2.0 * _MATRIX**3 / product
    how = f"NumPy {np.__version__} on a {host}, best of {_REPETITIONS} runs"
    values = {
        "gpu.peak_flops": SourcedValue(
            f"{flops:.4g} FLOP/(s*GPU)", f"product of 32-bit matrices of {_MATRIX}; {how}",
            "measured", today, product_spread,
        ),
        "gpu.memory.bandwidth": SourcedValue(
            f"{bandwidth:.4g} byte/(s*GPU)", f"largest of {data.size} 64-bit numbers; {how}",
            "measured", today, read_spread,
        ),
        "gpu.memory.capacity": SourcedValue(
            f"{_memory()} byte/GPU", "the operating system", "measured", today
        ),
        "gpu.multiprocessors": SourcedValue(
            f"{os.cpu_count() or 1} 1/GPU", "the operating system", "measured", today
        ),
        "gpu.rate_8bit": SourcedValue("1", "no faster products of 8 bits are used", "measured", today),
        "gpu.rate_4bit": SourcedValue("1", "no faster products of 4 bits are used", "measured", today),
    }  # fmt: skip
    if (cache := _cache()) is not None:
        values["gpu.cache.capacity"] = SourcedValue(
            f"{cache} byte/GPU", "the operating system, largest cache", "measured", today
        )
    facts: dict[str, Any] = {"vendor": platform.machine(), "launched": today}
    return Entry("accelerators", "cpu_host", f"Processors of a {host}", values, (), facts)


def write_entry(entry: Entry, path: Path, *, force: bool = False) -> None:
    """Write an entry to a file in the catalog's format."""
    if path.suffix != ".json":
        raise InputError(f'expected a .json file, got "{path}"', "name it FILE.json")
    if path.exists() and not force:
        raise InputError(f"{path} exists", "use --force to overwrite it")
    values = {name: value.to_data() for name, value in entry.values.items()}
    data = {"group": entry.group, "title": entry.title, **entry.facts, "values": values}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _best(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the best run, and how much longer the median one takes, as a share."""
    run()
    times = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    times.sort()
    return times[0], round(times[len(times) // 2] / times[0] - 1.0, 4)


def _cache() -> int | None:
    """Bytes of the largest cache that the kernel knows of, if it says."""
    scales = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text[:-1].isdigit() and text[-1:] in scales:
            sizes.append(int(text[:-1]) * scales[text[-1]])
    return max(sizes, default=None)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        raise InputError("the size of this machine's memory cannot be read") from None
