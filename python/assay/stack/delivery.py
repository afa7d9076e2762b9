"""Power delivery and the way of heat: what a die loses on its supply, and what lies between it and the coolant.

A die draws its power at less than a volt, so that a thousandth of an ohm matters: the voltage that reaches it falls
with the current, and what the way takes is part of what the board draws. The heat leaves through the die, an
interface, a spreader and a film of coolant, each a thermal resistance, and warms all of it on the way: a die needs
seconds to get warm.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Symbol, by_definition, cited, number
from assay.stack import transistor, works
from assay.stack.gpu import power as gpu_power, reference as gpu_reference
from assay.stack.manufacturing import packages, wafers

scope = Scope("delivery", "Power delivery and the way of heat")

_GRID = cited(works.CMOS_VLSI, "sec. 13.3, power distribution: IR drop")
_CONDUCTION = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 3, steady conduction: thermal resistance network")
_LUMPED = cited(works.HEAT_AND_MASS_TRANSFER, "ch. 4, lumped system analysis")
_GPU = number("1 GPU")

regulated = scope.declare(
    "regulated_voltage, V_r [V]: voltage of the regulators", bounds=POSITIVE, reference=_GRID, boundary="primitive"
)
grid_resistance = scope.declare(
    "grid_resistance, R_g [ohm as uohm]: resistance from the regulators to the transistors and back",
    reference=_GRID,
    boundary="primitive",
)
input_power = scope.declare(
    "input_power, P_in [W]: power that regulators give; unless given or derived, that at which the clock is lowered",
    equals=gpu_power.power_ceiling * _GPU,
    reference=_GRID,
)
die_voltage = scope.declare(
    "die_voltage, V_die [V]: voltage that reaches the transistors: that of the regulators, less what the current takes",
    equals=regulated - grid_resistance * input_power / regulated,
    bounds=POSITIVE,
    reference=_GRID,
    target=True,
)
die_power = scope.declare(
    "die_power, P_die [W]: power that reaches the dies", equals=input_power * die_voltage / regulated, reference=_GRID
)
scope.equation(
    transistor.supply,
    die_voltage,
    name="supply_of_grid",
    meaning="what regulators give and the way to the transistors leaves",
    reference=_GRID,
)
grid_loss = scope.declare(
    "grid_loss, P_g [W]: power lost on the way",
    equals=grid_resistance * (input_power / regulated) ** 2,
    reference=_GRID,
    target=True,
)
_reference_ratio = gpu_reference.reference_regulated / gpu_reference.reference_supply
scope.approximation(
    gpu_power.delivery_ratio,
    regulated / die_voltage / _reference_ratio,
    name="ratio_of_voltages",
    valid=die_voltage > number("0 V"),
    meaning="one current passes regulators and dies: the board draws more by the ratio of their voltages",
    reference=_GRID,
)
scope.approximation(
    transistor.temperature,
    gpu_power.coolant_temperature + gpu_power.thermal_resistance * input_power / _GPU,
    name="temperature_of_channel",
    valid=input_power > number("0 W"),
    meaning="that of a die that draws this power",
    reference=_CONDUCTION,
)
# The way of heat.
flux = scope.declare(
    "flux, q_die [W/m^2 as W/cm^2]: heat by area of the compute dies",
    equals=die_power / (packages.dies * _GPU * wafers.die_area),
    reference=_CONDUCTION,
    target=True,
)
die_thickness = scope.declare(
    "die.thickness, t_die [m as um]: thickness of a die", reference=_CONDUCTION, boundary="primitive"
)
die_conductivity = scope.declare(
    "die.conductivity, k_die [W/(m*K)]: thermal conductivity of silicon", bounds=POSITIVE, reference=_CONDUCTION,
    boundary="primitive",
)  # fmt: skip
interface = scope.declare(
    "interface.resistivity, r_i [K*m^2/W]: thermal resistance by area of the interface between die and spreader",
    reference=_CONDUCTION,
    boundary="primitive",
)
_area = packages.dies * wafers.die_area
die_resistance = scope.declare(
    "die.resistance, R_die [K*GPU/W]: thermal resistance of dies and interface",
    equals=(die_thickness / die_conductivity + interface) / _area,
    reference=_CONDUCTION,
)
spreader_resistance = scope.declare(
    "spreader.resistance, R_sp [K*GPU/W]: thermal resistance of spreader and base of the heat sink",
    reference=_CONDUCTION,
    boundary="primitive",
)
film_coefficient = scope.declare(
    "film.coefficient, h_f [W/(K*m^2)]: heat transfer by area of wetted surface", bounds=POSITIVE,
    reference=_CONDUCTION, boundary="primitive",
)  # fmt: skip
film_area = scope.declare(
    "film.area, A_f [m^2/GPU]: wetted surface of a GPU's heat sink or cold plate", bounds=POSITIVE,
    reference=_CONDUCTION, boundary="primitive",
)  # fmt: skip
film_resistance = scope.declare(
    "film.resistance, R_f [K*GPU/W]: thermal resistance of the film of coolant",
    equals=1 / (film_coefficient * film_area),
    reference=_CONDUCTION,
)
resistance = scope.declare(
    "resistance, R_ja [K*GPU/W]: thermal resistance from die to coolant",
    equals=die_resistance + spreader_resistance + film_resistance,
    bounds=POSITIVE,
    reference=_CONDUCTION,
    target=True,
)
scope.approximation(
    gpu_power.thermal_resistance,
    resistance,
    name="thermal_resistance",
    valid=resistance > 0,
    meaning="die, interface, spreader and film in series",
    reference=_CONDUCTION,
)
heat_capacity = scope.declare(
    "heat_capacity, C_th [J/(K*GPU)]: heat that warms dies, spreader and heat sink by a kelvin",
    bounds=POSITIVE,
    reference=_LUMPED,
    boundary="primitive",
)
elapsed = scope.declare(
    "elapsed, t_on [s]: time since the load began", reference=by_definition("a stopwatch"), boundary="scenario"
)
warm_up = scope.declare(
    "warm_up, T_on [K]: temperature of the die, that time after a load began at the coolant's temperature",
    bounds=POSITIVE,
    reference=_LUMPED,
    target=True,
)
scope.differential(
    warm_up,
    (gpu_power.power_busy - (warm_up - gpu_power.coolant_temperature) / gpu_power.thermal_resistance) / heat_capacity,
    time=Symbol("t"),
    time_like=elapsed,
    initial=gpu_power.coolant_temperature,
    start=number("0 s"),
    end=elapsed,
    name="warm_up.balance",
    meaning="what the die draws and does not give off warms it",
    reference=_LUMPED,
)
