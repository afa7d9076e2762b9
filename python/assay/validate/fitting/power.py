"""Fit the constants of the clock-power-temperature loop on measured board power.

    python -m assay.validate.fitting.power tests/data/h200_power.json

Locked clocks and copies give energies and voltages; kernels of a language model then give the
activity between kernels and of issue. Runs under power limits are held out and printed with their
predictions, and so are kernels of other kinds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from assay.array_types import Floats
from assay.model.registry import Registry
from assay.stack import gpu, hbm

CLOCK = 1.83e9
BANDWIDTH = 4.8e12
KELVIN = 273.15
GEMM_DUTY = 0.05
"""Memory traffic of the GEMM as a share of the bandwidth."""

FIXED = {
    "gpu.clock": CLOCK,
    "gpu.reference.clock": CLOCK,
    "gpu.reference.top_clock": CLOCK,
    "gpu.memory.bandwidth": BANDWIDTH,
    "gpu.power.idle": 75.0,
    "gpu.leakage_scale": 60.0,
    # The board that is fitted is that of the benchmarks: it runs them by its own energies.
    "gpu.power.energy_share": 1.0,
}
FREE = {
    "gpu.cycle_energy": 5e-7,
    "gpu.voltage_slope": 0.6,
    "gpu.voltage_floor": 0.7,
    "gpu.power.leakage_reference": 30.0,
    "hbm.access_energy": 5e-11,
}
ACTIVITIES = {"zeros": 0.4, "copies": 0.1}
"""Starting values; random operands have activity 1 by definition."""

FITTED_KERNELS = ("idle", "linear", "decode attention", "sums")
"""Reductions, squares and prefill attention are held out; `copies` run on the copy engines."""

HELD_OUT_KERNELS = ("reads", "square", "prefill attention")
FREE_OF_LIMIT = 685.0
"""Watts above which the power limit moves the clock and its reading does not tell the rate."""

TOP_MEGAHERTZ = 1980
"""A lock at this clock reads 1830 MHz at the power of 1980: such points are left out."""

PEAK = 989.43e12
DENSE_USE = 0.905
"""682.6 TFLOP/s at 1395 MHz over the peak at that clock."""

_POINT = ("gpu.throttle", "gpu.temperature", "gpu.activity", "gpu.memory.duty")


def fit(data: dict[str, Any]) -> tuple[dict[str, float], dict[str, float], Floats]:
    """Constants, activities, and the relative errors of power at each point."""
    registry = Registry.from_scopes([hbm.scope, gpu.scope])
    power = registry.compile(inputs=[*FIXED, *FREE, *_POINT], outputs=["gpu.power.busy"])
    points = [*data["locked"], *({"load": "copies", **point} for point in data["copies"])]
    loads = [point["load"] for point in points]
    throttle = np.array([point["megahertz"] * 1e6 / CLOCK for point in points])
    kelvin = np.array([point["celsius"] + KELVIN for point in points])
    watts = np.array([point["watts"] for point in points])
    duty = np.array(
        [point.get("terabytes_per_second", GEMM_DUTY * BANDWIDTH / 1e12) for point in points]
    ) * (1e12 / BANDWIDTH)

    def residuals(logs: Floats) -> Floats:
        values = np.exp(logs)
        activities = dict(zip(ACTIVITIES, values[len(FREE) :], strict=True))
        activity = np.array([activities.get(load, 1.0) for load in loads])
        predicted = power(
            *FIXED.values(), *values[: len(FREE)], throttle, kelvin, activity, duty
        )[0]  # fmt: skip
        return np.asarray(predicted / watts - 1)

    start = np.log([*FREE.values(), *ACTIVITIES.values()])
    logs = least_squares(residuals, start).x
    values = [float(value) for value in np.exp(logs)]
    constants = dict(zip(FREE, values[: len(FREE)], strict=True))
    return constants, dict(zip(ACTIVITIES, values[len(FREE) :], strict=True)), residuals(logs)


def fit_activities(
    data: dict[str, Any], constants: dict[str, float]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Activities between kernels and of issue, and relative errors of power by kernel."""
    registry = Registry.from_scopes([hbm.scope, gpu.scope])
    fixed = {
        **FIXED, **constants, "gpu.dense_use": DENSE_USE, "gpu.work.clock_share": 0.0,
        "gpu.throttle_reference": 1.0,
    }  # fmt: skip
    own = ("gpu.throttle", "gpu.temperature", "gpu.work.tensor_use", "gpu.memory.duty")
    free = ("gpu.idle_activity", "gpu.issue_activity")
    power = registry.compile(inputs=[*fixed, *free, *own], outputs=["gpu.power.busy"])
    points = [
        point
        for point in data["kernels"]
        if point["watts"] < FREE_OF_LIMIT
        and point.get("locked") != TOP_MEGAHERTZ
        and point["load"].startswith((*FITTED_KERNELS, *HELD_OUT_KERNELS))
    ]
    seconds = np.array([point.get("milliseconds", np.inf) / 1e3 for point in points])
    eight_bits = np.array([1 + point["load"].endswith("8-bit") for point in points])
    rate = np.array([point.get("gigaflops", 0.0) for point in points]) * 1e9 / seconds
    moved = np.array([point.get("gigabytes", 0.0) for point in points]) * 1e9 / seconds
    watts = np.array([point["watts"] for point in points])
    is_fitted = np.array([point["load"].startswith(FITTED_KERNELS) for point in points])
    runs = np.array([point["load"] != "idle" for point in points])
    columns = (
        np.array([point["megahertz"] * 1e6 / CLOCK for point in points]),
        np.array([point["celsius"] + KELVIN for point in points]),
        rate / eight_bits / PEAK,
        moved / BANDWIDTH,
    )

    def errors(values: Floats) -> Floats:
        # Between kernels nothing is issued.
        predicted = power(*fixed.values(), values[0], values[1] * runs, *columns)[0]
        return np.asarray(predicted / watts - 1)

    def fitted_errors(values: Floats) -> Floats:
        return np.asarray(errors(values)[is_fitted])

    values = least_squares(fitted_errors, [0.03, 0.1], loss="soft_l1", f_scale=0.05).x
    by_load: dict[str, list[float]] = {}
    for point, error in zip(points, errors(values), strict=True):
        by_load.setdefault(point["load"], []).append(float(error))
    return dict(zip(free, (float(value) for value in values), strict=True)), by_load


