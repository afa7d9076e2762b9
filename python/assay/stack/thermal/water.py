"""Water of a cooling tower: evaporation, drift and blowdown."""

from __future__ import annotations

from assay.model import cited, maximum, number, total
from assay.stack import cluster
from assay.stack.thermal.flows import (
    rejected_heat,
    sink_flow,
    water_density,
)
from assay.stack.thermal.supply import (
    scope,
)
from assay.stack.thermal.weather import (
    evaporative,
)

_WUE = cited("ISO/IEC 30134-9:2022, Water usage effectiveness", "definition of WUE")
_HEAT = "Cengel and Ghajar, Heat and Mass Transfer: Fundamentals and Applications"
_WATER = cited(_HEAT, "Table A-9, properties of saturated water")
_ENERGYPLUS = "EnergyPlus Engineering Reference"
_MAKEUP = cited(_ENERGYPLUS, "Cooling towers, makeup water usage")

water_latent_heat = scope.constant(
    "water.latent_heat", "h_fg", "2.442e6 J/kg", "heat of evaporation of water at 25 degrees Celsius",
    reference=_WATER,
)  # fmt: skip

# Evaporation, drift and blowdown; blowdown limits the concentration of salts.
latent_share = scope.variable(
    "sink.latent_share", "s_lat", "1", "share of the heat rejected that evaporates water",
    bounds=(0, 1), reference=_MAKEUP, boundary="primitive",
)  # fmt: skip
drift_share = scope.variable(
    "sink.drift_share", "s_drift", "1", "drift share of the tower's flow",
    display="%", reference=_MAKEUP, boundary="primitive",
)  # fmt: skip
cycles = scope.variable(
    "sink.concentration", "c_conc", "1", "cycles of concentration of the tower",
    bounds=(1, None), reference=_MAKEUP, boundary="scenario",
)  # fmt: skip
evaporation = scope.variable(
    "water.evaporation", "V_evap", "m^3/s", "evaporated water", display="L/s",
    equals=evaporative * latent_share * rejected_heat / (water_density * water_latent_heat),
    reference=_MAKEUP,
)  # fmt: skip
drift = scope.variable(
    "water.drift", "V_drift", "m^3/s", "drift water", display="L/s",
    equals=evaporative * drift_share * sink_flow, reference=_MAKEUP,
)  # fmt: skip
blowdown = scope.variable(
    "water.blowdown", "V_blow", "m^3/s", "blowdown water", display="L/s",
    equals=maximum(number("0 m^3/s"), evaporation / (cycles - 1) - drift), reference=_MAKEUP,
)  # fmt: skip
makeup = scope.variable(
    "water.makeup", "V_water", "m^3/s", "makeup water of the site", display="L/s",
    equals=total(evaporation, drift, blowdown), reference=_MAKEUP,
)  # fmt: skip
wue = scope.variable(
    "dc.wue", "WUE", "m^3/J", "water consumption over IT energy (WUE)", display="L/kWh",
    equals=makeup / cluster.it_power, reference=_WUE, target=True,
)  # fmt: skip
