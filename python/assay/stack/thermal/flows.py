"""Pumps and fans: the flows that carry the heat out, and the power that drives them."""

from __future__ import annotations

from assay.model import Expression, cited, maximum, minimum, total
from assay.stack.thermal.chillers import (
    air_chiller_power,
    air_rise,
    air_water,
    chilled_rise,
    coolant_chiller_power,
    coolant_rise,
    coolant_water,
)
from assay.stack.thermal.supply import (
    air_heat,
    liquid_heat,
    scope,
)
from assay.stack.thermal.weather import Hour, over_the_year, sink_approach, sink_rise

_PUE = cited("ISO/IEC 30134-2:2016, Power usage effectiveness", "definition of PUE")
_HEAT = "Cengel and Ghajar, Heat and Mass Transfer: Fundamentals and Applications"
_BALANCE = cited(_HEAT, "ch. 1, energy balance of steady-flow systems")
_WATER = cited(_HEAT, "Table A-9, properties of saturated water")
_AIR_TABLE = cited(_HEAT, "Table A-15, properties of air at 1 atm")
_ENERGYPLUS = "EnergyPlus Engineering Reference"
_PUMP = cited(_ENERGYPLUS, "Pumps, dynamic pump pressure head")
_FAN = cited(_ENERGYPLUS, "Air system fans, fan power from pressure rise and efficiency")
_TOWER = cited(_ENERGYPLUS, "Cooling towers, fan power and heat rejection")

water_heat_capacity = scope.constant(
    "water.heat_capacity", "c_w", "4180 J/(kg*K)", "specific heat of liquid water at 25 degrees Celsius",
    reference=_WATER,
)  # fmt: skip
water_density = scope.constant(
    "water.density", "rho_w", "997 kg/m^3", "density of liquid water at 25 degrees Celsius",
    reference=_WATER,
)  # fmt: skip
air_heat_capacity = scope.constant(
    "air.heat_capacity", "c_a", "1007 J/(kg*K)", "specific heat of air at 25 degrees Celsius",
    reference=_AIR_TABLE,
)  # fmt: skip
air_density = scope.constant(
    "air.density", "rho_a", "1.184 kg/m^3", "density of air at 25 degrees Celsius and one atmosphere",
    reference=_AIR_TABLE,
)  # fmt: skip
pump_efficiency = scope.variable(
    "pump.efficiency", "eta_p", "1", "efficiency of pumps and their motors",
    bounds=("positive", 1), reference=_PUMP, boundary="primitive",
)  # fmt: skip
coolant_pressure = scope.variable(
    "coolant.pressure", "dp_liq", "Pa", "pressure drop of the coolant loop", display="kPa",
    reference=_PUMP, boundary="primitive",
)  # fmt: skip
facility_pressure = scope.variable(
    "facility.pressure", "dp_fac", "Pa", "pressure drop of the facility water loop",
    display="kPa", reference=_PUMP, boundary="primitive",
)  # fmt: skip
coolant_flow = scope.variable(
    "coolant.flow", "V_liq", "m^3/s", "flow of coolant, with the heat capacity of water",
    display="L/s", equals=liquid_heat / (water_density * water_heat_capacity * coolant_rise),
    reference=_BALANCE,
)  # fmt: skip
coil_flow = scope.variable(
    "facility.coil_flow", "V_coil", "m^3/s", "flow of facility water through the coils",
    display="L/s", equals=air_heat / (water_density * water_heat_capacity * chilled_rise),
    reference=_BALANCE,
)  # fmt: skip
air_flow = scope.variable(
    "air.flow", "V_air", "m^3/s", "flow of air through the machines and the coils",
    equals=air_heat / (air_density * air_heat_capacity * air_rise), reference=_BALANCE,
)  # fmt: skip
air_pressure = scope.variable(
    "air.pressure", "dp_air", "Pa", "pressure drop of the room's air",
    reference=_FAN, boundary="primitive",
)  # fmt: skip
fan_efficiency = scope.variable(
    "fan.efficiency", "eta_f", "1", "efficiency of the room's fans and their motors",
    bounds=("positive", 1), reference=_FAN, boundary="primitive",
)  # fmt: skip
fan_power = scope.variable(
    "fan.power", "P_fan", "W", "power of the room's fans",
    equals=air_flow * air_pressure / fan_efficiency, reference=_FAN,
)  # fmt: skip
loop_pump_power = scope.variable(
    "pump.loop_power", "P_loop", "W", "power of coolant and facility water pumps",
    # Facility water takes up the coolant's heat at the same temperature rise, so at the same flow.
    equals=(coolant_flow * (coolant_pressure + facility_pressure) + coil_flow * facility_pressure)
    / pump_efficiency,
    reference=_PUMP,
)  # fmt: skip
rejected_heat = scope.variable(
    "heat.rejected", "Q_rej", "W", "heat rejected outdoors",
    equals=total(
        liquid_heat, air_heat, coolant_chiller_power, air_chiller_power, fan_power, loop_pump_power
    ),
    reference=_BALANCE,
)  # fmt: skip
sink_flow = scope.variable(
    "sink.flow", "V_rej", "m^3/s", "flow of water through tower or dry cooler", display="L/s",
    equals=rejected_heat / (water_density * water_heat_capacity * sink_rise), reference=_BALANCE,
)  # fmt: skip
sink_pressure = scope.variable(
    "sink.pressure", "dp_rej", "Pa", "pressure drop of the tower or dry cooler loop",
    display="kPa", reference=_PUMP, boundary="primitive",
)  # fmt: skip
sink_pump_power = scope.variable(
    "pump.sink_power", "P_rej", "W", "power of the pumps of tower or dry cooler",
    equals=sink_flow * sink_pressure / pump_efficiency, reference=_PUMP,
)  # fmt: skip
sink_fan_share = scope.variable(
    "sink.fan_share", "s_tower", "1", "power of the tower's or dry cooler's fans at full flow, by heat rejected",
    display="%", reference=_TOWER, boundary="primitive",
)  # fmt: skip
# Colder air needs less of it: the flow falls with the temperature difference that it may take, and
# power with the cube of the flow.
_MIN_FLOW = 0.2


def _fan_share_at(hour: Hour) -> Expression:
    spare = minimum(air_water, coolant_water) - (hour.sink - sink_approach)
    flow = maximum(minimum(sink_approach / maximum(spare, sink_approach), 1), _MIN_FLOW)
    return flow**3


sink_fan_load = scope.variable(
    "sink.fan_load", "l_tower", "1",
    "power of the tower's or dry cooler's fans over that at full flow, mean over the year",
    equals=over_the_year(_fan_share_at), bounds=(0, 1), reference=_TOWER,
)  # fmt: skip
sink_fan_power = scope.variable(
    "sink.fan_power", "P_tower", "W", "power of the tower's or dry cooler's fans",
    equals=sink_fan_share * sink_fan_load * rejected_heat, reference=_TOWER,
)  # fmt: skip
cooling_power = scope.variable(
    "cooling.power", "P_cool", "W", "power of chillers, pumps, towers and fans",
    equals=total(
        coolant_chiller_power,
        air_chiller_power,
        fan_power,
        loop_pump_power,
        sink_pump_power,
        sink_fan_power,
    ),
    reference=_PUE,
)  # fmt: skip
