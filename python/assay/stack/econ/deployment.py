"""A deployment: its power and cost, in total and per output token."""

from __future__ import annotations

from assay.model import by_definition, cited, minimum, number
from assay.stack import interconnect, serving, works
from assay.stack.cluster import nodes
from assay.stack.econ.rates import gpu_rate, rent
from assay.stack.econ.tariff import electricity_price, scope
from assay.stack.gpu import power as gpu_power
from assay.stack.serving import deployment, loads, memory
from assay.stack.thermal import site

_SERVING = cited(
    "DeepSeek-AI 2025, DeepSeek-V3/R1 Inference System Overview", "cost of a day by nodes, GPUs and rental price"
)

_PHASES = cited(works.SPLITWISE, "sec. 3, time of the prompt phase and of the token phase")
_CACHED = cited(
    "Qin et al. 2024, Mooncake: A KVCache-centric Disaggregated Architecture for LLM Serving",
    "sec. 4, loading of cached keys and values instead of prefill",
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
cost_per_request = scope.declare(
    "cost.per_request, c_req [USD/request]: cost of a request, its prompt and its answer",
    equals=cost_per_output_token * deployment.output / deployment.ONE_REQUEST,
    reference=by_definition("output tokens of a request by the cost of each"),
    target=True,
)
# Prompt and answer share a server: each carries the GPU time that it would take without the other.
_prompt_time = deployment.prompt / serving.latency.prompt_throughput
_answer_time = deployment.output * loads.decode.time / (deployment.ONE_TOKEN * deployment.pipeline * loads.decoding)
prompt_cost_share = scope.declare(
    "cost.prompt_share, s_in [1 as %]: share of a request's cost that its prompt carries",
    bounds=(0, 1),
    equals=_prompt_time / (_prompt_time + _answer_time),
    reference=_PHASES,
)
cost_per_input_token = scope.declare(
    "cost.per_input_token, c_in [USD/token]: cost per input token that is not cached",
    equals=cost_per_request * deployment.ONE_REQUEST * prompt_cost_share / deployment.prompt,
    reference=_PHASES,
    target=True,
)
cost_per_generated_token = scope.declare(
    "cost.per_generated_token, c_gen [USD/token]: cost per output token where input tokens carry their own",
    equals=cost_per_request * deployment.ONE_REQUEST * (1 - prompt_cost_share) / deployment.output,
    reference=_PHASES,
    target=True,
)
_loading_time = memory.token_memory / (interconnect.nic_rate * deployment.attention_ranks * deployment.pipeline)
cost_per_cached_token = scope.declare(
    "cost.per_cached_token, c_hit [USD/token]: cost per input token whose keys and values come over the network "
    "from a cache; less where they are still in the GPU's memory",
    equals=serving_rate
    * deployment.instance_gpus
    / serving.latency.gpus
    * minimum(_loading_time, 1 / serving.latency.prompt_throughput)
    / serving_load,
    reference=_CACHED,
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