def conversion_rows(
    data: dict[str, Any], constants: dict[str, float], errors: Sequence[float]
) -> float:
    """Rows of dense GEMMs that switch as much energy by weight as two instructions do.

    `reads` convert and add an element with two instructions, which is what they draw beyond the
    errors of power without them; converting a 4-bit weight to 16 bits takes two as well.
    """
    points = [
        point
        for point in data["kernels"]
        if point["load"] == "reads" and point.get("locked") != TOP_MEGAHERTZ
    ]
    watts = np.array([point["watts"] for point in points])
    elements = np.array([point["gigabytes"] / point["milliseconds"] for point in points]) * 5e11
    throttle = np.array([point["megahertz"] * 1e6 / CLOCK for point in points])
    voltage = np.maximum(
        constants["gpu.voltage_floor"], 1 - constants["gpu.voltage_slope"] * (1 - throttle)
    )
    issued = constants["gpu.idle_activity"] + constants["gpu.issue_activity"]
    flop = (1 - issued) * constants["gpu.cycle_energy"] * CLOCK / (DENSE_USE * PEAK)
    by_row = 2 * flop * voltage**2 * elements / watts
    return float(-(by_row @ np.array(errors)) / (by_row @ by_row))


def cooling(data: dict[str, Any]) -> tuple[float, float]:
    """Warming by power and the temperature at none, by a straight line."""
    points = data["locked"]
    slope, offset = np.polyfit(
        [point["watts"] for point in points], [point["celsius"] + KELVIN for point in points], 1
    )
    return float(slope), float(offset)


def shares_under_limits(
    data: dict[str, Any], constants: dict[str, float], resistance: float, coolant: float
) -> list[float]:
    """Clock over boost of dense GEMMs at each power limit, by all fitted constants."""
    registry = Registry.from_scopes([hbm.scope, gpu.scope])
    given = {
        **FIXED, **constants, "gpu.thermal_resistance": resistance,
        "gpu.coolant_temperature": coolant, "gpu.temperature_limit": 360.0, "gpu.activity": 1.0,
        "gpu.memory.duty": GEMM_DUTY,
    }  # fmt: skip
    return [
        registry.resolve(
            "gpu.throttle", {**given, "gpu.power.limit": point["limit"]}
        ).require_value()
        for point in data["limited"]
    ]


def main() -> None:
    """Print constants, errors, and predictions under power limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    data = json.loads(parser.parse_args().measured.read_text())
    constants, activities, errors = fit(data)
    resistance, coolant = cooling(data)
    for name, value in {**constants, **activities}.items():
        print(f"{name:32} {value:.4g}")
    print(f"{'gpu.thermal_resistance':32} {resistance:.4g}")
    print(f"{'gpu.coolant_temperature':32} {coolant:.4g}")
    print("errors of power:", " ".join(f"{error:+.1%}" for error in errors))
    fitted, by_load = fit_activities(data, constants)
    for name, value in fitted.items():
        print(f"{name:32} {value:.4g}")
    for load, own in by_load.items():
        held_out = "" if load.startswith(FITTED_KERNELS) else " (held out)"
        print(f"{load + held_out:40}", " ".join(f"{error:+.1%}" for error in own))
    rows = conversion_rows(data, {**constants, **fitted}, by_load["reads"])
    print(f"{'kernels.experts.conversion_rows':32} {rows:.4g}")
    shares = shares_under_limits(data, {**constants, **fitted}, resistance, coolant)
    most = data["limited"][-1]["teraflops"]
    for point, share in zip(data["limited"], shares, strict=True):
        print(
            f"limit {point['limit']} W: throttle {share:.3f}, rate {share / shares[-1]:.3f} of "
            f"that at {data['limited'][-1]['limit']} W, measured {point['teraflops'] / most:.3f}"
        )


if __name__ == "__main__":
    main()
