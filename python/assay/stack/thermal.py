"""Cooling, the losses between the meter and the machines, and the water they take."""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Scope,
    Variable,
    atan,
    by_definition,
    cited,
    maximum,
    minimum,
    number,
    sqrt,
    total,
    where,
)
from assay.stack import cluster, gpu

scope = Scope("thermal", "Cooling, losses, and power usage effectiveness")

_PUE = cited("ISO/IEC 30134-2:2016, Power usage effectiveness", "clause 4")
_WUE = cited("ISO/IEC 30134-9:2022, Water usage effectiveness", "definition of WUE")
_HEAT = "Cengel and Ghajar, Heat and Mass Transfer: Fundamentals and Applications"
_BALANCE = cited(_HEAT, "ch. 1, energy balance of steady-flow systems")
_WATER = cited(_HEAT, "Table A-9, properties of saturated water")
_AIR_TABLE = cited(_HEAT, "Table A-15, properties of air at 1 atm")
_STULL = cited(
    "Stull 2011, Wet-Bulb Temperature from Relative Humidity and Air Temperature", "eq. 1"
)
_ENERGYPLUS = "EnergyPlus Engineering Reference"
_PUMP = cited(_ENERGYPLUS, "Pumps, dynamic pump pressure head")
_FAN = cited(_ENERGYPLUS, "Air system fans, fan power from pressure rise and efficiency")
_TOWER = cited(_ENERGYPLUS, "Cooling towers, fan power and heat rejection")
_MAKEUP = cited(_ENERGYPLUS, "Cooling towers, makeup water usage")
_PLANT = cited(
    "Beitelmal and Patel 2006, Model-Based Approach for Optimizing a Data Center Centralized "
    "Cooling System",
    "energy equations of chiller and tower",
)
_CARNOT = cited(
    "Gordon and Ng 2000, Cool Thermodynamics", "coefficient of performance and its Carnot limit"
)
_ECONOMISER = cited(
    "Diaz et al. 2020, Effect of climate conditions on the thermodynamic performance of a data "
    "center cooling system under water-side economization",
    "water-side economiser",
)
_LIQUID = cited(
    "ASHRAE TC 9.9, Liquid Cooling Guidelines for Datacom Equipment Centers, 2nd edition",
    "facility water and technology cooling loops",
)
_AIR = cited("ASHRAE TC 9.9, Thermal Guidelines for Data Processing Environments", "class A1")
_UPS = cited(
    "Avelar, Making Large UPS Systems More Efficient, Schneider Electric white paper 108",
    "no-load, proportional and square-law losses",
)
_TRANSFORMER = cited(
    "10 CFR 431 subpart K appendix A, Uniform Test Method for Distribution Transformers",
    "no-load loss, and load loss by the square of the load",
)

