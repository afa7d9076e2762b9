"""Regulation: from the supply of a node to a steady voltage on the die, and what age and heat do to it.

Supplies and regulators lose a fixed part, a part by current and a part by its square, so each has a load at which it
is best. A die that starts to compute draws hundreds of amperes within nanoseconds: the inductance of the package lets
its voltage drop until nearby capacitors are recharged. Currents move atoms of their wires, the faster the hotter.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, exp, maximum, number, sqrt
from assay.stack import delivery, dram, hbm, physics, transistor, works
from assay.stack.cluster import failures, power as cluster_power
from assay.stack.gpu import power as gpu_power
from assay.stack.thermal import chillers, weather

scope = Scope("regulation", "Supplies, regulators, droop, wear and radiation")

_LOSS = cited(
    "Erickson and Maksimovic 2020, Fundamentals of Power Electronics, 3rd edition",
    "ch. 3 and 4, conduction and switching losses",
)
_TITANIUM = cited("80 PLUS, Program Specification: internal redundant supplies", "Titanium: 90, 94, 96 and 91 %")
_DROOP = cited(works.CMOS_VLSI, "sec. 13.3, power distribution: L di/dt noise and bypass capacitance")
_IMPEDANCE = cited(
    "Smith et al. 1999, Power Distribution System Design Methodology and Capacitor Selection for Modern CMOS "
    "Technology, IEEE Transactions on Advanced Packaging 22(3)",
    "target impedance",
)
_BLACK = cited(
    "Black 1969, Electromigration: A Brief Survey and Some Recent Results, IEEE Transactions on Electron Devices 16(4)",
    "median time to failure by current density and temperature",
)
_ARRHENIUS = cited(
    "JEDEC JEP122H 2016, Failure Mechanisms and Models for Semiconductor Devices", "Arrhenius acceleration"
)
_PLANCK = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 12, blackbody radiation: Stefan-Boltzmann constant")
_RADIATION = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 13, radiation between surfaces")
_STACKED = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 3, layers in series: stacked memory")
_ASHRAE = cited(
    "ASHRAE TC 9.9 2021, Thermal Guidelines for Data Processing Environments, 5th edition", "recommended envelope"
)


def _datum(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_LOSS, boundary="primitive")


# Supplies of a node.
load = _datum("supply.load, x_s [1 as %]: load of a node's supplies over their rating", ("positive", 1))
rating = _datum("supply.rating, P_s [W/node as kW/node]: power that a node's supplies may give together")
scope.equation(
    load,
    cluster_power.supplied_power / rating,
    name="supply.load_of_node",
    meaning="what a node's parts and fans draw, over what its supplies may give",
    reference=_LOSS,
)
fixed = scope.declare(
    "supply.fixed, a_0 [1 as %]: loss without load, over the rating; unless given, 0.5 %", equals=0.005,
    reference=_TITANIUM,
)  # fmt: skip
linear = scope.declare(
    "supply.linear, a_1 [1 as %]: loss by load; unless given, 0.2 %", equals=0.002, reference=_TITANIUM
)
square = scope.declare(
    "supply.square, a_2 [1 as %]: loss by the square of the load; unless given, 6 %", equals=0.06, reference=_TITANIUM
)
supply_efficiency = scope.declare(
    "supply.efficiency, eta_s [1 as %]: efficiency of a node's supplies at this load",
    equals=load / (load + fixed + linear * load + square * load**2),
    bounds=("positive", 1),
    reference=_LOSS,
    target=True,
)
scope.equation(
    cluster_power.supply_efficiency,
    supply_efficiency,
    name="supply_efficiency",
    meaning="by the load of the supplies",
    reference=_LOSS,
)
best_load = scope.declare(
    "supply.best_load, x_b [1 as %]: load at which supplies are best",
    equals=sqrt(fixed / square),
    reference=_LOSS,
    target=True,
)
# Regulators of a board.
phases = _datum("regulator.phases, n_ph: phases of a board's regulators")
phase_resistance = _datum("regulator.resistance, R_ph [ohm as mohm]: resistance of a phase")
switch_energy = _datum("regulator.switch_energy, E_ph [J as uJ]: energy of switching a phase once")
switch_rate = _datum("regulator.rate, f_ph [Hz as kHz]: switching frequency of a phase")
current = scope.declare(
    "regulator.current, I_r [A]: current that the dies draw",
    equals=delivery.die_power / delivery.die_voltage,
    reference=_LOSS,
    target=True,
)
conduction = scope.declare(
    "regulator.conduction, P_co [W]: loss in the resistance of all phases",
    equals=current**2 * phase_resistance / phases,
    reference=_LOSS,
)
commutation = scope.declare(
    "regulator.commutation, P_sw [W]: loss of switching all phases",
    equals=phases * switch_energy * switch_rate,
    reference=_LOSS,
)
regulator_loss = scope.declare(
    "regulator.loss, P_vr [W]: loss of a board's regulators",
    equals=conduction + commutation,
    reference=_LOSS,
    target=True,
)
regulator_efficiency = scope.declare(
    "regulator.efficiency, eta_vr [1 as %]: power of the dies over that of the board",
    equals=delivery.die_power / (delivery.die_power + regulator_loss + delivery.grid_loss),
    bounds=(0, 1),
    reference=_LOSS,
    target=True,
)
reference_efficiency = scope.declare(
    "regulator.reference_efficiency, eta_v0 [1 as %]: that of the board of the benchmarks, whose losses are in the "
    "energies that were fitted",
    bounds=("positive", 1),
    reference=_LOSS,
    boundary="primitive",
)
scope.approximation(
    gpu_power.delivery_ratio,
    reference_efficiency / regulator_efficiency,
    name="ratio_with_regulators",
    valid=regulator_efficiency > 0,
    meaning="what grid and regulators lose is part of what the board draws",
    reference=_LOSS,
)
best_phases = scope.declare(
    "regulator.best_phases, n_b: phases at which that loss is least",
    equals=current * sqrt(phase_resistance / (switch_energy * switch_rate)),
    reference=_LOSS,
    target=True,
)
ripple = scope.declare(
    "regulator.ripple, dV_r [V as mV]: ripple of the regulated voltage that is allowed", reference=_IMPEDANCE,
    boundary="primitive", bounds=POSITIVE,
)  # fmt: skip
step = scope.declare(
    "droop.step, dI [A]: current that a die adds at once", bounds=POSITIVE, reference=_IMPEDANCE, boundary="primitive"
)
impedance = scope.declare(
    "droop.impedance, Z_t [ohm as uohm]: impedance that the supply may have", equals=ripple / step,
    reference=_IMPEDANCE, target=True,
)  # fmt: skip
inductance = _datum("droop.inductance, L_p [H as pH]: inductance from the package to the die")
capacitance = _datum("droop.capacitance, C_p [F as nF]: capacitors on the die")
damping = _datum("droop.resistance, R_p [ohm as uohm]: resistance of that way")
characteristic = scope.declare(
    "droop.characteristic, Z_0 [ohm as uohm]: root of inductance over capacitance",
    equals=sqrt(inductance / capacitance),
    bounds=POSITIVE,
    reference=_DROOP,
    target=True,
)
resonance = scope.declare(
    "droop.resonance, f_0 [Hz as MHz]: frequency at which package and die resonate",
    equals=1 / (2 * math.pi * sqrt(inductance * capacitance)),
    reference=_DROOP,
    target=True,
)
loss_factor = scope.declare(
    "droop.damping, z_d: damping of that resonance; 1 does not ring", equals=damping / (2 * characteristic),
    reference=_DROOP,
)  # fmt: skip
droop = scope.declare("droop, dV_d [V as mV]: first drop of the die's voltage", reference=_DROOP, target=True)
scope.approximation(
    droop,
    step * (damping + characteristic * exp(-math.pi / 2 * loss_factor)),
    name="droop.first",
    valid=loss_factor < 0.5,
    meaning="resistance, and a quarter of a lightly damped swing",
    reference=_DROOP,
)
guard = scope.declare(
    "droop.guard, v_g [1 as %]: share of the voltage that is kept for the drop",
    equals=droop / delivery.regulated,
    reference=_DROOP,
    target=True,
)
usual = scope.declare(
    "droop.usual, dV_0 [V as mV]: first drop of the benchmarked board, which its clocks contain; unless given, none",
    equals=number("0 V"),
    reference=_DROOP,
)
scope.approximation(
    transistor.guard,
    maximum(droop - usual, number("0 V")),
    name="guard_of_droop",
    valid=guard < 0.5,
    meaning="timing has to hold at the lowest voltage",
    reference=_DROOP,
)
# Wear.
density = _datum("wear.density, J_w [A/m^2]: current density of a supply wire")
energy = _datum("wear.energy, E_a [J as eV]: activation energy of the wear")
exponent = scope.declare(
    "wear.exponent, n_w: exponent of the current density; unless given, 2", equals=2, reference=_BLACK
)
known_life = _datum("wear.known_life, t_w0 [s as year]: median life that is known")
known_density = _datum("wear.known_density, J_0 [A/m^2]: current density at which it is known")
known_temperature = _datum("wear.known_temperature, T_0 [K]: temperature at which it is known")
acceleration = scope.declare(
    "wear.acceleration, k_T: wear at the die's temperature over that at the known one",
    equals=exp(energy / physics.boltzmann * (1 / known_temperature - 1 / transistor.temperature)),
    bounds=POSITIVE,
    reference=_ARRHENIUS,
    target=True,
)
life = scope.declare(
    "wear.life, t_w [s as year]: median life at this current and temperature",
    equals=known_life * (known_density / density) ** exponent / acceleration,
    bounds=POSITIVE,
    reference=_BLACK,
    target=True,
)
wear_rate = scope.declare(
    "wear.rate, l_w [1/(s*GPU) as 1/(year*GPU)]: failures by wear of a GPU, by time",
    equals=1 / life / number("1 GPU"),
    reference=_ARRHENIUS,
    target=True,
)
other = scope.declare(
    "wear.other_rate, l_o [1/(s*GPU) as 1/(year*GPU)]: interruptions of a GPU by other causes", reference=_ARRHENIUS,
    boundary="primitive",
)  # fmt: skip
scope.equation(
    failures.gpu_failure_rate,
    other + wear_rate,
    name="failure_rate",
    meaning="wear, and all other causes",
    reference=_ARRHENIUS,
)
# Heat that leaves otherwise.
blackbody = scope.declare(
    "radiation.constant, s_B [W/(m^2*K^4)]: power that a black surface radiates, by the fourth power of temperature",
    equals=2 * math.pi**5 * physics.boltzmann**4 / (15 * physics.planck**3 * physics.light_speed**2),
    reference=_PLANCK,
    target=True,
)
emissivity = _datum("radiation.emissivity, e_r [1 as %]: emissivity of a heat sink", (0, 1))
surface = _datum("radiation.surface, A_r [m^2/GPU]: surface of a GPU's heat sink that sees its surroundings")
radiated = scope.declare(
    "radiation.power, P_r [W/GPU]: power that a GPU's heat sink radiates",
    equals=emissivity * blackbody * surface * (transistor.temperature**4 - gpu_power.coolant_temperature**4),
    bounds=(None, None),
    reference=_RADIATION,
    target=True,
)
layer_resistance = _datum("memory.layer_resistance, R_l [K*GPU/W]: thermal resistance of a layer of stacked memory")
layers = _datum("memory.layers, n_l: layers of a stack")
memory_power = _datum("memory.power, P_m [W/GPU]: power of a stack")
scope.equation(
    layers, hbm.dies_per_stack, name="memory.layers_of_stack", meaning="a layer is a memory die", reference=_STACKED
)
access_energy = _datum("memory.energy, E_st [J/byte as pJ/bit]: energy by byte that becomes heat within a stack")
# Not the rate of the workload: refresh slows kernels, so that the heat of their own rate would be a circle.
scope.approximation(
    memory_power,
    access_energy * hbm.stack_bandwidth / number("1 GPU"),
    name="memory.power_of_pins",
    valid=access_energy > number("0 J/byte"),
    meaning="pins at their full rate, which is the most that a stack draws",
    reference=hbm.ENERGY,
)
sink = scope.declare(
    "memory.sink, T_sk [K as degC]: temperature of what cools the stacks; unless derived, that of the coolant",
    equals=gpu_power.coolant_temperature,
    bounds=POSITIVE,
    reference=_STACKED,
)
scope.approximation(
    sink,
    gpu_power.coolant_temperature + (delivery.spreader_resistance + delivery.film_resistance) * gpu_power.power_ceiling,
    name="memory.sink_of_board",
    valid=delivery.film_resistance > number("0 K*GPU/W"),
    meaning="stacks share spreader and film of coolant with the dies, at the power at which the clock is lowered",
    reference=_STACKED,
)
hottest = scope.declare(
    "memory.hottest, T_m [K as degC]: temperature of the lowest die of a stack, whose heat passes all others",
    equals=sink + memory_power * layer_resistance * (layers + 1) / 2,
    reference=_STACKED,
    target=True,
)
scope.approximation(
    dram.device.temperature,
    hottest,
    name="memory_temperature",
    valid=memory_power > number("0 W/GPU"),
    meaning="the lowest die of a stack, which is the hottest",
    reference=_STACKED,
)
# The room.
inlet_low = scope.declare(
    "room.inlet_low, T_lo [K as degC]: coldest inlet air that is recommended; unless given, 18 degC",
    equals=number("291.15 K"),
    reference=_ASHRAE,
)
inlet_high = scope.declare(
    "room.inlet_high, T_hi [K as degC]: warmest inlet air that is recommended; unless given, 27 degC",
    equals=number("300.15 K"),
    reference=_ASHRAE,
)
dew_high = scope.declare(
    "room.dew_high, T_dh [K as degC]: highest dew point that is recommended; unless given, 15 degC",
    equals=number("288.15 K"),
    reference=_ASHRAE,
)
surface_temperature = scope.declare(
    "room.surface, T_s [K as degC]: coldest surface of the coolant's pipes; unless given, that of the coolant at the "
    "GPU",
    equals=gpu_power.coolant_temperature,
    reference=_ASHRAE,
)
dew_headroom = scope.declare(
    "room.dew_headroom, dT_d [K]: how far those pipes are above the dew point of outdoor air",
    equals=surface_temperature - weather.dew_point,
    bounds=(None, None),
    nature="difference",
    reference=_ASHRAE,
    target=True,
)
cold_headroom = scope.declare(
    "room.cold_headroom, dT_c [K]: how far inlet air is above the coldest that is recommended",
    equals=chillers.air_temperature - inlet_low,
    bounds=(None, None),
    nature="difference",
    reference=_ASHRAE,
    target=True,
)
warm_headroom = scope.declare(
    "room.warm_headroom, dT_w [K]: how far inlet air is below the warmest that is recommended",
    equals=inlet_high - chillers.air_temperature,
    bounds=(None, None),
    nature="difference",
    reference=_ASHRAE,
    target=True,
)
humid_headroom = scope.declare(
    "room.humid_headroom, dT_h [K]: how far the dew point of outdoor air is below the highest that is recommended",
    equals=dew_high - weather.dew_point,
    bounds=(None, None),
    nature="difference",
    reference=_ASHRAE,
    target=True,
)
headroom = scope.declare(
    "headroom, dP [W/GPU]: board power limit above the power drawn",
    equals=gpu_power.power_limit - gpu_power.power,
    bounds=(None, None),
    reference=by_definition("limit less power"),
    target=True,
)
utilization = scope.declare(
    "limit_use, u_P [1 as %]: power drawn over the board power limit",
    equals=gpu_power.power / gpu_power.power_limit,
    reference=by_definition("power over limit"),
    target=True,
)
