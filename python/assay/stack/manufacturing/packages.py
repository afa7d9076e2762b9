"""Packages: compute dies and memory stacks on an interposer, their cost and what limits their number."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, minimum, number
from assay.stack import hbm, works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.manufacturing.wafers import die_area, die_cost, good_dies, scope, sites_on_wafer, transistors

_COST = cited(works.COMPUTER_ARCHITECTURE, "sec. 1.6, cost of die, test and package over final test yield")
_COWOS = cited("TSMC 3DFabric, CoWoS", "interposer with logic dies and memory stacks")
_WHOLE = cited(works.H100, "full GH100: 144 SMs; transistors of the die")
_ASSEMBLY = cited(
    "Stow, Akgun, Barnes, Gu and Xie 2016, Cost Analysis and Cost-Driven IP Reuse Methodology for "
    "SoC Design Based on 2.5D/3D Integration",
    "2.5D cost: bonding yield of every chip",
)
_SITES = cited(works.DIES_PER_WAFER, "sites of a 300 mm wafer")
_RATE = by_definition("what a line starts, times what it yields")

ONE_GPU = number("1 GPU")
"""A package is one GPU, however many compute dies it has."""

dies = scope.declare(
    "package.dies, n_d [1/GPU]: compute dies of a package",
    bounds=POSITIVE,
    reference=_COWOS,
    boundary="primitive",
    nature="count",
)
multiprocessor_transistors = scope.declare(
    "die.multiprocessor_transistors, n_TSM: transistors of a full die by multiprocessor, with its share of caches "
    "and links",
    bounds=POSITIVE,
    reference=_WHOLE,
    boundary="primitive",
)
scope.inequality(
    "die.holds_multiprocessors",
    gpu_rates.multiprocessors * multiprocessor_transistors <= dies * transistors * (1 + 1e-3),
    "dies have the transistors of the multiprocessors that they are said to hold",
    reference=_WHOLE,
)
fill = scope.declare(
    "interposer.fill, phi [1 as %]: share of an interposer that dies and stacks cover",
    bounds=("positive", 1),
    reference=_COWOS,
    boundary="primitive",
)
chip_area = scope.declare(
    "package.chip_area, A_c [m^2 as mm^2]: area of a package's compute dies and memory stacks",
    equals=(dies * die_area + hbm.stacks * hbm.stack_area) * ONE_GPU,
    reference=_COWOS,
)
interposer_area = scope.declare(
    "interposer.area, A_i [m^2 as mm^2]: area of an interposer", equals=chip_area / fill, reference=_COWOS, target=True
)
interposer_limit = scope.declare(
    "interposer.limit, A_max [m^2 as mm^2]: area of the largest interposer that is made",
    reference=_COWOS,
    boundary="primitive",
)
scope.inequality(
    "interposer.fits",
    interposer_area <= interposer_limit,
    "compute dies and memory stacks fit the largest interposer",
    reference=_COWOS,
)

bond_yield = scope.declare(
    "package.bond_yield, y_b [1 as %]: share of chips that survive their bonding",
    bounds=(0, 1),
    reference=_ASSEMBLY,
    boundary="primitive",
)
test_yield = scope.declare(
    "package.test_yield, y_t [1 as %]: share of assembled packages that pass the final test",
    bounds=(0, 1),
    reference=_COST,
    boundary="primitive",
)
package_yield = scope.declare(
    "package.yield, Y_p [1 as %]: share of started packages that become a GPU",
    bounds=(0, 1),
    equals=bond_yield ** ((dies + hbm.stacks) * ONE_GPU) * test_yield,
    reference=_ASSEMBLY,
    target=True,
)
memory_price = scope.declare(
    "memory.price, c_m [USD/byte as USD/GB]: price of stacked memory", reference=_COST, boundary="scenario"
)
package_price = scope.declare(
    "package.price, c_p [USD/GPU]: price of interposer, substrate, assembly and test",
    reference=_COST,
    boundary="scenario",
)
package_base = scope.declare(
    "package.base_price, c_p0 [USD/GPU]: price of a package without its interposer: substrate, assembly and test",
    reference=_COST,
    boundary="scenario",
)
package_by_area = scope.declare(
    "package.area_price, c_pA [USD/m^2 as USD/mm^2]: what each area of interposer adds to the price of a package",
    reference=_COST,
    boundary="scenario",
)
scope.equation(
    package_price,
    package_base + package_by_area * interposer_area / ONE_GPU,
    name="package.price_by_area",
    meaning="a larger interposer costs more",
    reference=_COST,
)
module_price = scope.declare(
    "module.price, c_x [USD/GPU]: price of what a package is mounted with: voltage regulators, board, heat spreader; "
    "unless given, nothing",
    equals=number("0 USD/GPU"),
    reference=_COST,
)
gpu_cost = scope.declare(
    "gpu.cost, C_GPU [USD/GPU]: cost of a GPU's dies, memory, package and module",
    equals=(dies * die_cost + gpu_rates.memory_capacity * memory_price + package_price + module_price) / package_yield,
    reference=_COST,
    target=True,
)

wafer_rate = scope.declare(
    "wafer.rate, r_w [1/s as 1/month]: wafers started for this die, by time", reference=_RATE, boundary="scenario"
)
logic_rate = scope.declare(
    "wafer.gpu_rate, R_w [GPU/s as GPU/day]: GPUs by time that the wafers give dies for",
    equals=wafer_rate * good_dies / dies * package_yield,
    reference=_RATE,
)
packaging_capacity = scope.declare(
    "packaging.capacity, r_i [1/s as 1/month]: interposer wafers of all lines, by time",
    reference=_RATE,
    boundary="scenario",
)
packaging_share = scope.declare(
    "packaging.share, s_i [1 as %]: share of the packaging capacity for this GPU",
    bounds=(0, 1),
    reference=_RATE,
    boundary="scenario",
)
interposers = scope.declare(
    "packaging.interposers, N_i: interposers on a wafer", equals=sites_on_wafer(interposer_area), reference=_SITES
)
packaging_rate = scope.declare(
    "packaging.gpu_rate, R_i [GPU/s as GPU/day]: GPUs by time that the packaging lines make",
    equals=packaging_capacity * packaging_share * interposers * package_yield * ONE_GPU,
    reference=_RATE,
    target=True,
)
stack_rate = scope.declare(
    "memory.stack_rate, r_st [1/s as 1/month]: memory stacks by time for this GPU", reference=_RATE, boundary="scenario"
)
memory_rate = scope.declare(
    "memory.gpu_rate, R_st [GPU/s as GPU/day]: GPUs by time that the memory stacks are enough for",
    equals=stack_rate / hbm.stacks * package_yield,
    reference=_RATE,
)
gpu_rate = scope.declare(
    "gpu.rate, R_GPU [GPU/s as GPU/day]: GPUs by time: the least that wafers, packaging and memory allow",
    equals=minimum(minimum(logic_rate, packaging_rate), memory_rate),
    reference=_RATE,
    target=True,
)
demand = scope.declare(
    "gpu.demand, R_dem [GPU/s as GPU/day]: GPUs of this kind that are wanted, by time",
    reference=by_definition("what buyers order"),
    boundary="scenario",
)
scope.inequality(
    "wafer.meets_demand", demand <= logic_rate, "wafers give enough dies for the GPUs wanted", reference=_RATE
)
scope.inequality(
    "packaging.meets_demand",
    demand <= packaging_rate,
    "the packaging lines make as many GPUs as are wanted",
    reference=_RATE,
)
scope.inequality(
    "memory.meets_demand", demand <= memory_rate, "there are enough memory stacks for the GPUs wanted", reference=_RATE
)