water_heat_capacity = scope.constant(
    "water.heat_capacity", "c_w", "4180 J/(kg*K)", "specific heat of liquid water at 25 degrees Celsius",
    reference=_WATER,
)  # fmt: skip
water_density = scope.constant(
    "water.density", "rho_w", "997 kg/m^3", "density of liquid water at 25 degrees Celsius",
    reference=_WATER,
)  # fmt: skip
water_latent_heat = scope.constant(
    "water.latent_heat", "h_fg", "2.442e6 J/kg", "heat of evaporation of water at 25 degrees Celsius",
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

# Losses of the supply, by its load: what it is built for stands, what it carries varies.
ups_redundancy = scope.variable(
    "ups.redundancy", "r_UPS", "1", "capacity of the supplies over the power they are built for",
    bounds=(1, None), reference=_UPS, boundary="scenario",
)  # fmt: skip
ups_capacity = scope.variable(
    "ups.capacity", "S_UPS", "W", "capacity of all uninterruptible supplies",
    equals=ups_redundancy * cluster.design_power, reference=_UPS,
)  # fmt: skip
ups_load = scope.variable(
    "ups.load", "x_UPS", "1", "load of the uninterruptible supplies over their capacity",
    equals=cluster.it_power / ups_capacity, reference=_UPS,
)  # fmt: skip
ups_idle_share = scope.variable(
    "ups.idle_share", "a_0", "1", "no-load loss of the supplies over their capacity",
    display="%", reference=_UPS, boundary="primitive",
)  # fmt: skip
ups_linear_share = scope.variable(
    "ups.linear_share", "a_1", "1", "loss in proportion to the load of the supplies",
    display="%", reference=_UPS, boundary="primitive",
)  # fmt: skip
ups_square_share = scope.variable(
    "ups.square_share", "a_2", "1", "loss by the square of the load, at full load over capacity",
    display="%", reference=_UPS, boundary="primitive",
)  # fmt: skip
ups_loss = scope.variable(
    "dc.ups_loss", "P_UPS", "W", "power lost in the uninterruptible supplies",
    equals=ups_capacity
    * (ups_idle_share + ups_linear_share * ups_load + ups_square_share * ups_load**2),
    reference=_UPS,
)  # fmt: skip

# Where the heat goes: into liquid at the chips or into the air of the room.
liquid_heat = scope.variable(
    "heat.liquid", "Q_liq", "W", "heat that leaves the machines in liquid",
    equals=cluster.it_power * cluster.liquid_share, reference=_LIQUID,
)  # fmt: skip
air_heat = scope.variable(
    "heat.air", "Q_air", "W", "heat that machines and supplies leave in the air",
    equals=cluster.it_power * (1 - cluster.liquid_share) + ups_loss, reference=_BALANCE,
)  # fmt: skip

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
    "sink.evaporative", "e", "1", "1 where water evaporates to reject heat, 0 where coolers are dry",
    bounds=(0, 1), reference=_TOWER, boundary="scenario",
)  # fmt: skip
sink_approach = scope.variable(
    "sink.approach", "dT_sink", "K", "water from the tower or dry cooler above the air's temperature",
    reference=_TOWER, boundary="scenario",
)  # fmt: skip
sink_temperature = scope.variable(
    "sink.temperature", "T_sink", "K", "water that comes back from tower or dry cooler",
    display="degC", equals=where(evaporative > 0.5, wet_bulb, dry_bulb) + sink_approach,
    reference=_TOWER,
)  # fmt: skip

coolant_rise = scope.variable(
    "coolant.rise", "dT_liq", "K", "warming of the coolant in the machines", bounds=POSITIVE,
    reference=_LIQUID, boundary="scenario",
)  # fmt: skip
coolant_approach = scope.variable(
    "coolant.approach", "dT_CDU", "K", "coolant above the facility's water, at the heat exchanger",
    reference=_LIQUID, boundary="scenario",
)  # fmt: skip
room_temperature = scope.variable(
    "room.temperature", "T_room", "K", "air of the room where liquid cools the GPUs", display="degC",
    bounds=POSITIVE, reference=_AIR, boundary="scenario",
)  # fmt: skip
air_temperature = scope.variable(
    "air.temperature", "T_air", "K", "air as it enters the machines", display="degC",
    equals=where(cluster.liquid_share > 0, room_temperature, gpu.coolant_temperature),
    bounds=POSITIVE, reference=_AIR,
)  # fmt: skip
air_rise = scope.variable(
    "air.rise", "dT_air", "K", "warming of the air in the machines", bounds=POSITIVE,
    reference=_AIR, boundary="scenario",
)  # fmt: skip
air_approach = scope.variable(
    "air.approach", "dT_coil", "K", "air above the facility's water, at the coil",
    reference=_PLANT, boundary="scenario",
)  # fmt: skip
chilled_rise = scope.variable(
    "chilled.rise", "dT_ch", "K", "warming of the facility's water in the coils", bounds=POSITIVE,
    reference=_PLANT, boundary="scenario",
)  # fmt: skip
scope.inequality(
    "air.recommended",
    (air_temperature >= number("291.15 K")) & (air_temperature <= number("300.15 K")),
    "inlet air lies between 18 and 27 degrees Celsius", reference=_AIR,
)  # fmt: skip

