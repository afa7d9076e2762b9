"""Capital cost of machines and site, and its annualized amortization."""

from __future__ import annotations

from assay.model import POSITIVE, Variable, cited, where
from assay.stack import cluster, manufacturing
from assay.stack.econ.tariff import (
    scope,
)

_TCO = (
    "Koomey et al. 2008, A Simple Model for Determining True Total Cost of Ownership for Data "
    "Centers"
)
_CAPITAL = cited(_TCO, "capital costs of IT and of the site")
_ANNUAL = cited(_TCO, "total annualised costs")
_BILLING = cited(
    "Cui et al. 2017, Total Cost of Ownership Model for Data Center Technology Evaluation",
    "infrastructure, servers, network, power and maintenance",
)
_ANNUITY = cited(
    "Newnan, Eschenbach and Lavelle, Engineering Economic Analysis, 9th edition 2004",
    "uniform series capital recovery factor",
)

gpu_price = scope.variable(
    "gpu.price", "c_GPU", "USD/GPU", "price of one GPU", reference=_CAPITAL, boundary="scenario"
)
# A buyer pays for design, software and margin too: the price is an input, not computed from the cost.
cost_share = scope.variable(
    "gpu.cost_share", "s_GPU", "1", "share of a GPU's price that its dies, memory and package cost",
    display="%", equals=manufacturing.gpu_cost / gpu_price, reference=_CAPITAL, target=True,
)  # fmt: skip
server_price = scope.variable(
    "server.price", "c_srv", "USD/node", "price of a node without its GPUs",
    reference=_CAPITAL, boundary="scenario",
)  # fmt: skip
switch_price = scope.variable(
    "network.switch_price", "c_sw", "USD", "price of one switch",
    reference=_BILLING, boundary="scenario",
)  # fmt: skip
transceiver_price = scope.variable(
    "network.transceiver_price", "c_opt", "USD", "price of one optical transceiver",
    reference=_BILLING, boundary="scenario",
)  # fmt: skip
rack_price = scope.variable(
    "rack.price", "c_rack", "USD", "price of one rack and its manifolds",
    reference=_CAPITAL, boundary="scenario",
)  # fmt: skip
site_price = scope.variable(
    "site.price_by_power", "c_site", "USD/W", "price of building and plant by design power",
    reference=_CAPITAL, boundary="scenario",
)  # fmt: skip
network_capex = scope.variable(
    "capex.network", "K_net", "USD", "capital in switches and optics",
    equals=cluster.switches * switch_price + cluster.transceivers * transceiver_price,
    reference=_BILLING,
)  # fmt: skip
machine_capex = scope.variable(
    "capex.machines", "K_IT", "USD", "capital in GPUs, nodes, network and racks",
    equals=cluster.gpus * gpu_price
    + cluster.nodes * server_price
    + network_capex
    + cluster.racks * rack_price,
    reference=_CAPITAL,
)  # fmt: skip
site_capex = scope.variable(
    "capex.site", "K_site", "USD", "capital in building, supply and cooling",
    equals=cluster.design_power * site_price, reference=_CAPITAL,
)  # fmt: skip
year = scope.constant(
    "year", "yr", "31557600 s", "compounding period of interest",
    reference=_ANNUITY,
)  # fmt: skip
interest = scope.variable(
    "interest", "i", "1", "annual cost of capital; 0 is straight-line amortization",
    display="%", reference=_ANNUITY, boundary="scenario",
)  # fmt: skip


def _annual_share(what: str, mark: str, meaning: str) -> tuple[Variable, Variable]:
    """Declare lifetime, residual value and the share of the price that each year must earn."""
    lifetime = scope.variable(
        f"{what}.lifetime", f"n_{mark}", "s", f"amortization period of {meaning}",
        display="year", bounds=POSITIVE, reference=_CAPITAL, boundary="scenario",
    )  # fmt: skip
    residual = scope.variable(
        f"{what}.residual_share", f"r_{mark}", "1", f"residual value of {meaning} over its price",
        display="%", bounds=(0, 1), reference=_ANNUITY, boundary="scenario",
    )  # fmt: skip
    years = lifetime / year
    recovery = scope.variable(
        f"{what}.recovery", f"a_{mark}", "1", f"annual amortization of {meaning} over its price",
        display="%",
        equals=where(
            interest > 0,
            (1 - residual) * interest / (1 - (1 + interest) ** (-years)) + residual * interest,
            (1 - residual) / years,
        ),
        reference=_ANNUITY,
    )  # fmt: skip
    return lifetime, recovery


machine_lifetime, machine_recovery = _annual_share("machines", "IT", "machinery")
site_lifetime, site_recovery = _annual_share("site", "site", "the site")
capital_rate = scope.variable(
    "capital.rate", "k", "USD/s", "capital cost of machines and site per time", display="USD/h",
    equals=(machine_capex * machine_recovery + site_capex * site_recovery) / year,
    reference=_ANNUAL,
)  # fmt: skip
