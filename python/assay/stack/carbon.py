"""Operational and embodied emissions and water of a run and of a deployment."""

from __future__ import annotations

from assay.model import Scope, cited
from assay.stack import cluster, econ, serving, thermal, training

scope = Scope("carbon", "Emissions and water of a run and of a deployment")

_SCOPE_2 = cited(
    "GHG Protocol Scope 2 Guidance, 2015", "ch. 6, location-based and market-based methods"
)
_RESIDUAL = cited(
    "GHG Protocol Scope 2 Guidance, 2015", "Table 6.3, market-based emission factor hierarchy"
)
_CUE = cited("ISO/IEC 30134-8:2022, Carbon usage effectiveness", "definition of CUE")
_LLAMA = cited(
    "Touvron et al. 2023, LLaMA: Open and Efficient Foundation Language Models",
    "sec. 6, carbon footprint",
)
_BLOOM = cited(
    "Luccioni, Viguier and Ligozat 2023, Estimating the Carbon Footprint of BLOOM, a 176B "
    "Parameter Language Model",
    "embodied emissions of the computing equipment",
)
_LLM = cited(
    "Faiz et al. 2024, LLMCarbon: Modeling the End-to-End Carbon Footprint of Large Language "
    "Models",
    "operational and embodied carbon",
)
_THIRST = cited(
    "Li et al. 2023, Making AI Less Thirsty: Uncovering and Addressing the Secret Water Footprint "
    "of AI Models",
    "on-site and off-site water",
)

grid_intensity = scope.variable(
    "grid.intensity", "I_grid", "kg/J", "carbon intensity of the grid, in CO2 equivalents",
    display="kg/kWh", reference=_SCOPE_2, boundary="scenario",
)  # fmt: skip
residual_intensity = scope.variable(
    "residual.intensity", "I_r", "kg/J",
    "carbon intensity of the residual mix: the grid's supply less what contracts claim",
    display="kg/kWh", reference=_RESIDUAL, boundary="scenario",
)  # fmt: skip
contracted_share = scope.variable(
    "contracted.share", "s_c", "1", "share of the energy covered by contracts with suppliers",
    display="%", bounds=(0, 1), reference=_SCOPE_2, boundary="scenario",
)  # fmt: skip
contracted_intensity = scope.variable(
    "contracted.intensity", "I_c", "kg/J", "carbon intensity of contracted supply",
    display="kg/kWh", reference=_SCOPE_2, boundary="scenario",
)  # fmt: skip
intensity = scope.variable(
    "intensity", "I", "kg/J", "carbon intensity under the chosen accounting method", display="kg/kWh",
    reference=_SCOPE_2,
)  # fmt: skip
scope.equation(
    intensity, grid_intensity, name="location_based",
    meaning="the grid's average, whatever is contracted", reference=_SCOPE_2,
)  # fmt: skip
scope.approximation(
    intensity, contracted_share * contracted_intensity + (1 - contracted_share) * residual_intensity,
    name="market_based", valid=contracted_share <= 1,
    meaning="contracts first, then the residual mix", reference=_RESIDUAL,
)  # fmt: skip
# Where nobody publishes a residual mix the guidance lets the grid's average stand in, and asks to
# say so: choosing this relation says it. It counts energy twice that others have contracted.
scope.approximation(
    intensity, contracted_share * contracted_intensity + (1 - contracted_share) * grid_intensity,
    name="market_based_without_residual_mix", valid=contracted_share <= 1,
    meaning="contracts first, then the grid's average for want of a residual mix",
    reference=_RESIDUAL,
)  # fmt: skip
cue = scope.variable(
    "cue", "CUE", "kg/J", "carbon usage effectiveness: site emissions over IT energy",
    display="kg/kWh", equals=intensity * thermal.pue, reference=_CUE, target=True,
)  # fmt: skip

gpu_embodied = scope.variable(
    "gpu.embodied", "m_GPU", "kg/GPU", "embodied emissions of one GPU",
    reference=_BLOOM, boundary="primitive",
)  # fmt: skip
node_embodied = scope.variable(
    "node.embodied", "m_node", "kg/node", "embodied emissions of a node without its GPUs",
    reference=_BLOOM, boundary="primitive",
)  # fmt: skip
site_embodied = scope.variable(
    "site.embodied", "m_site", "kg/W", "embodied emissions of the site per design power",
    reference=_LLM, boundary="primitive",
)  # fmt: skip
embodied_rate = scope.variable(
    "embodied.rate", "g_emb", "kg/(s*GPU)",
    "embodied emissions of one GPU and its share of the site, per time allocated",
    display="kg/(h*GPU)",
    equals=(
        (gpu_embodied + node_embodied / cluster.node_gpus) / econ.machine_lifetime
        + site_embodied * cluster.design_power / cluster.gpus / econ.site_lifetime
    )
    / econ.utilisation,
    reference=_BLOOM,
)  # fmt: skip

run_operational = scope.variable(
    "run.operational", "G_op", "kg", "emissions of the run's electricity", display="t",
    equals=econ.run_energy * intensity, reference=_LLAMA, target=True,
)  # fmt: skip
run_embodied = scope.variable(
    "run.embodied", "G_emb", "kg", "embodied emissions attributed to the run",
    display="t", equals=embodied_rate * training.gpus * econ.run_duration, reference=_BLOOM,
)  # fmt: skip
run_total = scope.variable(
    "run.total", "G", "kg", "emissions of the run", display="t",
    equals=run_operational + run_embodied, reference=_LLM, target=True,
)  # fmt: skip
per_token = scope.variable(
    "per_token", "g_tok", "kg/token", "emissions per training token", display="ug/token",
    equals=run_total / training.total_tokens, reference=_LLM, target=True,
)  # fmt: skip
serving_rate = scope.variable(
    "serving.rate", "g_s", "kg/s", "emissions of the deployment by time", display="kg/h",
    equals=econ.serving_power * intensity + embodied_rate * serving.latency.gpus, reference=_LLM,
)  # fmt: skip
per_output_token = scope.variable(
    "per_output_token", "g_out", "kg/token", "emissions per output token", display="ug/token",
    equals=serving_rate / (serving.latency.throughput * econ.serving_load), reference=_LLM,
    target=True,
)  # fmt: skip

grid_water = scope.variable(
    "grid.water", "w_grid", "m^3/J", "water intensity of grid electricity",
    display="L/kWh", reference=_THIRST, boundary="scenario",
)  # fmt: skip
water_by_energy = scope.variable(
    "water.by_energy", "w_E", "m^3/J", "water on site and off site over IT energy",
    display="L/kWh", equals=thermal.wue + thermal.pue * grid_water, reference=_THIRST,
)  # fmt: skip
run_water = scope.variable(
    "run.water", "V_run", "m^3", "water of the run, on site and off site",
    equals=econ.run_energy / thermal.pue * water_by_energy, reference=_THIRST, target=True,
)  # fmt: skip
water_per_output_token = scope.variable(
    "water.per_output_token", "v_out", "m^3/token", "water per output token",
    display="mL/token",
    equals=econ.energy_per_output_token / thermal.pue * water_by_energy, reference=_THIRST,
    target=True,
)  # fmt: skip
