"""Couplings between layers: elasticities of variables to choices in other layers.

Elasticities (relative change of the result over that of the input) are taken over a step of
20 %, so that tiles and waves, which move in jumps, do not hide the trend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from assay import stack
from assay.model.inputs import read_inputs
from assay.model.tapes.compile import Compiled
from assay.scenario import built_in

STEP = 1.2


@dataclass(frozen=True)
class Scenario:
    """A scenario as one tape: choices in, results out."""

    compiled: Compiled
    start: dict[str, float]

    def elasticity(self, cause: str, effect: str, **changes: float) -> float:
        point = {**self.start, **{name.replace("__", "."): v for name, v in changes.items()}}
        around = point[cause] * np.array([STEP**-0.5, STEP**0.5])
        low, high = self.compiled({**point, cause: around})[self.compiled.outputs.index(effect)]
        return math.log(high / low) / math.log(STEP)


def read_scenario(name: str, causes: list[str], effects: list[str]) -> Scenario:
    preset, registry = built_in.preset(name), stack.registry()
    values = read_inputs(registry, preset.given).values
    start = {cause: values[cause] for cause in dict.fromkeys(causes)}
    rest = {key: value for key, value in values.items() if key not in start}
    compiled = registry.compile(list(start), list(dict.fromkeys(effects)), rest, preset.variants)
    return Scenario(compiled, start)


TENSOR = {"parallelism__tensor": 8.0}

# The width of the residual stream, at fixed heads: matrices have it once, activations too.
OF_WIDTH: list[tuple[str, dict[str, float], tuple[float, float]]] = [
    ("architecture.parameters", {}, (0.9, 1.1)),
    ("parallelism.memory.weights", {}, (0.9, 1.1)),
    ("parallelism.memory.optimizer", {}, (0.9, 1.1)),
    ("parallelism.memory.activations", {}, (0.1, 1.1)),
    ("training.tensor.time", TENSOR, (0.5, 1.1)),
    ("training.flops_per_step", {}, (0.6, 1.1)),
    ("training.step_time", {}, (0.5, 1.1)),
    ("training.time_to_train", {}, (0.5, 1.1)),
    ("cluster.checkpoint.size", {}, (0.9, 1.1)),
    ("econ.run.energy", {}, (0.5, 1.1)),
    ("econ.cost.per_token", {}, (0.5, 1.1)),
    ("carbon.per_token", {}, (0.5, 1.1)),
]


OTHERS = [
    # Keys and values: heads by size by layers.
    ("architecture.kv_heads", "architecture.kv.elements_per_token", (0.99, 1.01)),
    ("architecture.layers", "architecture.kv.elements_per_token", (0.99, 1.01)),
    # Faster parts, shorter steps; less than in proportion, since something else then bounds.
    ("gpu.flops_per_cycle", "training.step_time", (-1.0, -0.2)),
    ("hbm.pin_rate", "training.step_time", (-0.5, -0.01)),
    # More interruptions, more allocated time and cost.
    ("cluster.failures.gpu_rate", "econ.run.duration", (1e-5, 0.2)),
    ("cluster.failures.gpu_rate", "econ.cost.per_token", (1e-5, 0.2)),
    # Cost inputs of the site.
    ("gpu.coolant_temperature", "gpu.temperature", (0.2, 2.0)),
    ("econ.electricity.energy_price", "econ.cost.per_token", (0.01, 0.3)),
    ("econ.gpu.price", "econ.cost.per_token", (0.2, 0.9)),
    ("econ.machines.lifetime", "econ.cost.per_token", (-0.9, -0.2)),
    ("econ.interest", "econ.cost.per_token", (0.01, 0.4)),
    ("carbon.grid.intensity", "carbon.per_token", (0.3, 1.0)),
    ("cluster.nodes", "cluster.it_power", (0.9, 1.1)),
]


@pytest.fixture(scope="module")
def training() -> Scenario:
    causes = ["architecture.hidden", "parallelism.tensor", *(row[0] for row in OTHERS)]
    effects = [*(row[0] for row in OF_WIDTH), *(row[1] for row in OTHERS)]
    return read_scenario("llama3_8b_8_h100_training", causes, effects)


@pytest.mark.parametrize(
    ("effect", "changes", "within"), OF_WIDTH, ids=[row[0] for row in OF_WIDTH]
)
def test_hidden_size_scales_dependent_variables(
    training: Scenario, effect: str, changes: dict[str, float], within: tuple[float, float]
) -> None:
    found = training.elasticity("architecture.hidden", effect, **changes)
    assert within[0] <= found <= within[1]


@pytest.mark.parametrize(("cause", "effect", "within"), OTHERS)
def test_scenario_choices_scale_dependent_variables(
    training: Scenario, cause: str, effect: str, within: tuple[float, float]
) -> None:
    assert within[0] <= training.elasticity(cause, effect) <= within[1]


# Serving: elasticities of latency, KV capacity and cost per token.
OF_SERVING = [
    ("architecture.hidden", "serving.time_per_output_token", (0.2, 1.1)),
    ("architecture.hidden", "serving.time_to_first_token", (0.2, 1.2)),
    ("architecture.hidden", "econ.cost.per_output_token", (0.2, 1.1)),
    ("architecture.kv_heads", "serving.kv.capacity", (-1.1, -0.5)),
    ("architecture.kv_heads", "serving.time_per_output_token", (0.02, 0.6)),
    ("hbm.pin_rate", "serving.time_per_output_token", (-1.0, -0.1)),
    ("hbm.pin_rate", "econ.cost.per_output_token", (-1.0, -0.1)),
    ("gpu.flops_per_cycle", "serving.time_to_first_token", (-1.0, -0.1)),
    ("serving.concurrency", "serving.throughput", (0.1, 1.0)),
    ("serving.concurrency", "econ.cost.per_output_token", (-1.0, -0.1)),
    ("serving.prompt", "serving.time_per_output_token", (0.02, 0.9)),
    ("econ.electricity.energy_price", "econ.cost.per_output_token", (0.01, 0.3)),
    ("carbon.grid.intensity", "carbon.per_output_token", (0.3, 1.0)),
]


@pytest.fixture(scope="module")
def deployment() -> Scenario:
    causes, effects = [row[0] for row in OF_SERVING], [row[1] for row in OF_SERVING]
    return read_scenario("llama3_8b_h200_serving", causes, effects)


@pytest.mark.parametrize(("cause", "effect", "within"), OF_SERVING)
def test_deployment_choices_scale_dependent_variables(
    deployment: Scenario, cause: str, effect: str, within: tuple[float, float]
) -> None:
    assert within[0] <= deployment.elasticity(cause, effect) <= within[1]
