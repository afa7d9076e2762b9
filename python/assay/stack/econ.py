"""What the run costs: hardware by time, electricity by energy, both by token."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition
from assay.stack import cluster, thermal, training

scope = Scope("econ", "Costs of a run")

capex_rate = scope.variable(
    "capex.rate", "c_hw", "USD/s", "cost of the job's hardware per time, amortised",
    display="USD/h", reference=by_definition("amortised capital cost per time"), boundary="decompose",
)  # fmt: skip
electricity_price = scope.variable(
    "electricity.price", "c_el", "USD/J", "price of electricity", display="USD/kWh",
    reference=by_definition("energy tariff"), boundary="scenario",
)  # fmt: skip
job_share = scope.variable(
    "job.share", "s", "1", "share of the site's GPUs that the job holds", bounds=(0, 1),
    equals=training.gpus / cluster.gpus, reference=by_definition("job's GPUs over the site's"),
)  # fmt: skip
job_power = scope.variable(
    "job.dc_power", "P_job", "W", "power at the meter attributed to the job",
    equals=job_share * thermal.site_power, reference=by_definition("in proportion to GPUs held"), target=True,
)  # fmt: skip
run_energy = scope.variable(
    "run.energy", "E", "J", "energy of the run at the meter", display="kWh",
    equals=job_power * training.time_to_train, reference=by_definition("power by time"),
)  # fmt: skip
power_cost = scope.variable(
    "run.power_cost", "C_el", "USD", "electricity of the run",
    equals=run_energy * electricity_price, reference=by_definition("energy by price"), target=True,
)  # fmt: skip
hardware_cost = scope.variable(
    "run.hardware_cost", "C_hw", "USD", "hardware of the run",
    equals=capex_rate * training.time_to_train, reference=by_definition("rate by time"),
)  # fmt: skip
total_cost = scope.variable(
    "run.total_cost", "C", "USD", "cost of the run",
    equals=hardware_cost + power_cost, reference=by_definition("sum of its parts"), target=True,
)  # fmt: skip
cost_per_token = scope.variable(
    "cost.per_token", "c_tok", "USD/token", "cost of training on one token",
    equals=total_cost / training.total_tokens, reference=by_definition("cost over tokens"), target=True,
)  # fmt: skip
cost_per_step = scope.variable(
    "cost.per_step", "c_step", "USD", "cost of one optimiser step",
    equals=total_cost / training.steps, reference=by_definition("cost over steps"), target=True,
)  # fmt: skip
energy_per_token = scope.variable(
    "energy.per_token", "e_tok", "J/token", "energy at the meter for one token", bounds=POSITIVE,
    equals=run_energy / training.total_tokens, reference=by_definition("energy over tokens"), target=True,
)  # fmt: skip
scope.inequality(
    "job.fits_site", training.gpus <= cluster.gpus, "the job holds no more GPUs than the site has",
    reference=by_definition(),
)  # fmt: skip
