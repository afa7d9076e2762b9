"""Intervals by derivatives are those that sampling the same distributions gives."""

from __future__ import annotations

import pytest

from assay.model.inputs import Inputs
from assay.model.language.distributions import Distribution
from assay.model.uncertainty.propagate import propagate
from assay.planner import BatchConfig, evaluation as e, hardware_spec, model_spec, predict_graph
from assay.planner.plan import plan_step
from assay.stack import registry


@pytest.mark.parametrize(
    ("name", "gpu", "batch"),
    [
        ("llama-3.1-8b", "h200", BatchConfig(sequences=64, context=208)),
        ("qwen3-30b-a3b", "a100", BatchConfig(sequences=4, context=3000, tensor=2)),
    ],
)
def test_ends_of_the_step(name: str, gpu: str, batch: BatchConfig) -> None:
    model, hardware = model_spec(name), hardware_spec(gpu)
    plan = plan_step(model, batch)
    given, _ = e.inputs(model, hardware, batch, plan)
    own = e.engine_constants("vllm")
    spreads = {**hardware.log_spreads, **own.log_spreads}
    distributions = {
        name: Distribution("lognormal", (given[name], spread))
        for name, spread in spreads.items()
        if spread and given.get(name)
    }
    correlations = {
        pair: value
        for pair, value in {**hardware.correlations, **own.correlations}.items()
        if all(one in distributions for one in pair)
    }
    inputs = Inputs(given, distributions, correlations)
    sample = propagate(registry(), "serving.step.wall_time", inputs, count=1024, replicates=1)
    lower, upper = sample.quantiles((0.05, 0.95))[0] * 1e9
    step = predict_graph(model, hardware, batch).totals["step"]
    assert step.lo == pytest.approx(lower, rel=0.05)
    assert step.hi == pytest.approx(upper, rel=0.05)
