"""Pumps and fans: the flows that carry the heat out, and the power that drives them."""

from __future__ import annotations

from assay.model import Expression, cited, maximum, minimum, total
from assay.stack import works
from assay.stack.thermal.chillers import (
    air_chiller_power,
    air_rise,
    air_water,
    chilled_rise,
    coolant_chiller_power,
    coolant_rise,
    coolant_water,
)
from assay.stack.thermal.supply import air_heat, liquid_heat, scope
from assay.stack.thermal.weather import Hour, over_the_year, sink_approach, sink_rise

_PUE = cited(works.ISO_PUE, "definition of PUE")
_BALANCE = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 1, energy balance of steady-flow systems")
_WATER = cited(works.HEAT_AND_MASS_TRANSFER, "Table A-9, properties of saturated water")
_AIR_TABLE = cited(works.HEAT_AND_MASS_TRANSFER, "Table A-15, properties of air at 1 atm")
_PUMP = cited(works.ENERGY_PLUS, "Pumps, dynamic pump pressure head")
_FAN = cited(works.ENERGY_PLUS, "Air system fans, fan power from pressure rise and efficiency")
_TOWER = cited(works.ENERGY_PLUS, "Cooling towers, fan power and heat rejection")

water_heat_capacity = scope.constant(
    "water.heat_capacity",
    "c_w",
    "4180 J/(kg*K)",
    "specific heat of liquid water at 25 degrees Celsius",
    reference=_WATER,
)
water_density = scope.constant(
    "water.density", "rho_w", "997 kg/m^3", "density of liquid water at 25 degrees Celsius", reference=_WATER
)
air_heat_capacity = scope.constant(
    "air.heat_capacity", "c_a", "1007 J/(kg*K)", "specific heat of air at 25 degrees Celsius", reference=_AIR_TABLE
)
air_density = scope.constant(
    "air.density",
    "rho_a",
    "1.184 kg/m^3",
    "density of air at 25 degrees Celsius and one atmosphere",
    reference=_AIR_TABLE,
)
pump_efficiency = scope.declare(
    "pump.efficiency, eta_p: efficiency of pumps and their motors",
    bounds=("positive", 1),
    reference=_PUMP,
    boundary="primitive",
)
coolant_pressure = scope.declare(
    "coolant.pressure, dp_liq [Pa as kPa]: pressure drop of the coolant loop", reference=_PUMP, boundary="primitive"
)
facility_pressure = scope.declare(
    "facility.pressure, dp_fac [Pa as kPa]: pressure drop of the facility water loop",
    reference=_PUMP,
    boundary="primitive",
)
coolant_flow = scope.declare(
    "coolant.flow, V_liq [m^3/s as L/s]: flow of coolant, with the heat capacity of water",
    equals=liquid_heat / (water_density * water_heat_capacity * coolant_rise),
    reference=_BALANCE,
)
coil_flow = scope.declare(
    "facility.coil_flow, V_coil [m^3/s as L/s]: flow of facility water through the coils",
    equals=air_heat / (water_density * water_heat_capacity * chilled_rise),
    reference=_BALANCE,
)
air_flow = scope.declare(
    "air.flow, V_air [m^3/s]: flow of air through the machines and the coils",
    equals=air_heat / (air_density * air_heat_capacity * air_rise),
    reference=_BALANCE,
)
air_pressure = scope.declare(
    "air.pressure, dp_air [Pa]: pressure drop of the room's air", reference=_FAN, boundary="primitive"
)
fan_efficiency = scope.declare(
    "fan.efficiency, eta_f: efficiency of the room's fans and their motors",
    bounds=("positive", 1),
    reference=_FAN,
    boundary="primitive",
)
fan_power = scope.declare(
    "fan.power, P_fan [W]: power of the room's fans", equals=air_flow * air_pressure / fan_efficiency, reference=_FAN
)
loop_pump_power = scope.declare(
    "pump.loop_power, P_loop [W]: power of coolant and facility water pumps",
    equals=(coolant_flow * (coolant_pressure + facility_pressure) + coil_flow * facility_pressure) / pump_efficiency,
    reference=_PUMP,
)
rejected_heat = scope.declare(
    "heat.rejected, Q_rej [W]: heat rejected outdoors",
    equals=total(liquid_heat, air_heat, coolant_chiller_power, air_chiller_power, fan_power, loop_pump_power),
    reference=_BALANCE,
)
sink_flow = scope.declare(
    "sink.flow, V_rej [m^3/s as L/s]: flow of water through tower or dry cooler",
    equals=rejected_heat / (water_density * water_heat_capacity * sink_rise),
    reference=_BALANCE,
)
sink_pressure = scope.declare(
    "sink.pressure, dp_rej [Pa as kPa]: pressure drop of the tower or dry cooler loop",
    reference=_PUMP,
    boundary="primitive",
)
sink_pump_power = scope.declare(
    "pump.sink_power, P_rej [W]: power of the pumps of tower or dry cooler",
    equals=sink_flow * sink_pressure / pump_efficiency,
    reference=_PUMP,
)
sink_fan_share = scope.declare(
    "sink.fan_share, s_tower [1 as %]: power of the tower's or dry cooler's fans at full flow, by heat rejected",
    reference=_TOWER,
    boundary="primitive",
)
# Colder air needs less of it: the flow falls with the temperature difference that it may take, and
# power with the cube of the flow.
_MIN_FLOW = 0.2


def _fan_share_at(hour: Hour) -> Expression:
    spare = minimum(air_water, coolant_water) - (hour.sink - sink_approach)
    flow = maximum(minimum(sink_approach / maximum(spare, sink_approach), 1), _MIN_FLOW)
    return flow**3


sink_fan_load = scope.declare(
    "sink.fan_load, l_tower: power of the tower's or dry cooler's fans over that at full flow, mean over the year",
    equals=over_the_year(_fan_share_at),
    bounds=(0, 1),
    reference=_TOWER,
)
sink_fan_power = scope.declare(
    "sink.fan_power, P_tower [W]: power of the tower's or dry cooler's fans",
    equals=sink_fan_share * sink_fan_load * rejected_heat,
    reference=_TOWER,
)
cooling_power = scope.declare(
    "cooling.power, P_cool [W]: power of chillers, pumps, towers and fans",
    equals=total(coolant_chiller_power, air_chiller_power, fan_power, loop_pump_power, sink_pump_power, sink_fan_power),
    reference=_PUE,
)
