"""What runs and deployments cost: hardware by time, electricity by energy, both by token."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, number, total, where
from assay.stack import cluster, serving, thermal, training

scope = Scope("econ", "Costs of a run and of a deployment")

_TCO = "Koomey et al. 2008, A Simple Model for Determining True Total Cost of Ownership"
_CAPITAL = cited(_TCO, "capital costs of IT and of the site")
_OPERATION = cited(_TCO, "annual operating expenses")
_ANNUAL = cited(_TCO, "total annualised costs")
_BURDEN = cited(
    "Patel and Shah 2005, Cost Model for Planning, Development and Operation of a Data Center",
    "amortisation, maintenance and staff over what is used",
)
_BILLING = cited(
    "Cui et al. 2017, Total Cost of Ownership Model for Data Center Technology Evaluation",
    "infrastructure, servers, network, power and maintenance",
)
_ANNUITY = cited(
    "Newnan, Eschenbach and Lavelle, Engineering Economic Analysis, 9th edition 2004",
    "uniform series capital recovery factor",
)
_TARIFF = cited("EnergyPlus Engineering Reference", "Tariff computation, energy and demand charges")
_DEMAND = cited("NYSERDA, Understanding Demand Charges", "charge by the month's peak")
_RENT = cited("DeepSeek-AI 2024, DeepSeek-V3 Technical Report", "Table 1, rental price by GPU hour")
_SERVING = cited(
    "DeepSeek-AI 2025, DeepSeek-V3/R1 Inference System Overview",
    "cost of a day by nodes, GPUs and rental price",
)
_ENERGY = cited(
    "Touvron et al. 2023, LLaMA: Open and Efficient Foundation Language Models",
    "sec. 6, energy of a run",
)
_RUN = cited(
    "Cottier et al. 2024, The Rising Costs of Training Frontier AI Models",
    "amortised hardware and energy",
)

year = scope.constant(
    "year", "yr", "31557600 s", "period of accounts, over which interest is reckoned",
    reference=_ANNUITY,
)  # fmt: skip

electricity_energy_price = scope.variable(
    "electricity.energy_price", "c_E", "USD/J", "charge for energy", display="USD/kWh",
    reference=_TARIFF, boundary="scenario",
)  # fmt: skip
electricity_demand_price = scope.variable(
    "electricity.demand_price", "c_D", "USD/(W*s)", "charge for the highest power of a month",
    display="USD/(kW*month)", reference=_DEMAND, boundary="scenario",
)  # fmt: skip
load_factor = scope.variable(
    "electricity.load_factor", "LF", "1", "mean power of a month over its highest power",
    bounds=("positive", 1), reference=_DEMAND, boundary="scenario",
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

gpu_price = scope.variable(
    "gpu.price", "c_GPU", "USD/GPU", "price of one GPU", reference=_CAPITAL, boundary="scenario"
)
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
interest = scope.variable(
    "interest", "i", "1", "cost of capital for a year; 0 makes amortisation a straight line",
    display="%", reference=_ANNUITY, boundary="scenario",
)  # fmt: skip


def _annual_share(what: str, mark: str, meaning: str) -> tuple[Variable, Variable]:
    """Declare lifetime, residual value and the share of the price that each year must earn."""
    lifetime = scope.variable(
        f"{what}.lifetime", f"n_{mark}", "s", f"time over which {meaning} is paid off",
        display="year", bounds=POSITIVE, reference=_CAPITAL, boundary="scenario",
    )  # fmt: skip
    residual = scope.variable(
        f"{what}.residual_share", f"r_{mark}", "1", f"value of {meaning} at the end over its price",
        display="%", bounds=(0, 1), reference=_ANNUITY, boundary="scenario",
    )  # fmt: skip
    years = lifetime / year
    recovery = scope.variable(
        f"{what}.recovery", f"a_{mark}", "1", f"share of the price of {meaning} to be earned in a year",
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
    "capital.rate", "k", "USD/s", "capital of the site that time uses up", display="USD/h",
    equals=(machine_capex * machine_recovery + site_capex * site_recovery) / year,
    reference=_ANNUAL,
)  # fmt: skip
maintenance_share = scope.variable(
    "maintenance.share", "s_mnt", "1", "repairs, insurance and taxes in a year over capital",
    display="%", reference=_BURDEN, boundary="scenario",
)  # fmt: skip
maintenance_rate = scope.variable(
    "maintenance.rate", "m", "USD/s", "repairs, insurance and taxes", display="USD/h",
    equals=maintenance_share * (machine_capex + site_capex) / year, reference=_BURDEN,
)  # fmt: skip
staff = scope.variable(
    "staff.people", "n_staff", "1", "people who run the site", reference=_BURDEN,
    boundary="scenario",
)  # fmt: skip
salary = scope.variable(
    "staff.salary", "w", "USD/s", "cost of one of the people who run the site",
    display="USD/year", reference=_BURDEN, boundary="scenario",
)  # fmt: skip
staff_rate = scope.variable(
    "staff.rate", "W", "USD/s", "cost of all people who run the site", display="USD/h",
    equals=staff * salary, reference=_OPERATION,
)  # fmt: skip
water_price = scope.variable(
    "water.price", "c_w", "USD/m^3", "price of fresh water and of its discharge",
    reference=_OPERATION, boundary="scenario",
)  # fmt: skip
water_rate = scope.variable(
    "water.rate", "v", "USD/s", "cost of the site's water", display="USD/h",
    equals=thermal.makeup * water_price, reference=_OPERATION,
)  # fmt: skip
ownership_rate = scope.variable(
    "site.rate", "c_own", "USD/s", "cost of owning and running the site, without electricity",
    display="USD/h", equals=total(capital_rate, maintenance_rate, staff_rate, water_rate),
    reference=_ANNUAL,
)  # fmt: skip
utilisation = scope.variable(
    "utilisation", "u", "1", "share of the time for which the site's GPUs are let to somebody",
    display="%", bounds=("positive", 1), reference=_BURDEN, boundary="scenario",
)  # fmt: skip
gpu_ownership_rate = scope.variable(
    "gpu.owned_rate", "c_o", "USD/(s*GPU)", "cost of holding one GPU of the site",
    display="USD/(h*GPU)", equals=ownership_rate / (cluster.gpus * utilisation), reference=_BURDEN,
)  # fmt: skip
gpu_power_rate = scope.variable(
    "gpu.power_rate", "c_p", "USD/(s*GPU)", "electricity of one GPU and all that belongs to it",
    display="USD/(h*GPU)", equals=thermal.site_power / cluster.gpus * electricity_price,
    reference=_OPERATION,
)  # fmt: skip
rented = scope.variable(
    "rented", "b_rent", "1", "1 where GPUs are rented, 0 where they are owned", bounds=(0, 1),
    reference=_RENT, boundary="scenario",
)  # fmt: skip
rent = scope.variable(
    "rent.price", "c_rent", "USD/(s*GPU)", "rent of one GPU", display="USD/(h*GPU)",
    reference=_RENT, boundary="scenario",
)  # fmt: skip
rent_includes_power = scope.variable(
    "rent.includes_power", "b_p", "1", "1 where the rent contains the electricity, else 0",
    bounds=(0, 1), reference=_RENT, boundary="scenario",
)  # fmt: skip
gpu_rate = scope.variable(
    "gpu.rate", "c_g", "USD/(s*GPU)", "cost of holding one GPU, without electricity",
    display="USD/(h*GPU)", bounds=(None, None),
    equals=where(rented > 0.5, rent - rent_includes_power * gpu_power_rate, gpu_ownership_rate),
    reference=_RENT,
)  # fmt: skip

job_share = scope.variable(
    "job.share", "s", "1", "share of the site's GPUs that the job holds", bounds=(0, 1),
    equals=training.gpus / cluster.gpus, reference=by_definition("job's GPUs over the site's"),
)  # fmt: skip
job_power = scope.variable(
    "job.dc_power", "P_job", "W", "power at the meter attributed to the job",
    equals=job_share * thermal.site_power, reference=by_definition("in proportion to GPUs held"),
    target=True,
)  # fmt: skip
capex_rate = scope.variable(
    "capex.rate", "c_hw", "USD/s", "cost of the job's hardware per time, owned or rented",
    display="USD/h", equals=training.gpus * gpu_rate, reference=_RUN,
)  # fmt: skip
run_duration = scope.variable(
    "run.duration", "T_run", "s", "time for which the run holds its GPUs", display="day",
    equals=training.time_to_train / training.run_yield, reference=_RUN,
)  # fmt: skip
scope.approximation(
    run_duration, training.time_to_train, name="run.uninterrupted",
    valid=training.time_to_train >= number("0 s"), meaning="steps alone: nothing fails",
    reference=_RUN,
)  # fmt: skip
run_energy = scope.variable(
    "run.energy", "E", "J", "energy of the run at the meter", display="kWh",
    equals=job_power * run_duration, reference=_ENERGY,
)  # fmt: skip
power_cost = scope.variable(
    "run.power_cost", "C_el", "USD", "electricity of the run",
    equals=run_energy * electricity_price, reference=_RUN, target=True,
)  # fmt: skip
hardware_cost = scope.variable(
    "run.hardware_cost", "C_hw", "USD", "hardware of the run",
    equals=capex_rate * run_duration, reference=_RUN,
)  # fmt: skip
total_cost = scope.variable(
    "run.total_cost", "C", "USD", "cost of the run",
    equals=hardware_cost + power_cost, reference=_RUN, target=True,
)  # fmt: skip
scope.approximation(
    total_cost, rent * training.gpus * run_duration, name="run.rented",
    valid=rent > number("0 USD/(s*GPU)"),
    meaning="a rent that contains all, so that neither plant nor power need be known",
    reference=_RENT,
)  # fmt: skip
cost_per_token = scope.variable(
    "cost.per_token", "c_tok", "USD/token", "cost of training on one token",
    equals=total_cost / training.total_tokens, reference=by_definition("cost over tokens"),
    target=True,
)  # fmt: skip
cost_per_step = scope.variable(
    "cost.per_step", "c_step", "USD", "cost of one optimiser step",
    equals=total_cost / training.steps, reference=by_definition("cost over steps"), target=True,
)  # fmt: skip
energy_per_token = scope.variable(
    "energy.per_token", "e_tok", "J/token", "energy at the meter for one token", bounds=POSITIVE,
    equals=run_energy / training.total_tokens, reference=by_definition("energy over tokens"),
    target=True,
)  # fmt: skip
scope.inequality(
    "job.fits_site", training.gpus <= cluster.gpus, "the job holds no more GPUs than the site has",
    reference=by_definition(),
)  # fmt: skip

serving_load = scope.variable(
    "serving.load", "u_s", "1", "tokens asked for over those the deployment could give",
    display="%", bounds=("positive", 1), reference=_SERVING, boundary="scenario",
)  # fmt: skip
serving_power = scope.variable(
    "serving.dc_power", "P_s", "W", "power at the meter attributed to the deployment",
    equals=serving.deployment.gpus / cluster.gpus * thermal.site_power,
    reference=by_definition("in proportion to GPUs held"), target=True,
)  # fmt: skip
serving_rate = scope.variable(
    "serving.rate", "c_s", "USD/s", "cost of the deployment", display="USD/day",
    equals=serving.deployment.gpus * gpu_rate + serving_power * electricity_price, reference=_SERVING,
    target=True,
)  # fmt: skip
scope.approximation(
    serving_rate, rent * serving.deployment.gpus, name="serving.rented",
    valid=rent > number("0 USD/(s*GPU)"), meaning="a rent that contains all", reference=_SERVING,
)  # fmt: skip
cost_per_output_token = scope.variable(
    "cost.per_output_token", "c_out", "USD/token", "cost of one output token",
    equals=serving_rate / (serving.latency.throughput * serving_load), reference=_SERVING, target=True,
)  # fmt: skip
energy_per_output_token = scope.variable(
    "energy.per_output_token", "e_out", "J/token", "energy at the meter for one output token",
    equals=serving_power / (serving.latency.throughput * serving_load),
    reference=by_definition("power over rate"), target=True,
)  # fmt: skip
scope.inequality(
    "serving.fits_site", serving.deployment.gpus <= cluster.gpus,
    "the deployment holds no more GPUs than the site has", reference=by_definition(),
)  # fmt: skip