chiller_efficiency = scope.variable(
    "chiller.carnot_share", "eta_C", "1", "performance of the chillers over that of a Carnot cycle",
    bounds=("positive", 1), reference=_CARNOT, boundary="primitive",
)  # fmt: skip
chiller_approach = scope.variable(
    "chiller.approach", "dT_hx", "K", "refrigerant beyond the water, in evaporator and in condenser",
    reference=_PLANT, boundary="primitive",
)  # fmt: skip
least_lift = scope.variable(
    "chiller.least_lift", "dT_min", "K", "smallest lift that the chillers' compressors run at",
    bounds=POSITIVE, reference=_PLANT, boundary="primitive",
)  # fmt: skip


def _chilled(loop: str, mark: str, heat: Variable, water: Variable, rise: Variable) -> Variable:
    """Declare what one loop's chiller draws after free cooling has done its part."""
    free = scope.variable(
        f"{loop}.free_share", f"s_{mark}", "1", f"share of the {loop} loop's heat that needs no chiller",
        equals=minimum(1, maximum(0, (water + rise - sink_temperature) / rise)),
        bounds=(0, 1), reference=_ECONOMISER,
    )  # fmt: skip
    lift = scope.variable(
        f"{loop}.lift", f"dT_{mark}", "K", f"lift of the {loop} loop's chiller",
        equals=maximum(least_lift, sink_temperature - water + 2 * chiller_approach),
        reference=_PLANT,
    )  # fmt: skip
    performance = scope.variable(
        f"{loop}.cop", f"COP_{mark}", "1", f"heat moved over power of the {loop} loop's chiller",
        equals=chiller_efficiency * (water - chiller_approach) / lift, reference=_CARNOT,
    )  # fmt: skip
    return scope.variable(
        f"{loop}.chiller_power", f"P_{mark}", "W", f"power of the {loop} loop's chiller",
        equals=heat * (1 - free) / performance, reference=_PLANT,
    )  # fmt: skip


coolant_water = scope.variable(
    "coolant.water_temperature", "T_fw", "K", "facility's water at the coolant's heat exchanger",
    display="degC", equals=gpu.coolant_temperature - coolant_approach, reference=_LIQUID,
)  # fmt: skip
air_water = scope.variable(
    "air.water_temperature", "T_chw", "K", "facility's water at the coils", display="degC",
    equals=air_temperature - air_approach, reference=_PLANT,
)  # fmt: skip
coolant_chiller_power = _chilled("coolant", "liq", liquid_heat, coolant_water, coolant_rise)
air_chiller_power = _chilled("air", "air", air_heat, air_water, chilled_rise)

