"""Packages: compute dies and memory stacks on an interposer, their cost and what limits their number."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, minimum, number
from assay.stack import gpu, hbm
from assay.stack.manufacturing.wafers import (
    die_area,
    die_cost,
    good_dies,
    scope,
    sites_on_wafer,
)

_COST = cited(
    "Hennessy and Patterson, Computer Architecture: A Quantitative Approach, 5th edition 2011",
    "sec. 1.6, cost of die, test and package over final test yield",
)
_COWOS = cited("TSMC 3DFabric, CoWoS", "interposer with logic dies and memory stacks")
_ASSEMBLY = cited(
    "Stow, Akgun, Barnes, Gu and Xie 2016, Cost Analysis and Cost-Driven IP Reuse Methodology for "
    "SoC Design Based on 2.5D/3D Integration",
    "2.5D cost: bonding yield of every chip",
)
_SITES = cited(
    "de Vries 2005, Investigation of Gross Die per Wafer Formulas", "sites of a 300 mm wafer"
)
_RATE = by_definition("what a line starts, times what it yields")

ONE_GPU = number("1 GPU")
"""A package is one GPU, however many compute dies it has."""

dies = scope.variable(
    "package.dies", "n_d", "1/GPU", "compute dies of a package", bounds=POSITIVE,
    reference=_COWOS, boundary="primitive", nature="count",
)  # fmt: skip
fill = scope.variable(
    "interposer.fill", "phi", "1", "share of an interposer that dies and stacks cover",
    display="%", bounds=("positive", 1), reference=_COWOS, boundary="primitive",
)  # fmt: skip
chip_area = scope.variable(
    "package.chip_area", "A_c", "m^2", "area of a package's compute dies and memory stacks",
    display="mm^2", equals=(dies * die_area + hbm.stacks * hbm.stack_area) * ONE_GPU,
    reference=_COWOS,
)  # fmt: skip
interposer_area = scope.variable(
    "interposer.area", "A_i", "m^2", "area of an interposer", display="mm^2",
    equals=chip_area / fill, reference=_COWOS, target=True,
)  # fmt: skip
interposer_limit = scope.variable(
    "interposer.limit", "A_max", "m^2", "area of the largest interposer that is made",
    display="mm^2", reference=_COWOS, boundary="primitive",
)  # fmt: skip
scope.inequality(
    "interposer.fits", interposer_area <= interposer_limit,
    "compute dies and memory stacks fit the largest interposer", reference=_COWOS,
)  # fmt: skip

bond_yield = scope.variable(
    "package.bond_yield", "y_b", "1", "share of chips that survive their bonding", display="%",
    bounds=(0, 1), reference=_ASSEMBLY, boundary="primitive",
)  # fmt: skip
test_yield = scope.variable(
    "package.test_yield", "y_t", "1", "share of assembled packages that pass the final test",
    display="%", bounds=(0, 1), reference=_COST, boundary="primitive",
)  # fmt: skip
package_yield = scope.variable(
    "package.yield", "Y_p", "1", "share of started packages that become a GPU", display="%",
    bounds=(0, 1), equals=bond_yield ** ((dies + hbm.stacks) * ONE_GPU) * test_yield,
    reference=_ASSEMBLY, target=True,
)  # fmt: skip
memory_price = scope.variable(
    "memory.price", "c_m", "USD/byte", "price of stacked memory", display="USD/GB",
    reference=_COST, boundary="scenario",
)  # fmt: skip
package_price = scope.variable(
    "package.price", "c_p", "USD/GPU", "price of interposer, substrate, assembly and test",
    reference=_COST, boundary="scenario",
)  # fmt: skip
gpu_cost = scope.variable(
    "gpu.cost", "C_GPU", "USD/GPU", "cost of a GPU's dies, memory and package",
    equals=(dies * die_cost + gpu.memory_capacity * memory_price + package_price) / package_yield,
    reference=_COST, target=True,
)  # fmt: skip

wafer_rate = scope.variable(
    "wafer.rate", "r_w", "1/s", "wafers started for this die, by time", display="1/month",
    reference=_RATE, boundary="scenario",
)  # fmt: skip
logic_rate = scope.variable(
    "wafer.gpu_rate", "R_w", "GPU/s", "GPUs by time that the wafers give dies for",
    display="GPU/day", equals=wafer_rate * good_dies / dies * package_yield, reference=_RATE,
)  # fmt: skip
packaging_capacity = scope.variable(
    "packaging.capacity", "r_i", "1/s", "interposer wafers of all lines, by time",
    display="1/month", reference=_RATE, boundary="scenario",
)  # fmt: skip
packaging_share = scope.variable(
    "packaging.share", "s_i", "1", "share of the packaging capacity for this GPU", display="%",
    bounds=(0, 1), reference=_RATE, boundary="scenario",
)  # fmt: skip
interposers = scope.variable(
    "packaging.interposers", "N_i", "1", "interposers on a wafer",
    equals=sites_on_wafer(interposer_area), reference=_SITES,
)  # fmt: skip
packaging_rate = scope.variable(
    "packaging.gpu_rate", "R_i", "GPU/s", "GPUs by time that the packaging lines make",
    display="GPU/day",
    equals=packaging_capacity * packaging_share * interposers * package_yield * ONE_GPU,
    reference=_RATE, target=True,
)  # fmt: skip
stack_rate = scope.variable(
    "memory.stack_rate", "r_st", "1/s", "memory stacks by time for this GPU", display="1/month",
    reference=_RATE, boundary="scenario",
)  # fmt: skip
memory_rate = scope.variable(
    "memory.gpu_rate", "R_st", "GPU/s", "GPUs by time that the memory stacks are enough for",
    display="GPU/day", equals=stack_rate / hbm.stacks * package_yield, reference=_RATE,
)  # fmt: skip
gpu_rate = scope.variable(
    "gpu.rate", "R_GPU", "GPU/s", "GPUs by time: the least that wafers, packaging and memory allow",
    display="GPU/day", equals=minimum(minimum(logic_rate, packaging_rate), memory_rate),
    reference=_RATE, target=True,
)  # fmt: skip
demand = scope.variable(
    "gpu.demand", "R_dem", "GPU/s", "GPUs of this kind that are wanted, by time",
    display="GPU/day", reference=by_definition("what buyers order"), boundary="scenario",
)  # fmt: skip
scope.inequality(
    "wafer.meets_demand", demand <= logic_rate, "wafers give enough dies for the GPUs wanted",
    reference=_RATE,
)  # fmt: skip
scope.inequality(
    "packaging.meets_demand", demand <= packaging_rate,
    "the packaging lines make as many GPUs as are wanted", reference=_RATE,
)  # fmt: skip
scope.inequality(
    "memory.meets_demand", demand <= memory_rate,
    "there are enough memory stacks for the GPUs wanted", reference=_RATE,
)  # fmt: skip
