"""A training run: its power, energy and cost, in total and per token."""

from __future__ import annotations

from assay.model import POSITIVE, by_definition, cited, number
from assay.stack import works
from assay.stack.cluster import nodes
from assay.stack.econ.rates import gpu_rate, rent
from assay.stack.econ.tariff import electricity_price, scope
from assay.stack.thermal import site
from assay.stack.training import job as training_job, run as training_run, step as training_step

_RENT = cited(works.DEEPSEEK_V3, "Table 1, rental price by GPU hour")
_ENERGY = cited(works.LLAMA, "sec. 6, energy of a run")
_RUN = cited("Cottier et al. 2024, The Rising Costs of Training Frontier AI Models", "amortized hardware and energy")

job_share = scope.declare(
    "job.share, s: share of the site's GPUs allocated to the job",
    bounds=(0, 1),
    equals=training_job.gpus / nodes.gpus,
    reference=by_definition("job's GPUs over the site's"),
)
job_power = scope.declare(
    "job.dc_power, P_job [W]: power at the meter attributed to the job",
    equals=job_share * site.site_power,
    reference=by_definition("in proportion to allocated GPUs"),
    target=True,
)
capex_rate = scope.declare(
    "capex.rate, c_hw [USD/s as USD/h]: cost of the job's hardware per time, owned or rented",
    equals=training_job.gpus * gpu_rate,
    reference=_RUN,
)
run_duration = scope.declare(
    "run.duration, T_run [s as day]: time for which GPUs are allocated to the run",
    equals=training_run.time_to_train / training_run.run_yield,
    reference=_RUN,
)
scope.approximation(
    run_duration,
    training_run.time_to_train,
    name="run.uninterrupted",
    valid=training_run.time_to_train >= number("0 s"),
    meaning="time of the steps only, without failures",
    reference=_RUN,
)
run_energy = scope.declare(
    "run.energy, E [J as kWh]: energy of the run at the meter", equals=job_power * run_duration, reference=_ENERGY
)
power_cost = scope.declare(
    "run.power_cost, C_el [USD]: electricity of the run",
    equals=run_energy * electricity_price,
    reference=_RUN,
    target=True,
)
hardware_cost = scope.declare(
    "run.hardware_cost, C_hw [USD]: hardware of the run", equals=capex_rate * run_duration, reference=_RUN
)
total_cost = scope.declare(
    "run.total_cost, C [USD]: cost of the run", equals=hardware_cost + power_cost, reference=_RUN, target=True
)
scope.approximation(
    total_cost,
    rent * training_job.gpus * run_duration,
    name="run.rented",
    valid=rent > number("0 USD/(s*GPU)"),
    meaning="rent that includes power: neither site nor power is needed",
    reference=_RENT,
)
cost_per_token = scope.declare(
    "cost.per_token, c_tok [USD/token]: cost per training token",
    equals=total_cost / training_run.total_tokens,
    reference=by_definition("cost over tokens"),
    target=True,
)
cost_per_step = scope.declare(
    "cost.per_step, c_step [USD]: cost of one optimizer step",
    equals=total_cost / training_run.steps,
    reference=by_definition("cost over steps"),
    target=True,
)
cost_per_operation = scope.declare(
    "cost.per_operation, c_F [USD/FLOP as USD/EFLOP]: cost of a run by its model FLOPs",
    equals=cost_per_step / training_step.flops_per_step,
    reference=by_definition("cost over FLOPs"),
    target=True,
)
energy_per_step = scope.declare(
    "energy.per_step, e_step [J as kWh]: energy of one optimizer step at the meter",
    equals=run_energy / training_run.steps,
    reference=by_definition("energy over steps"),
    target=True,
)
energy_per_token = scope.declare(
    "energy.per_token, e_tok [J/token]: energy at the meter per training token",
    bounds=POSITIVE,
    equals=run_energy / training_run.total_tokens,
    reference=by_definition("energy over tokens"),
    target=True,
)
scope.inequality(
    "job.fits_site",
    training_job.gpus <= nodes.gpus,
    "the job uses no more GPUs than the site has",
    reference=by_definition(),
)
