"""A transistor: its channel, and the speed and energy of what it switches."""

from assay.stack.transistor import channel, gate_speed
from assay.stack.transistor.channel import (
    drain_current,
    gate_capacitance,
    ideality,
    leakage_current,
    length,
    mobility,
    oxide_capacitance,
    scope,
    supply,
    temperature,
    thermal_voltage,
    threshold_at,
    width,
)
from assay.stack.transistor.gate_speed import floor_at, guard, leakage_at, on_current, slope_at, speed, speed_at

__all__ = [
    "channel",
    "drain_current",
    "floor_at",
    "gate_capacitance",
    "gate_speed",
    "guard",
    "ideality",
    "leakage_at",
    "leakage_current",
    "length",
    "mobility",
    "on_current",
    "oxide_capacitance",
    "scope",
    "slope_at",
    "speed",
    "speed_at",
    "supply",
    "temperature",
    "thermal_voltage",
    "threshold_at",
    "width",
]
