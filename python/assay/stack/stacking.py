"""Stacks and packages: holes through silicon, dies that are tested before they are stacked, and what is lost.

A stack of memory is as good as all of its dies and bonds together, so dies are tested first; tests miss a few. Signals
pass through copper in holes, which cost area and capacitance. An interposer larger than a scanner's field is
stitched; a package that warms and cools strains its bumps until they crack.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Variable, by_definition, ceil, cited, exp, log, number
from assay.stack import dram, hbm, physics, wires
from assay.stack.cluster import failures
from assay.stack.manufacturing import footprint, packages, wafers

scope = Scope("stacking", "Stacked memory and packages")

_TSV = cited(
    "Katti, Stucchi, De Meyer and Dehaene 2010, Electrical Modeling and Characterization of Through Silicon via for "
    "Three-Dimensional ICs, IEEE Transactions on Electron Devices 57(1)",
    "resistance and oxide capacitance of a cylinder",
)
_ESCAPES = cited(
    "Williams and Brown 1981, Defect Level as a Function of Fault Coverage, IEEE Transactions on Computers 30(12)",
    "eq. 1",
)
_STACK = cited(
    "Stow, Akgun, Barnes, Gu and Xie 2016, Cost Analysis and Cost-Driven IP Reuse Methodology for SoC Design Based on "
    "2.5D/3D Integration",
    "yield of stacks: dies and bonds",
)
_COST = cited(
    "Stow, Akgun, Barnes, Gu and Xie 2016, Cost Analysis and Cost-Driven IP Reuse Methodology for SoC Design Based on "
    "2.5D/3D Integration",
    "cost of stacks and interposers",
)
_STITCH = cited("TSMC 3DFabric, CoWoS", "CoWoS-S: interposers of several fields")
_FATIGUE = cited(
    "Lau 1991, Solder Joint Reliability: Theory and Applications", "Coffin-Manson relation, shear of bumps"
)
_MURPHY = cited("Murphy 1964, Cost-Size Optima of Monolithic Integrated Circuits", "Poisson yield of defects")


def _datum(heading: str, bounds: tuple[float | str | None, float | str | None] = POSITIVE) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=_COST, boundary="primitive")


# Holes.
radius = _datum("via.radius, r_v [m as um]: radius of the copper in a hole")
liner = _datum("via.liner, t_o [m as um]: thickness of the oxide around it")
height = _datum("via.height, h_v [m as um]: height of a hole: of a thinned die")
pitch = _datum("via.pitch, p_v [m as um]: distance of neighboring holes")
resistivity = _datum("via.resistivity, rho_v [ohm*m]: resistivity of the copper")
power_share = _datum("via.power_share, k_v: holes for power, ground and control by hole for data", (0, None))
vias = scope.declare(
    "via.count, n_v: holes through a die of a stack",
    equals=hbm.stack_pins * (1 + power_share),
    reference=_TSV,
    target=True,
)
via_resistance = scope.declare(
    "via.resistance, R_v [ohm as mohm]: resistance of a hole",
    equals=resistivity * height / (math.pi * radius**2),
    reference=_TSV,
    target=True,
)
via_capacitance = scope.declare(
    "via.capacitance, C_v [F as fF]: capacitance of a hole through its oxide",
    equals=2 * math.pi * 3.9 * physics.vacuum_permittivity * height / log(1 + liner / radius),
    reference=_TSV,
    target=True,
)
via_area = scope.declare(
    "via.area, A_v [m^2 as mm^2]: area of a die's holes", equals=vias * pitch**2, reference=_TSV, target=True
)
via_share = scope.declare(
    "via.share, s_v [1 as %]: share of a stack's footprint that holes take",
    equals=via_area / hbm.stack_area,
    reference=by_definition("holes over footprint"),
    target=True,
)
swing = _datum("via.swing, V_v [V]: voltage of signals in a stack")
via_energy = scope.declare(
    "via.energy, E_v [J/byte as pJ/bit]: energy of a bit through half the dies of a stack",
    equals=hbm.dies_per_stack / 2 * via_capacitance * swing**2 / 2 * number("8 1/byte"),
    reference=_TSV,
    target=True,
)
scope.equation(
    dram.device.transport_energy,
    via_energy + wires.bit_energy * wires.distance * number("8 1/byte"),
    name="transport_with_holes",
    meaning="holes of the stack, and wires from the pins to a multiprocessor",
    reference=_TSV,
)
# Stacks.
die_yield = _datum("die.yield, Y_m [1 as %]: share of memory dies that work", ("positive", 1))
coverage = _datum("test.coverage, T_c [1 as %]: share of faults that tests of dies find", (0, 1))
escapes = scope.declare(
    "test.escapes, d_e [1 as %]: share of dies that pass and do not work",
    equals=1 - die_yield ** (1 - coverage),
    bounds=(0, 1),
    reference=_ESCAPES,
    target=True,
)
bond = _datum("bond.yield, Y_b [1 as %]: share of bonds of one die to the next that work", ("positive", 1))
stack_yield = scope.declare(
    "stack.yield, Y_s [1 as %]: share of stacks that work: no escaped die and no bad bond",
    equals=((1 - escapes) * bond) ** hbm.dies_per_stack,
    bounds=("positive", 1),
    reference=_STACK,
    target=True,
)
scope.approximation(
    footprint.memory_yield,
    die_yield * stack_yield,
    name="memory_yield",
    valid=stack_yield > 0,
    meaning="dies that work, in stacks that work",
    reference=_STACK,
)
memory_wafer = _datum("memory.wafer_price, c_mw [USD]: price of a processed memory wafer")
base_price = _datum("memory.base_price, c_bd [USD]: price of a base die")
bond_price = _datum("memory.bond_price, c_bo [USD]: price of thinning, holes and bonding by die")
memory_dies = scope.declare(
    "memory.dies, N_m: memory dies on a wafer",
    equals=wafers.sites_on_wafer(hbm.stack_area),
    bounds=POSITIVE,
    reference=_COST,
)
memory_die = scope.declare(
    "memory.die_price, c_md [USD]: price of a memory die that works",
    equals=memory_wafer / (memory_dies * die_yield),
    reference=_COST,
    target=True,
)
stack_price = scope.declare(
    "memory.stack_price, c_st [USD]: cost of a stack that works",
    equals=(hbm.dies_per_stack * (memory_die + bond_price) + base_price) / stack_yield,
    reference=_COST,
    target=True,
)
margin = _datum("memory.margin, m_m [1 as %]: gross margin of the maker of stacks", (0, 0.999))
scope.equation(
    packages.memory_price,
    stack_price / (1 - margin) / hbm.stack_capacity,
    name="memory_price",
    meaning="stacks that work, with a margin, by their capacity",
    reference=_COST,
)
# The interposer.
stitches = scope.declare(
    "interposer.fields, n_f: fields of a scanner that an interposer takes",
    equals=ceil(packages.interposer_area / wafers.reticle_area - 1e-9),
    reference=_STITCH,
    target=True,
)
interposer_defects = _datum(
    "interposer.defect_density, D_i [1/m^2 as 1/cm^2]: killer defects of an interposer", (0, None)
)
stitch_yield = _datum("interposer.stitch_yield, y_st [1 as %]: share of stitches that work", ("positive", 1))
interposer_yield = scope.declare(
    "interposer.yield, Y_i [1 as %]: share of interposers that work",
    equals=exp(-packages.interposer_area * interposer_defects) * stitch_yield ** (stitches - 1),
    bounds=("positive", 1),
    reference=_MURPHY,
    target=True,
)
interposer_wafer = _datum("interposer.wafer_price, c_iw [USD]: price of a wafer of interposers")
interposer_price = scope.declare(
    "interposer.price, c_i [USD/GPU]: price of an interposer that works",
    equals=interposer_wafer / (packages.interposers * interposer_yield) / packages.ONE_GPU,
    reference=_COST,
    target=True,
)
substrate = _datum("substrate.price, c_su [USD/GPU]: price of the substrate under it")
assembly = _datum("assembly.price, c_as [USD/GPU]: price of mounting a chip, by chip")
testing = _datum("test.rate_price, c_te [USD/s as USD/h]: price of a tester by time")
test_time = _datum("test.time, t_te [s]: time for which a package is tested")
scope.equation(
    packages.package_price,
    interposer_price
    + substrate
    + assembly * (packages.dies + hbm.stacks) * packages.ONE_GPU
    + testing * test_time / packages.ONE_GPU,
    name="package_price",
    meaning="interposer, substrate, chips mounted and tested",
    reference=_COST,
)
bump_pitch = _datum("bumps.pitch, p_b [m as um]: distance of neighboring bumps")
bumps = scope.declare(
    "bumps.count, n_b: bumps under the chips of a package",
    equals=packages.chip_area / bump_pitch**2,
    reference=_STITCH,
    target=True,
)
bump_failure = _datum("bumps.failure, p_b: probability that a bump fails", (0, 1))
bump_yield = scope.declare(
    "bumps.yield, Y_bu [1 as %]: share of packages whose bumps all work",
    equals=exp(-bumps * bump_failure),
    bounds=(0, 1),
    reference=_MURPHY,
    target=True,
)
scope.approximation(
    packages.package_yield,
    bump_yield * interposer_yield * packages.test_yield,
    name="package_yield",
    valid=bump_failure >= 0,
    meaning="bumps, interposer and final test",
    reference=_STACK,
)
# Fatigue.
mismatch = _datum("fatigue.mismatch, da [1/K]: difference of thermal expansion of chip and board")
temperature_swing = scope.declare(
    "fatigue.swing, dT_f [K]: change of temperature in a cycle of load", bounds=POSITIVE, reference=_FATIGUE,
    boundary="scenario", nature="difference",
)  # fmt: skip
joint = _datum("fatigue.joint, h_j [m as um]: height of a joint")
shear = scope.declare(
    "fatigue.shear, g_f [1 as %]: shear of the joints at a chip's corner in a cycle",
    equals=mismatch * temperature_swing * (wafers.die_area / 2) ** 0.5 / joint,
    bounds=POSITIVE,
    reference=_FATIGUE,
    target=True,
)
ductility = scope.declare(
    "fatigue.ductility, e_f: shear at which a joint breaks at once; unless given, 0.325", equals=0.325,
    bounds=POSITIVE, reference=_FATIGUE,
)  # fmt: skip
fatigue_exponent = scope.declare(
    "fatigue.exponent, c_f: exponent of shear; unless given, 0.442", equals=0.442, bounds=POSITIVE, reference=_FATIGUE
)
cycles = scope.declare(
    "fatigue.cycles, N_f: cycles of load after which half of the joints have cracked",
    equals=0.5 * (shear / (2 * ductility)) ** (-1 / fatigue_exponent),
    bounds=POSITIVE,
    reference=_FATIGUE,
    target=True,
)
cycle_rate = scope.declare(
    "fatigue.rate, r_f [1/(s*GPU) as 1/(year*GPU)]: cycles of load of a GPU, by time", reference=_FATIGUE,
    boundary="scenario",
)  # fmt: skip
rest_rate = scope.declare(
    "fatigue.other_rate, l_r [1/(s*GPU) as 1/(year*GPU)]: interruptions of a GPU by other causes", reference=_FATIGUE,
    boundary="primitive",
)  # fmt: skip
scope.equation(
    failures.gpu_failure_rate,
    rest_rate + cycle_rate / cycles,
    name="failure_rate",
    meaning="joints that crack, and all other causes",
    reference=_FATIGUE,
)
