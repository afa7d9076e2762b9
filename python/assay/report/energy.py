"""Power during blocks, from samples of telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.lazy_import import LazyModule
from assay.report.run_files import Row

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")

GPU: Final = "gpu_energy_joules"
"""A counter of the driver: its difference over a window is exact, where a gauge is sampled."""
GPU_GAUGE: Final = "gpu_power_watts"
HOST: Final = ("host_package_energy_joules", "host_dram_energy_joules")


def mean_power(state: pl.DataFrame, blocks: Sequence[Row]) -> float | None:
    """Mean power in W over the blocks' windows: GPUs where there are any, else CPU packages and memory.

    Only samples within a block count: energy between blocks belongs to no arm.
    """
    for columns in ((GPU,), HOST):
        found = [_of_counter(state, columns, block) for block in blocks]
        known = [one for one in found if one is not None]
        if known:
            joules = sum(one[0] for one in known)
            return joules / sum(one[1] for one in known)
    return _of_gauge(state, blocks)


def _within(state: pl.DataFrame, block: Row) -> pl.DataFrame:
    begin = block["started_at"] * 1e9
    end = begin + block["seconds"] * 1e9
    return state.filter(pl.col("realtime_ns").is_between(begin, end))


def _of_counter(
    state: pl.DataFrame, columns: Sequence[str], block: Row
) -> tuple[float, float] | None:
    """Joules of all devices and the seconds between the first and last sample of a block."""
    present = [name for name in columns if name in state.columns]
    if not present:
        return None
    inside = _within(state, block).filter(pl.col(present[0]).is_not_null())
    if inside.height < 2:
        return None
    grouped = inside.sort("realtime_ns").group_by("device").agg(
        *(
            (pl.col(name).drop_nulls().last() - pl.col(name).drop_nulls().first()).alias(name)
            for name in present
        ),
        ((pl.col("realtime_ns").last() - pl.col("realtime_ns").first()) / 1e9).alias("s"),
    )  # fmt: skip
    seconds = float(grouped["s"].max() or 0.0)  # type: ignore[arg-type]
    joules = sum(float(grouped[name].fill_null(0).sum()) for name in present)
    return (joules, seconds) if seconds > 0 and joules > 0 else None


def _of_gauge(state: pl.DataFrame, blocks: Sequence[Row]) -> float | None:
    if GPU_GAUGE not in state.columns or not blocks:
        return None
    inside = pl.concat([_within(state, block) for block in blocks])
    power = inside.filter(pl.col(GPU_GAUGE).is_not_null()).group_by("device").agg(
        pl.col(GPU_GAUGE).mean()
    )  # fmt: skip
    return float(power[GPU_GAUGE].sum()) if power.height else None
