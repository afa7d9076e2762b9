"""Electricity price: energy charge, and demand charge for the monthly peak."""

from __future__ import annotations

from assay.model import Scope, cited

scope = Scope("econ", "Costs of a run and of a deployment")

_TARIFF = cited("EnergyPlus Engineering Reference", "Tariff computation, energy and demand charges")

electricity_energy_price = scope.variable(
    "electricity.energy_price", "c_E", "USD/J", "energy charge", display="USD/kWh",
    reference=_TARIFF, boundary="scenario",
)  # fmt: skip
electricity_demand_price = scope.variable(
    "electricity.demand_price", "c_D", "USD/(W*s)", "demand charge for the monthly peak power",
    display="USD/(kW*month)", reference=_TARIFF, boundary="scenario",
)  # fmt: skip
load_factor = scope.variable(
    "electricity.load_factor", "LF", "1", "mean power of a month over its highest power",
    bounds=("positive", 1), reference=_TARIFF, boundary="scenario",
)  # fmt: skip
electricity_tax = scope.variable(
    "electricity.tax_share", "s_tax", "1", "taxes and surcharges over the charges of the tariff",
    display="%", reference=_TARIFF, boundary="scenario",
)  # fmt: skip
electricity_price = scope.variable(
    "electricity.price", "c_el", "USD/J", "price of electricity", display="USD/kWh",
    equals=(electricity_energy_price + electricity_demand_price / load_factor)
    * (1 + electricity_tax),
    reference=_TARIFF,
)  # fmt: skip
