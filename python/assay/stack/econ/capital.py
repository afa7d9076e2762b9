"""Capital cost of machines and site, and its annualized amortization."""

from __future__ import annotations

from assay.model import POSITIVE, Variable, cited, number, where
from assay.stack import interconnect, works
from assay.stack.cluster import network, nodes, power as cluster_power
from assay.stack.econ.tariff import scope
from assay.stack.manufacturing import packages

_CAPITAL = cited(works.DATA_CENTER_COST, "capital costs of IT and of the site")
_ANNUAL = cited(works.DATA_CENTER_COST, "total annualised costs")
_BILLING = cited(
    "Cui et al. 2017, Total Cost of Ownership Model for Data Center Technology Evaluation",
    "infrastructure, servers, network, power and maintenance",
)
_ANNUITY = cited(
    "Newnan, Eschenbach and Lavelle, Engineering Economic Analysis, 9th edition 2004",
    "uniform series capital recovery factor",
)

gpu_price = scope.declare("gpu.price, c_GPU [USD/GPU]: price of one GPU", reference=_CAPITAL, boundary="scenario")
# A buyer pays for design, software and margin too: the price is stated, unless a relation of `gpu_price` is chosen.
cost_share = scope.declare(
    "gpu.cost_share, s_GPU [1 as %]: share of a GPU's price that its dies, memory and package cost",
    equals=packages.gpu_cost / gpu_price,
    reference=_CAPITAL,
    target=True,
)
server_price = scope.declare(
    "server.price, c_srv [USD/node]: price of a node without its GPUs", reference=_CAPITAL, boundary="scenario"
)


def _price(heading: str) -> Variable:
    return scope.declare(heading, reference=_CAPITAL, boundary="scenario")


scope.equation(
    server_price,
    nodes.cpus * _price("server.cpu_price, c_cpu [USD]: price of a host CPU")
    + nodes.memory_size * _price("server.memory_price, c_ram [USD/byte as USD/GB]: price of host memory")
    + nodes.node_gpus * interconnect.adapters * _price("server.adapter_price, c_nic [USD]: price of a network adapter")
    + nodes.drives * _price("server.drive_price, c_ssd [USD]: price of a drive")
    + _price("server.chassis_price, c_ch [USD/node]: price of chassis, boards, supplies and fans of a node"),
    name="server.price_of_parts",
    meaning="a node's parts",
    reference=_CAPITAL,
)
switch_price = scope.declare(
    "network.switch_price, c_sw [USD]: price of one switch", reference=_BILLING, boundary="scenario"
)
transceiver_price = scope.declare(
    "network.transceiver_price, c_opt [USD]: price of one optical transceiver", reference=_BILLING, boundary="scenario"
)
rack_price = scope.declare(
    "rack.price, c_rack [USD]: price of one rack and its manifolds", reference=_CAPITAL, boundary="scenario"
)
site_price = scope.declare(
    "site.price_by_power, c_site [USD/W]: price of building and plant by design power",
    reference=_CAPITAL,
    boundary="scenario",
)
network_capex = scope.declare(
    "capex.network, K_net [USD]: capital in switches and optics",
    equals=network.switches * switch_price + network.transceivers * transceiver_price,
    reference=_BILLING,
)
machine_capex = scope.declare(
    "capex.machines, K_IT [USD]: capital in GPUs, nodes, network and racks",
    equals=nodes.gpus * gpu_price + nodes.nodes * server_price + network_capex + cluster_power.racks * rack_price,
    reference=_CAPITAL,
)
site_capex = scope.declare(
    "capex.site, K_site [USD]: capital in building, supply and cooling",
    equals=cluster_power.design_power * site_price,
    reference=_CAPITAL,
)
floor_area = scope.declare(
    "site.floor_area, A_site [m^2]: floor of the building", reference=_CAPITAL, boundary="scenario"
)
scope.approximation(
    site_capex,
    floor_area * _price("site.price_by_area, c_area [USD/m^2]: price of the building by its floor")
    + cluster_power.design_power
    * (
        _price("site.supply_price, c_sup [USD/W]: price of supply and generators by power")
        + _price("site.cooling_price, c_cool [USD/W]: price of cooling by the heat that it takes")
    ),
    name="capex.site_of_parts",
    valid=floor_area > number("0 m^2"),
    meaning="building by its floor, supply by power, cooling by heat",
    reference=_CAPITAL,
)
year = scope.constant("year", "yr", "31557600 s", "compounding period of interest", reference=_ANNUITY)
interest = scope.declare(
    "interest, i [1 as %]: annual cost of capital; 0 is straight-line amortization",
    reference=_ANNUITY,
    boundary="scenario",
)


def _annual_share(what: str, mark: str, meaning: str) -> tuple[Variable, Variable, Variable]:
    """Declare lifetime, residual value and the share of the price that each year must earn."""
    lifetime = scope.declare(
        f"{what}.lifetime, n_{mark} [s as year]: amortization period of {meaning}",
        bounds=POSITIVE,
        reference=_CAPITAL,
        boundary="scenario",
    )
    residual = scope.declare(
        f"{what}.residual_share, r_{mark} [1 as %]: residual value of {meaning} over its price",
        bounds=(0, 1),
        reference=_ANNUITY,
        boundary="scenario",
    )
    years = lifetime / year
    recovery = scope.declare(
        f"{what}.recovery, a_{mark} [1 as %]: annual amortization of {meaning} over its price",
        equals=where(
            interest > 0,
            (1 - residual) * interest / (1 - (1 + interest) ** (-years)) + residual * interest,
            (1 - residual) / years,
        ),
        reference=_ANNUITY,
    )
    return lifetime, residual, recovery


machine_lifetime, machine_residual, machine_recovery = _annual_share("machines", "IT", "machinery")
site_lifetime, _, site_recovery = _annual_share("site", "site", "the site")
capital_rate = scope.declare(
    "capital.rate, k [USD/s as USD/h]: capital cost of machines and site per time",
    equals=(machine_capex * machine_recovery + site_capex * site_recovery) / year,
    reference=_ANNUAL,
)
