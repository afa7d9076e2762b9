"""Emissions and water of a fab: electricity of a wafer by area, gases that escape, and pure water.

Gases that etch and clean hold heat thousands of times better than carbon dioxide. A plasma uses up most of a gas,
the exhaust is burned, and the rest escapes.
"""

from __future__ import annotations

import math

from assay.model import Variable, cited
from assay.stack.fab.silicon import scope, silicon_emissions
from assay.stack.fab.tools import exposures
from assay.stack.fab.wafer import energy
from assay.stack.manufacturing import footprint, packages, wafers

_IPCC = cited(
    "IPCC 2019, Refinement to the 2006 Guidelines for National Greenhouse Gas Inventories, volume 3",
    "ch. 6, electronics industry: Tier 2, use rates, by-products and abatement",
)
_ACT = cited(
    "Gupta et al. 2022, ACT: Designing Sustainable Computer Systems With An Architectural Carbon Modeling Tool",
    "energy, gas and materials per area by node (EPA, GPA, MPA)",
)
_WATER = cited("TSMC 2023, Sustainability Report 2022", "water use by 12-inch wafer and mask layer")


def _datum(heading: str) -> Variable:
    return scope.declare(heading, reference=_IPCC, boundary="primitive")


_area = math.pi / 4 * wafers.diameter**2
scope.equation(
    footprint.logic.energy,
    energy / _area,
    name="energy_by_area",
    meaning="electricity of a wafer over its area",
    reference=_ACT,
)
gas_mass = _datum("gas.mass, m_g [kg as g]: etching and cleaning gases by exposure")
warming = _datum("gas.warming, GWP: warming of those gases over that of carbon dioxide")
used = scope.declare(
    "gas.used, u_g [1 as %]: share of a gas that a plasma uses up", bounds=(0, 1), reference=_IPCC,
    boundary="primitive",
)  # fmt: skip
byproduct = _datum("gas.byproduct, b_g: warming of what it becomes, over that of the gas fed")
escaped = scope.declare(
    "gas.emissions, m_gw [kg]: emissions of gases of a wafer, as carbon dioxide",
    equals=exposures * gas_mass * warming * (1 - used + byproduct) * (1 - footprint.abatement),
    reference=_IPCC,
    target=True,
)
scope.approximation(
    footprint.logic.gas,
    escaped / _area,
    name="gas_by_area",
    valid=exposures >= 1,
    meaning="gases that escape, over the area of a wafer",
    reference=_IPCC,
)
other_materials = _datum("materials.emissions, m_mat [kg]: emissions of making the chemicals of a wafer")
scope.equation(
    footprint.logic.materials,
    (silicon_emissions + other_materials) / _area,
    name="materials_by_area",
    meaning="bare wafer and chemicals, over the area of a wafer",
    reference=_ACT,
)
layer_water = scope.declare(
    "water.by_exposure, v_e [m^3 as L]: water by exposure of a wafer", reference=_WATER, boundary="primitive"
)
recycled = scope.declare(
    "water.recycled, s_rc [1 as %]: share of that water which was used before", bounds=(0, 1), reference=_WATER,
    boundary="primitive",
)  # fmt: skip
wafer_water = scope.declare(
    "water.wafer, V_w [m^3]: fresh water of a wafer",
    equals=exposures * layer_water * (1 - recycled),
    reference=_WATER,
    target=True,
)
gpu_water = scope.declare(
    "water.gpu, V_GPU [m^3/GPU]: fresh water of the compute dies of a GPU",
    equals=wafer_water * packages.dies / (wafers.good_dies * packages.package_yield),
    bounds=(0, None),
    reference=_WATER,
    target=True,
)
