"""Measure this machine's CPUs as an accelerator of the catalog."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.catalog.entries import CatalogEntry
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError

_READ_BYTES = 1 << 28
"""Far beyond the caches, so that reading comes from memory."""
_MATRIX = 1024
_REPETITIONS = 7


def probe() -> CatalogEntry:
    """Rates that NumPy reaches here, each the best of several runs, as an entry of kind measured.

    The uncertainty is the relative distance from the best run to the median one.
    """
    import numpy as np

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    host = f"{platform.machine()} host with {os.cpu_count() or 1} CPUs"
    random = np.random.default_rng(0)
    data = random.random(_READ_BYTES // 8)
    left = random.random((_MATRIX, _MATRIX), dtype=np.float32)
    right = random.random((_MATRIX, _MATRIX), dtype=np.float32)
    read, read_spread = _best(lambda: data.max())
    gemm, gemm_spread = _best(lambda: left @ right)
    bandwidth = data.nbytes / read
    flops = 2.0 * _MATRIX**3 / gemm
    how = f"NumPy {np.__version__} on a {host}, best of {_REPETITIONS} runs"
    values = {
        "gpu.peak_flops": SourcedValue(
            f"{flops:.4g} FLOP/(s*GPU)", f"SGEMM of size {_MATRIX}; {how}",
            "measured", today, gemm_spread,
        ),
        "gpu.memory.bandwidth": SourcedValue(
            f"{bandwidth:.4g} byte/(s*GPU)", f"maximum of {data.size} 64-bit floats; {how}",
            "measured", today, read_spread,
        ),
        "gpu.memory.capacity": SourcedValue(
            f"{_memory()} byte/GPU", "the operating system", "measured", today
        ),
        "gpu.multiprocessors": SourcedValue(
            f"{os.cpu_count() or 1} 1/GPU", "the operating system", "measured", today
        ),
        "gpu.rate_8bit": SourcedValue("1", "no faster 8-bit GEMM is used", "measured", today),
        "gpu.rate_4bit": SourcedValue("1", "no faster 4-bit GEMM is used", "measured", today),
    }  # fmt: skip
    if (cache := _cache()) is not None:
        values["gpu.cache.capacity"] = SourcedValue(
            f"{cache} byte/GPU", "the operating system, largest cache", "measured", today
        )
    facts: dict[str, Any] = {"vendor": platform.machine(), "launched": today}
    return CatalogEntry("accelerators", "cpu_host", f"CPUs of a {host}", values, (), facts)


def write_entry(entry: CatalogEntry, path: Path, *, force: bool = False) -> None:
    """Write an entry to a file in the catalog's format."""
    if path.suffix != ".json":
        raise InputError(f'expected a .json file, got "{path}"', "name it FILE.json")
    if path.exists() and not force:
        raise InputError(f"{path} exists", "use --force to overwrite it")
    values = {name: value.to_data() for name, value in entry.values.items()}
    data = {"group": entry.group, "title": entry.title, **entry.facts, "values": values}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _best(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the best run, and how much longer the median run takes, relative to it."""
    run()
    times = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    times.sort()
    return times[0], round(times[len(times) // 2] / times[0] - 1.0, 4)


def _cache() -> int | None:
    """Bytes of the largest cache that Linux reports, if it does."""
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
