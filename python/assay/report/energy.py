"""Power during blocks, from samples of telemetry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from assay.array_types import Floats
from assay.lazy_import import np, pl
from assay.report.run_files import Row

if TYPE_CHECKING:
    pass


COUNTERS: Final = (
    ("gpu_energy_joules",),
    ("host_package_energy_joules", "host_dram_energy_joules"),
)
"""Energy counters, GPUs before the host: their differences are exact, where a gauge is sampled."""
GAUGE: Final = "gpu_power_watts"


def mean_power(state: pl.DataFrame, blocks: Sequence[Row]) -> float | None:
    """Mean power in W inside the blocks: of GPUs where there are any, else of CPU and memory.

    Energy between blocks belongs to no arm, so only samples inside a block count; blocks that
    are shorter than two samples apart say nothing.
    """
    spans = sorted((block["started_at"], block["seconds"]) for block in blocks)
    if not spans:
        return None
    begin = np.array([start for start, _ in spans]) * 1e9
    end = begin + np.array([seconds for _, seconds in spans]) * 1e9
    for columns in COUNTERS:
        powers = [
            power
            for name in columns
            for times, values in _series(state, name)
            if (power := _of_counter(times, values, begin, end)) is not None
        ]
        if powers:
            return float(sum(powers))
    gauges = [
        power
        for times, values in _series(state, GAUGE)
        if (power := _of_gauge(times, values, begin, end)) is not None
    ]
    return float(sum(gauges)) if gauges else None


def _series(state: pl.DataFrame, name: str) -> Iterator[tuple[Floats, Floats]]:
    """Times and values of a field, device by device."""
    if name not in state.columns:
        return
    known = state.filter(pl.col(name).is_not_null()).sort("realtime_ns")
    for samples in known.partition_by("device", maintain_order=True):
        yield (
            samples["realtime_ns"].to_numpy().astype(float),
            samples[name].to_numpy().astype(float),
        )


def _of_counter(times: Floats, values: Floats, begin: Floats, end: Floats) -> float | None:
    """Joules over seconds, from the first to the last sample inside each block."""
    first = np.searchsorted(times, begin, "left")
    last = np.searchsorted(times, end, "right") - 1
    inside = last > first
    first, last = first[inside], last[inside]
    seconds = float((times[last] - times[first]).sum()) / 1e9
    joules = float((values[last] - values[first]).sum())
    return joules / seconds if seconds > 0 and joules > 0 else None


def _of_gauge(times: Floats, values: Floats, begin: Floats, end: Floats) -> float | None:
    """The mean of the samples inside blocks."""
    place = np.searchsorted(begin, times, "right") - 1
    inside = (place >= 0) & (times <= end[np.maximum(place, 0)])
    return float(values[inside].mean()) if inside.any() else None
