"""Water of a cooling tower: evaporation, drift and blowdown."""

from __future__ import annotations

from assay.model import Expression, cited, maximum, number, total
from assay.stack import works
from assay.stack.cluster import power as cluster_power
from assay.stack.thermal.flows import air_heat_capacity, rejected_heat, sink_flow, water_density
from assay.stack.thermal.supply import scope
from assay.stack.thermal.weather import Hour, evaporative, over_the_year, sink_rise, vapor_pressure

_WUE = cited("ISO/IEC 30134-9:2022, Water usage effectiveness", "definition of WUE")
_WATER = cited(works.HEAT_AND_MASS_TRANSFER, "Table A-9, properties of saturated water")
_MERKEL = cited(
    "Kroger 2004, Air-Cooled Heat Exchangers and Cooling Towers", "ch. 4, Merkel's method: air leaves saturated"
)
_MAKEUP = cited(works.ENERGY_PLUS, "Cooling towers, makeup water usage")

water_latent_heat = scope.constant(
    "water.latent_heat", "h_fg", "2.442e6 J/kg", "heat of evaporation of water at 25 degrees Celsius", reference=_WATER
)


# Evaporation, drift and blowdown; blowdown limits the concentration of salts.
def _humidity_ratio(dew_point: Expression) -> Expression:
    """Water by dry air, of air saturated at a temperature, at sea level."""
    pressure = 0.0060295 * vapor_pressure(dew_point)
    return 0.62198 * pressure / (1 - pressure)


def _latent_share_at(hour: Hour) -> Expression:
    """Share of the heat that leaves as vapor: air leaves saturated at the water's mean temperature."""
    leaving = hour.sink + sink_rise / 2
    vapor = water_latent_heat * (_humidity_ratio(leaving) - _humidity_ratio(hour.dew_point))
    return vapor / (vapor + air_heat_capacity * (leaving - hour.dry_bulb))


latent_share = scope.declare(
    "sink.latent_share, s_lat: heat that evaporates water over heat rejected, mean over the year; above 1 where "
    "air cools too",
    equals=over_the_year(_latent_share_at),
    bounds=(0, 2),
    reference=_MERKEL,
)
drift_share = scope.declare(
    "sink.drift_share, s_drift [1 as %]: drift share of the tower's flow", reference=_MAKEUP, boundary="primitive"
)
cycles = scope.declare(
    "sink.concentration, c_conc: cycles of concentration of the tower",
    bounds=(1, None),
    reference=_MAKEUP,
    boundary="scenario",
)
evaporation = scope.declare(
    "water.evaporation, V_evap [m^3/s as L/s]: evaporated water",
    equals=evaporative * latent_share * rejected_heat / (water_density * water_latent_heat),
    reference=_MAKEUP,
)
drift = scope.declare(
    "water.drift, V_drift [m^3/s as L/s]: drift water", equals=evaporative * drift_share * sink_flow, reference=_MAKEUP
)
blowdown = scope.declare(
    "water.blowdown, V_blow [m^3/s as L/s]: blowdown water",
    equals=maximum(number("0 m^3/s"), evaporation / (cycles - 1) - drift),
    reference=_MAKEUP,
)
makeup = scope.declare(
    "water.makeup, V_water [m^3/s as L/s]: makeup water of the site",
    equals=total(evaporation, drift, blowdown),
    reference=_MAKEUP,
)
wue = scope.declare(
    "dc.wue, WUE [m^3/J as L/kWh]: water usage effectiveness (WUE): water consumption over IT energy",
    equals=makeup / cluster_power.it_power,
    reference=_WUE,
    target=True,
)
