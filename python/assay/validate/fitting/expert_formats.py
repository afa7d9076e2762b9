"""Fit what each number format of experts runs as, by accelerator and engine, and write the table.

    python -m assay.validate.fitting.expert_formats --write

Needs the extra `validate`. The form is that of `stack/kernels/experts.py`; only the time without
work, the rate of full tiles and the two shares of the memory bandwidth are fitted, on the fastest
kernel of an engine at every shape. What rows of other ranks' experts cost is fitted last, on the rows
that have expert ranks: kernels that keep such rows and kernels that have none stand apart.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize_scalar

from assay import json_records
from assay.array_types import Flags, Floats
from assay.catalog import expert_formats
from assay.validate.kernels.operations import touched_experts
from assay.validate.kernels.tables import FRAMEWORKS, is_served
from assay.validate.measured_package import (
    PACKAGE,
    VERSION,
    hash_fraction,
    package_folder,
    read_parquet,
    version_key,
)
from assay.validate.points import GroupedPoints
from assay.validate.serving.predict import hardware

SYSTEMS = (
    "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300", "l40s",
)  # fmt: skip
LEAST_ROWS = 100
MOST_ROWS = 4000
HELD_OUT = 0.3
SCALE = 0.1
TILE_ROWS = (16.0, 64.0, 128.0)
MOST_RANKS = 8
"""Expert ranks of one node: further ones exchange tokens instead."""
MOST_PASSED = 2.0
SPREADS = np.array([0.7, 0.7, 0.3, 0.7])
"""Prior spreads of the logarithms: time without work, rate, read share, activation share."""


@dataclass(frozen=True)
class Rows:
    """Measured times of the two GEMMs of a layer's experts, in one format."""

    tokens: Floats
    experts: Floats
    chosen: Floats
    hidden: Floats
    width: Floats
    touched: Floats
    seconds: Floats
    ranks: Floats

    def where(self, mask: NDArray[Any]) -> Rows:
        """The rows that a mask picks."""
        return Rows(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    @property
    def held_out(self) -> Flags:
        """Rows of the shapes that no fit may use."""
        columns = (self.hidden, self.width, self.experts, self.chosen)
        keys = [
            "expert-formats:" + ":".join(f"{v:g}" for v in row)
            for row in zip(*columns, strict=True)
        ]
        return np.array([hash_fraction(key) < HELD_OUT for key in keys])


def read(system: str, engine: str) -> Iterator[tuple[str, Rows, Rows, str]]:
    """Format, rows without and with expert ranks, and release of every table that measured enough."""
    folder = package_folder() / system / "moe" / engine
    for path in sorted(folder.glob("*/moe_perf.parquet"), key=version_key):
        raw = read_parquet(path)
        split = dict(_formats(raw, "2", "4", str(MOST_RANKS)))
        for name, rows in _formats(raw, "1"):
            if name in expert_formats.WIDTHS and len(rows.seconds) >= LEAST_ROWS:
                yield name, rows, split.get(name, rows.where(rows.ranks > 1)), path.parent.name


def _formats(raw: dict[str, list[Any]], *ranks: str) -> Iterator[tuple[str, Rows]]:
    raw["balanced"] = [name == "balanced" for name in raw["distribution"]]
    columns = {
        name: np.array(raw[name], dtype=np.float64)
        for name in (
            "num_tokens", "num_experts", "topk", "hidden_size", "inter_size", "moe_tp_size",
            "moe_ep_size", "balanced", "latency",
        )
    }  # fmt: skip
    # Which rank of a power law was measured is not stated.
    drawn = ("balanced",) if MOST_RANKS in map(int, ranks) else ("balanced", "power_law_1.01")
    routing = np.isin(np.array(raw["distribution"]), drawn)
    keep = is_served(raw) & routing & np.isin(np.array(raw["moe_ep_size"]).astype(str), ranks)
    keep &= columns["latency"] > 0
    names = np.array(raw["moe_dtype"])
    for name in np.unique(names[keep]):
        picked = keep & (names == name)
        yield str(name), _fastest({key: column[picked] for key, column in columns.items()})


def _fastest(columns: dict[str, Floats]) -> Rows:
    """Each shape once, by the fastest kernel that was measured."""
    shape = np.array([column for name, column in columns.items() if name != "latency"])
    _, index = np.unique(shape, axis=1, return_inverse=True)
    order = np.lexsort((columns["latency"], index))
    first = order[np.unique(index[order], return_index=True)[1]]
    c = {name: column[first] for name, column in columns.items()}
    ranks = c["moe_ep_size"]
    touched = touched_experts(c["num_tokens"], c["num_experts"], c["topk"], c["balanced"]) / ranks
    return Rows(
        c["num_tokens"], c["num_experts"] / ranks, c["topk"] / ranks, c["hidden_size"],
        c["inter_size"] / c["moe_tp_size"], np.maximum(touched, 1), c["latency"] * 1e-3, ranks,
    )  # fmt: skip


@dataclass(frozen=True)
class Device:
    """Ceilings of the accelerator, and the constants that all its kernels share."""

    peak: float
    bandwidth: float
    ramp: float
    exponent: float
    multiples: Mapping[int, float]
    """Rate of the tensor cores by the bits of operands, over that of 16 bits."""


def device(system: str) -> Device:
    """Ceilings of an accelerator of the tables."""
    given = hardware(system)
    names = ("gpu.peak_flops", "gpu.memory.bandwidth")
    peak, bandwidth = (float(v[0]) for v in GroupedPoints([given]).evaluate(names).values())
    return Device(
        peak, bandwidth, given["kernels.gemm.ramp"], given["kernels.gemm.overlap_exponent"],
        {16: 1.0, 8: given["gpu.rate_8bit"], 4: given["gpu.rate_4bit"]},
    )  # fmt: skip


def predict(
    rows: Rows, on: Device, logs: Floats, tile: float, width: expert_formats.Width
) -> Floats:
    """Seconds of the two GEMMs of a layer."""
    launch, rate, read_share, activation_share = _bounded(logs, on, width)
    seconds = np.zeros(len(rows.seconds))
    picked = rows.tokens * rows.chosen
    padded = np.maximum(picked + rows.touched * tile / 2, np.ceil(picked / tile) * tile)
    for columns, depth in ((2 * rows.width, rows.hidden), (rows.hidden, rows.width)):
        compute = 2 * padded * columns * depth / (rate * on.peak)
        weights = rows.touched * columns * depth * width.weight_bytes
        reading = (weights + np.sqrt(weights * on.ramp)) / (read_share * on.bandwidth)
        larger, smaller = np.maximum(compute, reading), np.minimum(compute, reading)
        both = larger * (1 + (smaller / larger) ** on.exponent) ** (1 / on.exponent)
        moved = picked * (columns + depth) * width.activation_bytes
        seconds += launch + both + moved / (activation_share * on.bandwidth)
    return seconds


def passed_seconds(
    rows: Rows, on: Device, activation_share: float, width: expert_formats.Width
) -> Floats:
    """Seconds of one pass over the outputs of rows that are of other ranks' experts."""
    passed = rows.tokens * rows.chosen * (rows.ranks - 1)
    moved = passed * (2 * rows.width + rows.hidden) * width.activation_bytes
    return moved / (activation_share * on.bandwidth)


def fit_passed(
    rows: Rows, on: Device, logs: Floats, tile: float, width: expert_formats.Width
) -> tuple[float, float]:
    """What such a row costs over one pass, and the median error of rows with expert ranks."""
    own = predict(rows, on, logs, tile, width)
    further = passed_seconds(rows, on, _bounded(logs, on, width)[3], width)

    def cost(share: float) -> float:
        errors = np.log((own + share * further) / rows.seconds) / SCALE
        return float(np.sum(np.sqrt(1 + errors**2)))

    share = float(minimize_scalar(cost, bounds=(0.0, MOST_PASSED), method="bounded").x)
    errors = np.abs(np.log((own + share * further) / rows.seconds))
    return share, float(np.median(errors))


def _bounded(logs: Floats, on: Device, width: expert_formats.Width) -> Floats:
    """Constants, with no rate above the tensor cores' and no share above the memory's bandwidth."""
    return np.minimum(np.exp(logs), [np.inf, on.multiples[width.bits], 1.0, np.inf])


def fit(rows: Rows, on: Device, width: expert_formats.Width) -> tuple[Floats, float]:
    """The most probable constants, and the rows of a tile."""
    random = np.random.default_rng(0)
    part = rows.where(random.permutation(len(rows.seconds))[:MOST_ROWS])
    center = np.log([1e-5, 0.5 * width.rate, 0.9, 0.4])
    best: tuple[float, Floats, float] | None = None
    for tile in TILE_ROWS:

        def residuals(logs: Floats, tile: float = tile) -> Floats:
            errors = np.log(predict(part, on, logs, tile, width) / part.seconds) / SCALE
            shrunk = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
            return np.concatenate([shrunk / np.sqrt(len(errors)) * 20, (logs - center) / SPREADS])

        solution = least_squares(residuals, center, max_nfev=60)
        if best is None or solution.cost < best[0]:
            best = float(solution.cost), solution.x, tile
    assert best is not None
    return best[1], best[2]


def entry_of(
    system: str, engine: str, name: str, rows: Rows, split: Rows, release: str
) -> dict[str, Any]:
    """Constants of a format, and their errors on shapes that the fit has not seen."""
    on, width = device(system), expert_formats.width(name)
    held_out = rows.held_out
    logs, tile = fit(rows.where(~held_out), on, width)
    errors = np.abs(np.log(predict(rows, on, logs, tile, width) / rows.seconds))
    launch, rate, read_share, activation_share = _bounded(logs, on, width)
    unseen = errors[held_out] if held_out.any() else errors
    return {
        "system": system, "engine": engine, "format": name, "release": release,
        "launch_time": _short(launch), "tile_rate": _short(rate),
        "read_share": _short(read_share),
        "activation_share": _short(activation_share), "tile_rows": tile,
        "rows": len(errors), "median_error": _short(float(np.median(errors))),
        "held_out_median_error": _short(float(np.median(unseen))),
        **passed_of(split, on, logs, tile, width),
    }  # fmt: skip


def passed_of(
    split: Rows, on: Device, logs: Floats, tile: float, width: expert_formats.Width
) -> dict[str, float]:
    """The cost of other ranks' rows as fields of an entry; none where no table has expert ranks."""
    if len(split.seconds) < LEAST_ROWS:
        return {}
    share, error = fit_passed(split, on, logs, tile, width)
    return {"passed_share": round(share, 2), "ranks_median_error": _short(error)}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def main() -> None:
    """Read, fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args()
    entries = []
    for system in SYSTEMS:
        for engine in FRAMEWORKS:
            for name, rows, split, release in read(system, engine):
                entries.append(entry_of(system, engine, name, rows, split, release))
                print(entries[-1], flush=True)
    if not options.write:
        return
    document = {
        "provenance": {
            "kind": "fitted", "date": datetime.date.today().isoformat(),
            "source": f"{PACKAGE} {VERSION}, moe_perf of each system, engine and release",
            "method": "fastest kernel at every shape, most probable constants, soft-L1 of logarithms",
            "command": "python -m assay.validate.fitting.expert_formats --write",
        },
        "formats": entries,
    }  # fmt: skip
    expert_formats.FILE.write_text(json_records.dumps(document, depth=2) + "\n")


if __name__ == "__main__":
    main()
