"""Outdoor air, and the water temperature that a cooling tower or dry cooler reaches."""

from __future__ import annotations

from assay.model import POSITIVE, atan, cited, number, sqrt, where
from assay.stack.thermal.supply import (
    scope,
)

_STULL = cited(
    "Stull 2011, Wet-Bulb Temperature from Relative Humidity and Air Temperature", "eq. 1"
)
_ENERGYPLUS = "EnergyPlus Engineering Reference"
_TOWER = cited(_ENERGYPLUS, "Cooling towers, fan power and heat rejection")

dry_bulb = scope.variable(
    "weather.dry_bulb", "T_db", "K", "temperature of the outdoor air", display="degC",
    bounds=POSITIVE, reference=_STULL, boundary="scenario",
)  # fmt: skip
humidity = scope.variable(
    "weather.humidity", "RH", "1", "relative humidity of the outdoor air", display="%",
    bounds=(0, 1), reference=_STULL, boundary="scenario",
)  # fmt: skip
_celsius = (dry_bulb - number("273.15 K")) / number("1 K")
_percent = 100 * humidity
wet_bulb = scope.variable(
    "weather.wet_bulb", "T_wb", "K", "wet-bulb temperature of the outdoor air", display="degC",
    bounds=POSITIVE, reference=_STULL,
)  # fmt: skip
scope.approximation(
    wet_bulb,
    number("273.15 K")
    + number("1 K")
    * (
        _celsius * atan(0.151977 * sqrt(_percent + 8.313659))
        + atan(_celsius + _percent)
        - atan(_percent - 1.676331)
        + 0.00391838 * _percent ** (3 / 2) * atan(0.023101 * _percent)
        - 4.686035
    ),
    name="weather.stull",
    valid=(_percent >= 5) & (_percent <= 99) & (_celsius >= -20) & (_celsius <= 50),
    meaning="fit at sea level, within 1 K",
    reference=_STULL,
)
evaporative = scope.variable(
    "sink.evaporative", "e", "1", "1 for evaporative cooling towers, 0 for dry coolers",
    bounds=(0, 1), reference=_TOWER, boundary="scenario",
)  # fmt: skip
sink_approach = scope.variable(
    "sink.approach", "dT_sink", "K", "approach temperature of the tower or dry cooler",
    reference=_TOWER, boundary="scenario", nature="difference",
)  # fmt: skip
sink_rise = scope.variable(
    "sink.rise", "dT_rej", "K", "range of the tower or dry cooler", bounds=POSITIVE,
    reference=_TOWER, boundary="scenario", nature="difference",
)  # fmt: skip
sink_temperature = scope.variable(
    "sink.temperature", "T_sink", "K", "water temperature leaving the tower or dry cooler",
    display="degC", equals=where(evaporative > 0.5, wet_bulb, dry_bulb) + sink_approach,
    reference=_TOWER,
)  # fmt: skip