pump_efficiency = scope.variable(
    "pump.efficiency", "eta_p", "1", "efficiency of pumps and their motors",
    bounds=("positive", 1), reference=_PUMP, boundary="primitive",
)  # fmt: skip
coolant_pressure = scope.variable(
    "coolant.pressure", "dp_liq", "Pa", "pressure that drives the coolant", display="kPa",
    reference=_PUMP, boundary="primitive",
)  # fmt: skip
facility_pressure = scope.variable(
    "facility.pressure", "dp_fac", "Pa", "pressure that drives the facility's water",
    display="kPa", reference=_PUMP, boundary="primitive",
)  # fmt: skip
coolant_flow = scope.variable(
    "coolant.flow", "V_liq", "m^3/s", "flow of coolant, its heat capacity taken as that of water",
    display="L/s", equals=liquid_heat / (water_density * water_heat_capacity * coolant_rise),
    reference=_BALANCE,
)  # fmt: skip
coil_flow = scope.variable(
    "facility.coil_flow", "V_coil", "m^3/s", "flow of the facility's water through the coils",
    display="L/s", equals=air_heat / (water_density * water_heat_capacity * chilled_rise),
    reference=_BALANCE,
)  # fmt: skip
air_flow = scope.variable(
    "air.flow", "V_air", "m^3/s", "flow of air through the machines and the coils",
    equals=air_heat / (air_density * air_heat_capacity * air_rise), reference=_BALANCE,
)  # fmt: skip
air_pressure = scope.variable(
    "air.pressure", "dp_air", "Pa", "pressure that drives the room's air",
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
    "pump.loop_power", "P_loop", "W", "power of the pumps of coolant and facility's water",
    # The facility's water takes over the coolant's heat at the same rise, so at the same flow.
    equals=(coolant_flow * (coolant_pressure + facility_pressure) + coil_flow * facility_pressure)
    / pump_efficiency,
    reference=_PUMP,
)  # fmt: skip
rejected_heat = scope.variable(
    "heat.rejected", "Q_rej", "W", "heat given to the outdoor air",
    equals=total(
        liquid_heat, air_heat, coolant_chiller_power, air_chiller_power, fan_power, loop_pump_power
    ),
    reference=_BALANCE,
)  # fmt: skip
sink_rise = scope.variable(
    "sink.rise", "dT_rej", "K", "cooling of the water in tower or dry cooler", bounds=POSITIVE,
    reference=_TOWER, boundary="scenario",
)  # fmt: skip
sink_flow = scope.variable(
    "sink.flow", "V_rej", "m^3/s", "flow of water through tower or dry cooler", display="L/s",
    equals=rejected_heat / (water_density * water_heat_capacity * sink_rise), reference=_BALANCE,
)  # fmt: skip
sink_pressure = scope.variable(
    "sink.pressure", "dp_rej", "Pa", "pressure that drives the water of tower or dry cooler",
    display="kPa", reference=_PUMP, boundary="primitive",
)  # fmt: skip
sink_pump_power = scope.variable(
    "pump.sink_power", "P_rej", "W", "power of the pumps of tower or dry cooler",
    equals=sink_flow * sink_pressure / pump_efficiency, reference=_PUMP,
)  # fmt: skip
sink_fan_share = scope.variable(
    "sink.fan_share", "s_tower", "1", "power of the tower's or dry cooler's fans by heat rejected",
    display="%", reference=_TOWER, boundary="primitive",
)  # fmt: skip
sink_fan_power = scope.variable(
    "sink.fan_power", "P_tower", "W", "power of the tower's or dry cooler's fans",
    equals=sink_fan_share * rejected_heat, reference=_TOWER,
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

transformer_sizing = scope.variable(
    "transformer.sizing", "r_tr", "1", "capacity of the transformers over the machines' design power",
    bounds=(1, None), reference=_TRANSFORMER, boundary="scenario",
)  # fmt: skip
transformer_capacity = scope.variable(
    "transformer.capacity", "S_tr", "W", "capacity of all transformers",
    equals=transformer_sizing * cluster.design_power, reference=_TRANSFORMER,
)  # fmt: skip
transformer_load = scope.variable(
    "transformer.load", "x_tr", "1", "load of the transformers over their capacity",
    equals=(cluster.it_power + ups_loss + cooling_power) / transformer_capacity,
    reference=_TRANSFORMER,
)  # fmt: skip
transformer_idle_share = scope.variable(
    "transformer.idle_share", "b_0", "1", "no-load loss of the transformers over their capacity",
    display="%", reference=_TRANSFORMER, boundary="primitive",
)  # fmt: skip
transformer_load_share = scope.variable(
    "transformer.load_share", "b_2", "1", "load loss of the transformers at full load over capacity",
    display="%", reference=_TRANSFORMER, boundary="primitive",
)  # fmt: skip
transformer_loss = scope.variable(
    "dc.transformer_loss", "P_tr", "W", "power lost in transformers",
    equals=transformer_capacity
    * (transformer_idle_share + transformer_load_share * transformer_load**2),
    reference=_TRANSFORMER,
)  # fmt: skip

overhead_power = scope.variable(
    "dc.overhead_power", "P_over", "W", "power that reaches no machine",
    equals=total(cooling_power, ups_loss, transformer_loss), reference=_PUE,
)  # fmt: skip
stated_pue = scope.variable(
    "dc.stated_pue", "PUE_0", "1", "effectiveness that the site's operator publishes",
    bounds=(1, None), reference=_PUE, boundary="scenario",
)  # fmt: skip
scope.approximation(
    overhead_power, (stated_pue - 1) * cluster.it_power, name="dc.overhead_stated",
    valid=stated_pue >= 1, meaning="a published effectiveness, at whatever load", reference=_PUE,
)  # fmt: skip
site_power = scope.variable(
    "dc.power", "P_DC", "W", "power at the site's meter",
    equals=cluster.it_power + overhead_power, reference=_PUE,
)  # fmt: skip
pue = scope.variable(
    "dc.pue", "PUE", "1", "site power over the power of its machines", bounds=(1, None),
    equals=site_power / cluster.it_power, reference=_PUE, target=True,
)  # fmt: skip
scope.inequality(
    "dc.machines_draw_power", cluster.it_power > 0, "a site without load has no effectiveness",
    reference=by_definition(),
)  # fmt: skip
feed_power = scope.variable(
    "dc.feed_power", "P_feed", "W", "power that the grid connection supplies", display="MW",
    reference=by_definition(), boundary="scenario",
)  # fmt: skip
scope.inequality(
    "dc.within_feed", site_power <= feed_power, "the site draws no more than its connection supplies",
    reference=by_definition(),
)  # fmt: skip

# Water: what evaporates, what drops carry off, and what is let out to keep salts down.
latent_share = scope.variable(
    "sink.latent_share", "s_lat", "1", "share of the heat rejected that evaporates water",
    bounds=(0, 1), reference=_MAKEUP, boundary="primitive",
)  # fmt: skip
drift_share = scope.variable(
    "sink.drift_share", "s_drift", "1", "share of the tower's flow that drops carry off",
    display="%", reference=_MAKEUP, boundary="primitive",
)  # fmt: skip
cycles = scope.variable(
    "sink.concentration", "c_conc", "1", "salts in the tower's water over those in fresh water",
    bounds=(1, None), reference=_MAKEUP, boundary="scenario",
)  # fmt: skip
evaporation = scope.variable(
    "water.evaporation", "V_evap", "m^3/s", "water that evaporates", display="L/s",
    equals=evaporative * latent_share * rejected_heat / (water_density * water_latent_heat),
    reference=_MAKEUP,
)  # fmt: skip
drift = scope.variable(
    "water.drift", "V_drift", "m^3/s", "water that leaves the tower as drops", display="L/s",
    equals=evaporative * drift_share * sink_flow, reference=_MAKEUP,
)  # fmt: skip
blowdown = scope.variable(
    "water.blowdown", "V_blow", "m^3/s", "water let out against salts", display="L/s",
    equals=maximum(number("0 m^3/s"), evaporation / (cycles - 1) - drift), reference=_MAKEUP,
)  # fmt: skip
makeup = scope.variable(
    "water.makeup", "V_water", "m^3/s", "fresh water that the site takes", display="L/s",
    equals=total(evaporation, drift, blowdown), reference=_MAKEUP,
)  # fmt: skip
wue = scope.variable(
    "dc.wue", "WUE", "m^3/J", "water taken over the energy of the machines", display="L/kWh",
    equals=makeup / cluster.it_power, reference=_WUE, target=True,
)  # fmt: skip
