"""`/lab`: the graph and the scenarios that the lab evaluates in the browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from assay import stack
from assay.model.tapes.portable import graph_text
from assay.scenario.portable import portable_scenarios
from assay.ui.api.reports import REFUSALS, alone

router = APIRouter(tags=["lab"], responses=REFUSALS)

OUTPUTS: Final = (
    ("Cost", ("econ.cost.per_output_token", "econ.serving.rate", "econ.cost.per_token",
              "econ.run.total_cost", "econ.run.power_cost")),
    ("Throughput", ("serving.throughput", "serving.throughput_per_gpu", "serving.goodput",
                    "training.tokens_per_second")),
    ("Latency", ("serving.time_per_output_token", "serving.time_to_first_token",
                 "serving.end_to_end_time", "training.step_time", "training.time_to_train")),
    ("Power", ("econ.serving.dc_power", "econ.job.dc_power", "gpu.power.busy",
               "econ.energy.per_output_token", "econ.energy.per_token", "thermal.dc.pue")),
    ("Emissions", ("carbon.per_output_token", "carbon.water.per_output_token", "carbon.per_token",
                   "carbon.run.total")),
    ("Memory", ("serving.requests_that_fit", "serving.cache_memory", "parallelism.memory.total",
                "gpu.memory.capacity")),
    ("Manufacturing limits", ("manufacturing.gpu.cost", "econ.gpu.cost_share",
                              "manufacturing.die.cost", "manufacturing.die.yield",
                              "manufacturing.wafer.good_dies", "manufacturing.die.reticle_share",
                              "manufacturing.die.density",
                              "manufacturing.interposer.area", "manufacturing.packaging.gpu_rate",
                              "manufacturing.gpu.rate", "cluster.delivery_time")),
    ("Hardware limits", ("gpu.peak_flops", "gpu.throttle", "gpu.temperature", "gpu.power.limit")),
    ("Utilization", ("training.mfu", "training.hfu", "serving.peak_use", "serving.memory_use",
                     "training.memory_utilisation")),
)  # fmt: skip
"""What the lab shows of a scenario, by heading; what has no value there is left to the inputs."""

LAYOUT: Final = (
    "training.gpus", "parallelism.tensor", "parallelism.pipeline", "parallelism.context",
    "parallelism.expert", "parallelism.micro_batch", "parallelism.zero_stage", "serving.tensor",
    "serving.pipeline", "serving.expert", "serving.attention_replicas",
)  # fmt: skip
"""Counts that place a model on GPUs."""


@router.get("/lab/graph")
def lab_graph() -> Response:
    """Every relation as a lowered formula: what `assay export --format tape` prints."""
    return _json(_graph())


@router.get("/lab/scenarios")
def lab_scenarios() -> Response:
    """The built-in scenarios, the entries of the catalog, and what the lab shows of them."""
    return _json(_scenarios())


def exported() -> Iterator[tuple[str, str]]:
    """The answers that the page needs in an exported site, as JSON, by request."""
    yield "lab/graph", _graph()
    yield "lab/scenarios", _scenarios()


def outputs() -> list[dict[str, Any]]:
    """What the lab shows, by heading."""
    return [{"title": title, "variables": list(names)} for title, names in OUTPUTS]


@cache
def _graph() -> str:
    with alone():
        return graph_text(stack.registry())


@cache
def _scenarios() -> str:
    with alone():
        data = portable_scenarios(stack.registry())
    return json.dumps({**data, "outputs": outputs(), "layout": list(LAYOUT)}, separators=(",", ":"))


def _json(text: str) -> Response:
    return Response(text.encode(), media_type="application/json")
