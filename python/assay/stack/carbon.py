"""Operational and embodied emissions and water of a run and of a deployment."""

from __future__ import annotations

from assay.model import Scope, cited
from assay.stack import serving, works
from assay.stack.cluster import nodes, power as cluster_power
from assay.stack.econ import capital, deployment as econ_deployment, rates as econ_rates, run as econ_run
from assay.stack.manufacturing import footprint
from assay.stack.thermal import site, water
from assay.stack.training import job as training_job, run as training_run

scope = Scope("carbon", "Emissions and water of a run and of a deployment")

_SCOPE_2 = cited(works.GHG_SCOPE_2, "ch. 6, location-based and market-based methods")
_RESIDUAL = cited(works.GHG_SCOPE_2, "Table 6.3, market-based emission factor hierarchy")
_CUE = cited("ISO/IEC 30134-8:2022, Carbon usage effectiveness", "definition of CUE")
_LLAMA = cited(works.LLAMA, "sec. 6, carbon footprint")
_BLOOM = cited(
    "Luccioni, Viguier and Ligozat 2023, Estimating the Carbon Footprint of BLOOM, a 176B Parameter Language Model",
    "embodied emissions of the computing equipment",
)
_LLM = cited(
    "Faiz et al. 2024, LLMCarbon: Modeling the End-to-End Carbon Footprint of Large Language Models",
    "operational and embodied carbon",
)
_THIRST = cited(
    "Li et al. 2023, Making AI Less Thirsty: Uncovering and Addressing the Secret Water Footprint of AI Models",
    "on-site and off-site water",
)

grid_intensity = scope.declare(
    "grid.intensity, I_grid [kg/J as kg/kWh]: carbon intensity of the grid, in CO2 equivalents",
    reference=_SCOPE_2,
    boundary="scenario",
)
residual_intensity = scope.declare(
    "residual.intensity, I_r [kg/J as kg/kWh]: carbon intensity of the residual mix: the grid's supply less "
    "what contracts claim",
    reference=_RESIDUAL,
    boundary="scenario",
)
contracted_share = scope.declare(
    "contracted.share, s_c [1 as %]: share of the energy covered by contracts with suppliers",
    bounds=(0, 1),
    reference=_SCOPE_2,
    boundary="scenario",
)
contracted_intensity = scope.declare(
    "contracted.intensity, I_c [kg/J as kg/kWh]: carbon intensity of contracted supply",
    reference=_SCOPE_2,
    boundary="scenario",
)
intensity = scope.declare(
    "intensity, I [kg/J as kg/kWh]: carbon intensity under the chosen accounting method", reference=_SCOPE_2
)
scope.equation(
    intensity,
    grid_intensity,
    name="location_based",
    meaning="the grid's average, whatever is contracted",
    reference=_SCOPE_2,
)
scope.approximation(
    intensity,
    contracted_share * contracted_intensity + (1 - contracted_share) * residual_intensity,
    name="market_based",
    valid=contracted_share <= 1,
    meaning="contracts first, then the residual mix",
    reference=_RESIDUAL,
)
# Where nobody publishes a residual mix the guidance lets the grid's average stand in, and asks to
# say so: choosing this relation says it. It counts energy twice that others have contracted.
scope.approximation(
    intensity,
    contracted_share * contracted_intensity + (1 - contracted_share) * grid_intensity,
    name="market_based_without_residual_mix",
    valid=contracted_share <= 1,
    meaning="contracts first, then the grid's average for want of a residual mix",
    reference=_RESIDUAL,
)
cue = scope.declare(
    "cue, CUE [kg/J as kg/kWh]: carbon usage effectiveness: site emissions over IT energy",
    equals=intensity * site.pue,
    reference=_CUE,
    target=True,
)

gpu_embodied = scope.declare(
    "gpu.embodied, m_GPU [kg/GPU]: embodied emissions of one GPU", reference=_BLOOM, boundary="primitive"
)
scope.equation(
    gpu_embodied,
    footprint.gpu,
    name="gpu.embodied_by_area",
    meaning="what fabs emit for dies, memory and package, by area of silicon",
    reference=cited(footprint.ACT, "embodied carbon as a sum over components"),
)
node_embodied = scope.declare(
    "node.embodied, m_node [kg/node]: embodied emissions of a node without its GPUs",
    reference=_BLOOM,
    boundary="primitive",
)
site_embodied = scope.declare(
    "site.embodied, m_site [kg/W]: embodied emissions of the site per design power",
    reference=_LLM,
    boundary="primitive",
)
embodied_rate = scope.declare(
    "embodied.rate, g_emb [kg/(s*GPU) as kg/(h*GPU)]: embodied emissions of one GPU and its share of the site, "
    "per time allocated",
    equals=(
        (gpu_embodied + node_embodied / nodes.node_gpus) / capital.machine_lifetime
        + site_embodied * cluster_power.design_power / nodes.gpus / capital.site_lifetime
    )
    / econ_rates.utilisation,
    reference=_BLOOM,
)

run_operational = scope.declare(
    "run.operational, G_op [kg as t]: emissions of the run's electricity",
    equals=econ_run.run_energy * intensity,
    reference=_LLAMA,
    target=True,
)
run_embodied = scope.declare(
    "run.embodied, G_emb [kg as t]: embodied emissions attributed to the run",
    equals=embodied_rate * training_job.gpus * econ_run.run_duration,
    reference=_BLOOM,
)
run_total = scope.declare(
    "run.total, G [kg as t]: emissions of the run", equals=run_operational + run_embodied, reference=_LLM, target=True
)
per_token = scope.declare(
    "per_token, g_tok [kg/token as ug/token]: emissions per training token",
    equals=run_total / training_run.total_tokens,
    reference=_LLM,
    target=True,
)
serving_rate = scope.declare(
    "serving.rate, g_s [kg/s as kg/h]: emissions of the deployment by time",
    equals=econ_deployment.serving_power * intensity + embodied_rate * serving.latency.gpus,
    reference=_LLM,
)
per_output_token = scope.declare(
    "per_output_token, g_out [kg/token as ug/token]: emissions per output token",
    equals=serving_rate / (serving.latency.throughput * econ_deployment.serving_load),
    reference=_LLM,
    target=True,
)

grid_water = scope.declare(
    "grid.water, w_grid [m^3/J as L/kWh]: water intensity of grid electricity", reference=_THIRST, boundary="scenario"
)
water_by_energy = scope.declare(
    "water.by_energy, w_E [m^3/J as L/kWh]: water on site and off site over IT energy",
    equals=water.wue + site.pue * grid_water,
    reference=_THIRST,
)
run_water = scope.declare(
    "run.water, V_run [m^3]: water of the run, on site and off site",
    equals=econ_run.run_energy / site.pue * water_by_energy,
    reference=_THIRST,
    target=True,
)
water_per_output_token = scope.declare(
    "water.per_output_token, v_out [m^3/token as mL/token]: water per output token",
    equals=econ_deployment.energy_per_output_token / site.pue * water_by_energy,
    reference=_THIRST,
    target=True,
)
