"""A deployment: its power and cost, in total and per output token."""

from __future__ import annotations

from assay.model import by_definition, cited, number
from assay.stack import serving, works
from assay.stack.cluster import nodes
from assay.stack.econ.rates import gpu_rate, rent
from assay.stack.econ.tariff import electricity_price, scope
from assay.stack.gpu import power as gpu_power
from assay.stack.thermal import site

_SERVING = cited(
    "DeepSeek-AI 2025, DeepSeek-V3/R1 Inference System Overview", "cost of a day by nodes, GPUs and rental price"
)

_UTILIZATION = cited(works.POWER_PROVISIONING, "power as a straight line in utilization")

serving_load = scope.declare(
    "serving.load, u_s [1 as %]: demanded tokens over capacity: the share of time at full concurrency, idle for "
    "the rest",
    bounds=(0, 1),
    reference=_SERVING,
    boundary="scenario",
)
scope.approximation(
    gpu_power.duty,
    serving_load * serving.power.duty,
    name="serving.duty",
    valid=serving_load >= 0,
    meaning="busy share of a deployment that is idle without demand",
    reference=_UTILIZATION,
)
serving_power = scope.declare(
    "serving.dc_power, P_s [W]: power at the meter attributed to the deployment",
    equals=serving.latency.gpus / nodes.gpus * site.site_power,
    reference=by_definition("in proportion to allocated GPUs"),
    target=True,
)
serving_rate = scope.declare(
    "serving.rate, c_s [USD/s as USD/day]: cost of the deployment",
    equals=serving.latency.gpus * gpu_rate + serving_power * electricity_price,
    reference=_SERVING,
    target=True,
)
scope.approximation(
    serving_rate,
    rent * serving.latency.gpus,
    name="serving.rented",
    valid=rent > number("0 USD/(s*GPU)"),
    meaning="rent that includes power",
    reference=_SERVING,
)
cost_per_output_token = scope.declare(
    "cost.per_output_token, c_out [USD/token]: cost per output token",
    equals=serving_rate / (serving.latency.throughput * serving_load),
    reference=_SERVING,
    target=True,
)
energy_per_output_token = scope.declare(
    "energy.per_output_token, e_out [J/token]: energy at the meter per output token",
    equals=serving_power / (serving.latency.throughput * serving_load),
    reference=by_definition("power over rate"),
    target=True,
)
step_cost_per_token = scope.declare(
    "step.cost_per_token, c_s [USD/token]: rent of the GPUs per output token of a decode step",
    equals=rent * serving.step.gpus / serving.step.tokens_per_second,
    reference=_SERVING,
    target=True,
)
scope.inequality(
    "serving.fits_site",
    serving.latency.gpus <= nodes.gpus,
    "the deployment uses no more GPUs than the site has",
    reference=by_definition(),
)
