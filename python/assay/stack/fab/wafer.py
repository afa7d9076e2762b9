"""The price of a wafer: capital, masks, materials, energy, people and margin.

Most of a wafer's cost is the write-off of the fab; a foundry then keeps half of the price. The parts are stated by
wafer, so that a change of dose, of layers or of electricity reaches the price of a GPU.
"""

from __future__ import annotations

from assay.model import POSITIVE, Variable, by_definition, cited, total
from assay.stack.fab.flow import experience
from assay.stack.fab.silicon import scope, wafer_energy as bare_energy
from assay.stack.fab.tools import exposures, mask_cost, printing, processing
from assay.stack.lithography import scanner, source
from assay.stack.manufacturing import wafers

_CSET = cited(
    "Khan and Mann 2020, AI Chips: What They Are and Why They Matter, CSET",
    "appendix D, Table 9: capital consumed, other costs and markup per wafer",
)
_COST = cited("SEMI E35, Guide to Calculate Cost of Ownership Metrics for Semiconductor Equipment", "recurring costs")
_MARGIN = by_definition("gross margin: price less cost, over price")
_ENERGY = cited(
    "Gupta et al. 2022, ACT: Designing Sustainable Computer Systems With An Architectural Carbon Modeling Tool",
    "energy per area of a fab",
)


def _datum(heading: str) -> Variable:
    return scope.declare(heading, reference=_COST, boundary="primitive")


# Capital, in total: the other way to the cost of tools.
investment = scope.declare(
    "capital.by_rate, K_r [USD]: capital of a fab by wafer that it starts in a year",
    reference=_CSET,
    boundary="primitive",
)
depreciation = scope.declare(
    "capital.depreciation, d_y [1 as %]: share of that capital that a year consumes", bounds=(0, 1), reference=_CSET,
    boundary="primitive",
)  # fmt: skip
capital_cost = scope.declare(
    "capital.wafer_cost, c_k [USD]: capital that a wafer consumes", reference=_CSET, target=True
)
scope.equation(
    capital_cost,
    investment * depreciation,
    name="capital.of_fab",
    meaning="a year's share of the capital, by wafers of the year",
    reference=_CSET,
)
scope.approximation(
    capital_cost,
    printing + processing,
    name="capital.of_tools",
    valid=exposures >= 1,
    meaning="passes through scanners and all other tools",
    reference=_COST,
)
building_share = scope.declare(
    "capital.building_share, s_b [1 as %]: building and clean rooms over tools, in cost by wafer; unless given, none "
    "beside",
    equals=0,
    reference=_COST,
)
bare_price = _datum("materials.bare_wafer, c_b [USD]: price of a bare wafer")
resist_volume = _datum("materials.resist_volume, v_r [m^3 as mL]: resist of an exposure")
resist_price = _datum("materials.resist_price, c_r [USD/m^3 as USD/L]: price of resist")
layer_materials = _datum("materials.by_exposure, c_l [USD]: gases, chemicals, slurries and targets by exposure")
materials = scope.declare(
    "materials.cost, C_mat [USD]: materials of a wafer",
    equals=bare_price + exposures * (resist_volume * resist_price + layer_materials),
    reference=_COST,
    target=True,
)
scanner_rest = _datum(
    "energy.scanner_rest, P_sr [W as MW]: power of an extreme-ultraviolet scanner without its source: stages, vacuum, "
    "cooling"
)
scanner_power = scope.declare(
    "energy.scanner_power, P_s [W as MW]: power of an extreme-ultraviolet scanner with its laser",
    equals=scanner_rest + source.source_electricity,
    reference=_ENERGY,
    target=True,
)
pass_energy = scope.declare(
    "energy.by_euv_pass, E_s [J as kWh]: electricity of an extreme-ultraviolet exposure",
    equals=scanner_power / scanner.tool_rate,
    reference=_ENERGY,
    target=True,
)
exposure_energy = _datum("energy.by_exposure, E_e [J as kWh]: electricity of all other steps of an exposure")
facility_share = _datum("energy.facility_share, s_fac: electricity of air, water and cooling over that of the tools")
energy = scope.declare(
    "energy.wafer, E_w [J as kWh]: electricity of a processed wafer",
    equals=(scanner.layers * pass_energy + exposures * exposure_energy) * (1 + facility_share),
    reference=_ENERGY,
    target=True,
)
energy_price = _datum("energy.price, c_E [USD/J as USD/kWh]: price of a fab's electricity")
energy_cost = scope.declare(
    "energy.cost, C_E [USD]: electricity of a processed wafer, and of the bare one",
    equals=(energy + bare_energy) * energy_price,
    reference=_COST,
    target=True,
)
people = _datum("labor.people, n_p: people of a fab")
salary = _datum("labor.salary, w_p [USD/s as USD/year]: cost of each")
starts = scope.declare(
    "starts, r_f [1/s as 1/month]: wafers that the fab starts", bounds=POSITIVE, reference=_COST,
    boundary="primitive",
)  # fmt: skip
labor = scope.declare(
    "labor.cost, C_lab [USD]: people by wafer", equals=people * salary / starts, reference=_COST, target=True
)
cost = scope.declare(
    "wafer.cost, C_w [USD]: cost of a processed wafer",
    equals=total(capital_cost * (1 + building_share), mask_cost, materials, energy_cost, labor) * experience,
    bounds=POSITIVE,
    reference=_COST,
    target=True,
)
margin = scope.declare(
    "margin, m_f [1 as %]: gross margin of the foundry", bounds=(0, 0.999), reference=_MARGIN, boundary="scenario"
)
scope.equation(
    wafers.wafer_price,
    cost / (1 - margin),
    name="wafer_price",
    meaning="cost of a wafer, of which the foundry keeps a margin",
    reference=_MARGIN,
)
capital_share = scope.declare(
    "capital.share, s_k [1 as %]: share of a wafer's cost that is capital",
    equals=capital_cost * (1 + building_share) * experience / cost,
    bounds=(0, 1),
    reference=by_definition("capital over cost"),
    target=True,
)
