"""The scanner: dose, time of a wafer, and what a layer costs in time, tin and money."""

from __future__ import annotations

import math

from assay.model import POSITIVE, by_definition, cited
from assay.stack.econ import capital, rates as econ_rates
from assay.stack.lithography.optics import transmission
from assay.stack.lithography.source import droplet_mass, droplet_rate, power, scope
from assay.stack.manufacturing import packages, wafers
from assay.stack.training import job as training_job, run as training_run

_THROUGHPUT = cited(
    "Mack 2007, Fundamental Principles of Optical Lithography", "ch. 1, throughput of step-and-scan tools"
)
_COST = cited("Mack 2007, Fundamental Principles of Optical Lithography", "cost of ownership of lithography")
_COUNT = by_definition("droplets by time and time by wafer")

dose = scope.declare(
    "dose, D [J/m^2 as mJ/cm^2]: light by area that the resist needs",
    bounds=POSITIVE,
    reference=_THROUGHPUT,
    boundary="primitive",
)
wafer_energy = scope.declare(
    "wafer.energy, E_w [J]: light that a layer of a wafer takes",
    equals=dose * math.pi * wafers.diameter**2 / 4,
    reference=_THROUGHPUT,
    target=True,
)
exposure_time = scope.declare(
    "wafer.exposure_time, t_e [s]: time in which that light arrives",
    equals=wafer_energy / (power * transmission),
    reference=_THROUGHPUT,
)
overhead_time = scope.declare(
    "wafer.overhead_time, t_o [s]: time of a wafer besides its exposure: stages, alignment, exchange",
    reference=_THROUGHPUT,
    boundary="primitive",
)
wafer_time = scope.declare(
    "wafer.time, t_w [s]: time of a layer of a wafer in the scanner",
    equals=exposure_time + overhead_time,
    bounds=POSITIVE,
    reference=_THROUGHPUT,
    target=True,
)
layers = scope.declare(
    "euv_layers, n_E: layers of the process that are printed by extreme ultraviolet light",
    reference=_THROUGHPUT,
    boundary="primitive",
)
# Tin.
wafer_droplets = scope.declare(
    "wafer.droplets, N_w: droplets shot while a layer of a wafer is printed",
    equals=droplet_rate * wafer_time,
    reference=_COUNT,
    target=True,
)
gpu_droplets = scope.declare(
    "gpu.droplets, N_GPU [1/GPU]: droplets shot for the compute dies of a GPU",
    equals=wafer_droplets * layers * packages.dies / (wafers.good_dies * packages.package_yield),
    reference=_COUNT,
    target=True,
)
gpu_tin = scope.declare(
    "gpu.tin, m_Sn [kg/GPU as mg/GPU]: tin shot for the compute dies of a GPU",
    equals=gpu_droplets * droplet_mass,
    reference=_COUNT,
    target=True,
)
token_droplets = scope.declare(
    "token.droplets, N_tok [1/token]: droplets shot for a GPU, over the training tokens of its life",
    equals=gpu_droplets
    * training_job.gpus
    / (training_run.tokens_per_second * capital.machine_lifetime * econ_rates.utilisation),
    reference=_COUNT,
    target=True,
)
# Money.
tool_price = scope.declare("tool.price, c_T [USD]: price of a scanner", reference=_COST, boundary="scenario")
tool_lifetime = scope.declare(
    "tool.lifetime, t_T [s as year]: time in which a scanner is written off", bounds=POSITIVE, reference=_COST,
    boundary="scenario",
)  # fmt: skip
tool_uptime = scope.declare(
    "tool.uptime, u_T [1 as %]: share of time in which a scanner prints",
    bounds=("positive", 1),
    reference=_COST,
    boundary="scenario",
)
tool_rate = scope.declare(
    "tool.rate, r_T [1/s as 1/month]: layers of wafers that a scanner prints, by time",
    equals=tool_uptime / wafer_time,
    reference=_THROUGHPUT,
    target=True,
)
pass_price = scope.declare(
    "pass.price, c_P [USD]: price of printing a layer of a wafer: the scanner's share of its price",
    equals=tool_price / (tool_lifetime * tool_rate),
    reference=_COST,
    target=True,
)
other_price = scope.declare(
    "wafer.other_price, c_o [USD]: price of a processed wafer without its extreme-ultraviolet exposures",
    reference=_COST,
    boundary="scenario",
)
scope.equation(
    wafers.wafer_price,
    other_price + layers * pass_price,
    name="wafer_price",
    meaning="exposures by extreme ultraviolet light, and the rest",
    reference=_COST,
)
