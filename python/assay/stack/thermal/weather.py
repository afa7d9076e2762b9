"""Outdoor air over a year, and the water temperature that a cooling tower or dry cooler reaches.

Chillers run in the hours that are too warm for free cooling, which a yearly mean does not have.
The temperature swings over the seasons and over the day; a mean over a year is taken at the nodes
of Gauss-Chebyshev quadrature, which are those of a sinusoid at even phases. The dew point swings
with the seasons only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from assay.model import (
    POSITIVE,
    Expression,
    Variable,
    atan,
    cited,
    exp,
    log,
    maximum,
    minimum,
    number,
    sqrt,
    total,
    where,
)
from assay.stack import works
from assay.stack.thermal.supply import scope

_STULL = cited("Stull 2011, Wet-Bulb Temperature from Relative Humidity and Air Temperature", "eq. 1")
_NORMALS = cited("World Meteorological Organization, Guidelines on the Calculation of Climate Normals, WMO-No. 1203")
_MAGNUS = cited("Alduchov and Eskridge 1996, Improved Magnus Form Approximation of Saturation Vapor Pressure", "eq. 21")
_TOWER = cited(works.ENERGY_PLUS, "Cooling towers, fan power and heat rejection")

dry_bulb = scope.declare(
    "weather.dry_bulb, T_db [K as degC]: temperature of the outdoor air, yearly mean",
    bounds=POSITIVE,
    reference=_STULL,
    boundary="scenario",
)
humidity = scope.declare(
    "weather.humidity, RH [1 as %]: relative humidity of the outdoor air, yearly mean",
    bounds=(0, 1),
    reference=_STULL,
    boundary="scenario",
)
seasonal_swing = scope.declare(
    "weather.seasonal_swing, A_s [K]: half the difference between the means of the warmest and the coldest month",
    reference=_NORMALS,
    boundary="scenario",
    nature="difference",
)
daily_swing = scope.declare(
    "weather.daily_swing, A_d [K]: half the difference between daily maximum and minimum",
    reference=_NORMALS,
    boundary="scenario",
    nature="difference",
)
dew_swing = scope.declare(
    "weather.dew_swing, A_w [K]: half the difference between the dew points of the most humid and the driest month",
    reference=_NORMALS,
    boundary="scenario",
    nature="difference",
)
_ZERO_CELSIUS = number("273.15 K")
_KELVIN = number("1 K")


def vapor_pressure(temperature: Expression) -> Expression:
    """Saturation pressure of water vapor over that of 0 degrees Celsius."""
    celsius = (temperature - _ZERO_CELSIUS) / _KELVIN
    return exp(17.625 * celsius / (celsius + 243.04))


dew_point = scope.declare(
    "weather.dew_point, T_dp [K as degC]: dew point of the outdoor air, yearly mean", bounds=POSITIVE, reference=_MAGNUS
)
_celsius = (dry_bulb - _ZERO_CELSIUS) / _KELVIN
_exponent = log(humidity) + 17.625 * _celsius / (_celsius + 243.04)
scope.equation(dew_point, _ZERO_CELSIUS + _KELVIN * 243.04 * _exponent / (17.625 - _exponent), reference=_MAGNUS)


def _wet_bulb(celsius: Expression, percent: Expression) -> Expression:
    return _ZERO_CELSIUS + _KELVIN * (
        celsius * atan(0.151977 * sqrt(percent + 8.313659))
        + atan(celsius + percent)
        - atan(percent - 1.676331)
        + 0.00391838 * percent ** (3 / 2) * atan(0.023101 * percent)
        - 4.686035
    )


_percent = 100 * humidity
wet_bulb = scope.declare(
    "weather.wet_bulb, T_wb [K as degC]: wet-bulb temperature of the outdoor air, yearly mean",
    bounds=POSITIVE,
    reference=_STULL,
    library=True,
)
scope.approximation(
    wet_bulb,
    _wet_bulb(_celsius, _percent),
    name="weather.stull",
    valid=(_percent >= 5) & (_percent <= 99) & (_celsius >= -20) & (_celsius <= 50),
    meaning="fit at sea level, within 1 K",
    reference=_STULL,
    library=True,
)
evaporative = scope.flag(
    "sink.evaporative, e: 1 for evaporative cooling towers, 0 for dry coolers", reference=_TOWER, boundary="scenario"
)
sink_approach = scope.declare(
    "sink.approach, dT_sink [K]: approach temperature of the tower or dry cooler",
    reference=_TOWER,
    boundary="scenario",
    nature="difference",
)
sink_rise = scope.declare(
    "sink.rise, dT_rej [K]: range of the tower or dry cooler",
    bounds=POSITIVE,
    reference=_TOWER,
    boundary="scenario",
    nature="difference",
)


@dataclass(frozen=True)
class Hour:
    """One state of the weather: dry-bulb and dew-point temperature, and water from the sink."""

    dry_bulb: Expression
    dew_point: Expression
    sink: Variable


def _nodes(count: int) -> list[float]:
    """Cosines at even phases: nodes of equal weight."""
    return [math.cos((2 * k - 1) * math.pi / (2 * count)) for k in range(1, count + 1)]


def _declare_hour(number_of: int, season: float, time: float) -> Hour:
    dry = dry_bulb + round(season, 9) * seasonal_swing + round(time, 9) * daily_swing
    dew = minimum(dew_point + round(season, 9) * dew_swing, dry)
    # The fit of the wet bulb ends at these edges.
    celsius = maximum((dry - _ZERO_CELSIUS) / _KELVIN, -20)
    percent = minimum(maximum(100 * vapor_pressure(dew) / vapor_pressure(dry), 5), 99)
    ambient = where(evaporative, minimum(_wet_bulb(celsius, percent), dry), dry)
    sink = scope.declare(
        f"sink.hour_{number_of}.temperature, T_h [K as degC]: water temperature leaving the tower or dry cooler, "
        f"state {number_of} of the year",
        equals=ambient + sink_approach,
        reference=_TOWER,
    )
    return Hour(dry, dew, sink)


_STATES = [(season, time) for season in _nodes(6) for time in _nodes(3)]
hours = [_declare_hour(k, *state) for k, state in enumerate(_STATES, start=1)]


def over_the_year(of: Callable[[Hour], Expression]) -> Expression:
    """The mean of a quantity over all states of the weather."""
    return total(*(of(hour) for hour in hours)) / len(hours)


sink_temperature = scope.declare(
    "sink.temperature, T_sink [K as degC]: water temperature leaving the tower or dry cooler, yearly mean",
    equals=over_the_year(lambda hour: hour.sink),
    reference=_TOWER,
    library=True,
)
