"""Electricity price: energy charge, and demand charge for the monthly peak."""

from __future__ import annotations

from assay.model import Scope, cited
from assay.stack import works

scope = Scope("econ", "Costs of a run and of a deployment")

_TARIFF = cited(works.ENERGY_PLUS, "Tariff computation, energy and demand charges")

electricity_energy_price = scope.declare(
    "electricity.energy_price, c_E [USD/J as USD/kWh]: energy charge", reference=_TARIFF, boundary="scenario"
)
electricity_demand_price = scope.declare(
    "electricity.demand_price, c_D [USD/(W*s) as USD/(kW*month)]: demand charge for the monthly peak power",
    reference=_TARIFF,
    boundary="scenario",
)
load_factor = scope.declare(
    "electricity.load_factor, LF: mean power of a month over its highest power",
    bounds=("positive", 1),
    reference=_TARIFF,
    boundary="scenario",
)
electricity_tax = scope.declare(
    "electricity.tax_share, s_tax [1 as %]: taxes and surcharges over the charges of the tariff",
    reference=_TARIFF,
    boundary="scenario",
)
electricity_price = scope.declare(
    "electricity.price, c_el [USD/J as USD/kWh]: price of electricity",
    equals=(electricity_energy_price + electricity_demand_price / load_factor) * (1 + electricity_tax),
    reference=_TARIFF,
)
