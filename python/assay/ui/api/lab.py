"""`/lab`: the model as a tape, and the scenarios that the lab evaluates it at, in the browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import Response

from assay import stack
from assay.errors import AssayError, InputError
from assay.model.tapes.portable import graph_text
from assay.scenario import built_in, lab
from assay.ui import lab_model
from assay.ui.api.reports import REFUSALS, alone
from assay.ui.api.scenario import Scenario, ScenarioQuery

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


OFFERED: Final = (
    "models", "accelerators", "engines", "sites", "tariffs", "grids", "finance", "rents",
    "manufacturing", "supplies",
)  # fmt: skip
"""Groups of the catalog that the lab offers a choice of, in the order of the page."""


@router.get("/lab/graph")
def lab_graph() -> Response:
    """Every relation as a lowered formula: what `assay export --format tape` prints."""
    with alone():
        return _json(graph_text(stack.registry()))


@router.get("/lab/model")
def lab_model_facts() -> Response:
    """Variables, conditions and headings of the lab, and the order of the tape's inputs and outputs."""
    return _json(_model())


@router.get("/lab/tape")
def lab_tape() -> Response:
    """The model as a tape, and the WebAssembly module that evaluates it, both in base 64."""
    return _json(_tape())


@router.get("/lab/scenario")
def lab_scenario(scenario: ScenarioQuery) -> Response:
    """A scenario with its catalog entries and variants joined, every value in base units."""
    with alone():
        return _json(_compact(_scenario(scenario)))


def exported(presets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The answers that the page needs in an exported site, as JSON, by request.

    Of each scenario the site has what it becomes with each single entry that the page offers, as the
    difference from the scenario itself.
    """
    yield "lab/model", _model(tuple(presets))
    yield "lab/tape", _tape()
    for preset in presets:
        base = _scenario(Scenario(preset, (), (), ()))
        key = _key(preset)
        yield key, _compact(base)
        for path in (p for group in OFFERED for p, _ in lab.offered_entries()[group]):
            try:
                changed = _scenario(Scenario(preset, (path,), (), ()))
            except AssayError:
                # The page offers it and says, as here, that it cannot be included.
                continue
            yield _key(preset, path), _compact(_difference(changed, base, key))


def _key(preset: str, *paths: str) -> str:
    """The request of a scenario, as `keyOf` of the pages writes it."""
    return "lab/scenario?" + urlencode([("preset", preset), *(("with", path) for path in paths)])


def _difference(changed: dict[str, Any], base: dict[str, Any], key: str) -> dict[str, Any]:
    values, before = changed["values"], base["values"]
    return {
        **{name: part for name, part in changed.items() if part != base[name]},
        "base": key,
        "values": {name: value for name, value in values.items() if before.get(name) != value},
        "gone": [name for name in before if name not in values],
    }


def _scenario(asked: Scenario) -> dict[str, Any]:
    variants = {}
    for text in asked.variants:
        name, separator, relation = text.partition("=")
        if not separator:
            raise InputError(f'malformed variant "{text}": expected VARIABLE=RELATION')
        variants[name] = relation
    return lab.scenario_facts(
        lab.chosen_scenario(stack.registry(), asked.preset or "", asked.includes, variants)
    )


def outputs() -> list[dict[str, Any]]:
    """What the lab shows, by heading."""
    return [{"title": title, "variables": list(names)} for title, names in OUTPUTS]


@cache
def _model(presets: tuple[str, ...] = ()) -> str:
    registry = stack.registry()
    with alone():
        scenarios = [built_in.preset(name) for name in presets or built_in.presets()]
        facts = lab_model.model_facts(registry)
    entries = lab.offered_entries()
    return _compact(
        {
            **facts,
            "presets": [
                {
                    "name": preset.name,
                    "description": preset.description,
                    "targets": [name for _, name in preset.targets],
                }
                for preset in scenarios
            ],
            "groups": {group: entries[group] for group in OFFERED},
            "headings": outputs(),
            "layout": list(LAYOUT),
        }
    )


@cache
def _tape() -> str:
    with alone():
        tape = lab_model.model_tape(stack.registry()).tape.to_bytes()
    parts = {"machine": lab_model.MACHINE.read_bytes(), "tape": tape}
    return _compact({name: base64.b64encode(part).decode() for name, part in parts.items()})


def _compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _json(text: str) -> Response:
    return Response(text.encode(), media_type="application/json")
