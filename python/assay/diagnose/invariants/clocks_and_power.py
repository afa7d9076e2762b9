"""The device runs at the clock and within the power that the prediction assumes."""

from __future__ import annotations

from typing import Final

from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation
from assay.diagnose.waterfall import of_interest
from assay.lazy_import import pl
from assay.observe.telemetry import throttle

NAME = "clocks and power"

FIELDS: Final = {
    "sm_clock": ("gpu_sm_clock_hz", "Hz", "SM clock"),
    "power": ("gpu_power_watts", "W", "power"),
}
"""Totals of a graph, and the field of telemetry that measures each, with its unit and words."""

CLOCK_STEP_HZ: Final = 15e6
"""SM clocks of NVIDIA GPUs move in steps of 15 MHz (nvidia-smi -q -d SUPPORTED_CLOCKS)."""


def check(residuals: Residuals) -> list[Violation]:
    """Compare samples during the steps with the graph's clock and power."""
    samples = _during(residuals)
    violations = []
    for total, (field, unit, words) in FIELDS.items():
        figure = residuals.graph.totals.get(total)
        values = samples[field].drop_nulls() if samples is not None else None
        least, most = (figure.lo, figure.hi) if figure else (None, None)
        if figure is None:
            reason = f"the prediction has no {total}"
        elif total == "power" and figure.lo == figure.hi:
            reason = "the prediction gives no interval of the power"
        elif values is None or not len(values):
            reason = f"needs telemetry of {field} during the steps"
        else:
            low, middle, high = (float(values.quantile(q) or 0.0) for q in (0.05, 0.5, 0.95))
            # The spread of the samples widens the interval.
            lo, hi = figure.lo - (middle - low), figure.hi + (high - middle)
            is_clock = total == "sm_clock"
            if middle < lo - CLOCK_STEP_HZ if is_clock else not lo <= middle <= hi:
                violations.append(
                    Violation(
                        NAME, "violated", words, middle, lo, hi, unit, reason=_limits(samples)
                    )
                )
            continue
        observed = float(values.median() or 0.0) if values is not None and len(values) else None  # type: ignore[arg-type]
        violations.append(
            Violation(NAME, "not measured", words, observed, least, most, unit, reason=reason)
        )
    return violations


def _during(residuals: Residuals) -> pl.DataFrame | None:
    """Samples of GPUs from the first of the steps to the last."""
    clock = residuals.trace.header.clock
    if residuals.telemetry is None or clock not in ("realtime", "monotonic"):
        return None
    steps = of_interest(residuals.steps)
    first = int(steps["start_ns"].to_numpy().min())
    last = int((steps["start_ns"] + steps["observed_ns"]).to_numpy().max())
    devices = residuals.steps["device"].drop_nulls().unique()
    samples = residuals.telemetry.filter(
        pl.col(f"{clock}_ns").is_between(first, last) & pl.col("gpu_sm_clock_hz").is_not_null()
    )
    if len(devices):
        samples = samples.filter(pl.col("index").is_in(devices.cast(pl.Int64).implode()))
    return samples if samples.height else None


def _limits(samples: pl.DataFrame | None) -> str:
    """What held the clocks down, in words."""
    if samples is None or samples["gpu_throttle"].null_count() == samples.height:
        return "the device does not say what holds its clocks"
    masks = samples["gpu_throttle"].drop_nulls().unique().to_list()
    limited = [mask for mask in masks if throttle.is_limited(mask)]
    if not limited:
        return "no limit was hit: clocks were low for want of work or by choice"
    words = dict.fromkeys(word for mask in limited for word in throttle.words(mask))
    return "held by: " + ", ".join(words)


CLOCKS_AND_POWER = Invariant(NAME, "the SM clock and the power are those of the prediction", check)
