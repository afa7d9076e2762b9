"""The interval that `validate` scores is the one that `resolve` prints."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from assay import stack
from assay.model import Registry
from assay.model.inputs import Inputs
from assay.model.uncertainty.propagate import propagate
from assay.scenario import built_in
from assay.validate import intervals
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.score import Row
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import deployment_of
from assay.validate.training import evaluation, predict as training
from assay.validate.training.jobs import read_job

TRAINING = ("megatron2021-t1-145B", "dgxc-llama3.1-70b-bf16-512", "llama3-405b-t4-16384-cp1",
            "mosaic-h100_80gb_bf16-7b-s2048-n8-amp_bf16-mbs8")  # fmt: skip
TAILS = (0.05, 0.95)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return stack.registry()


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return read_cases(published_cases())


def training_rows(cases: list[Case]) -> list[tuple[Row, Inputs]]:
    """Rows of step times, and the inputs of each as `resolve` takes them."""
    chosen = [case for case in cases if case.id in TRAINING]
    assert len(chosen) >= 3
    every = [case for case in cases if case.kind == "training"]
    found = []
    for case in chosen:
        (predicted,) = evaluation.predict_jobs([read_job(case, every)])
        (row,) = [r for r in training.predict([case]) if r.quantity == "step_time"]
        found.append((row, evaluation.inputs_at(predicted.job, predicted.layout)))
    return found


def test_step_time_has_one_interval(registry: Registry, cases: list[Case]) -> None:
    for row, inputs in training_rows(cases):
        sample = propagate(registry, "training.step_time", inputs, count=256, replicates=1)
        exact = sample.quantiles(TAILS)[0]
        assert [row.lo, row.hi] == pytest.approx(list(exact), rel=1e-9)
        resolved = registry.resolve("training.step_time", inputs)
        assert resolved.value == pytest.approx(row.predicted, rel=1e-9)
        assert row.lo is not None
        assert row.hi is not None
        width = resolved.upper - resolved.lower
        assert abs(row.lo - resolved.lower) < 0.08 * width
        assert abs(row.hi - resolved.upper) < 0.08 * width


def test_served_latencies_have_one_interval(registry: Registry, cases: list[Case]) -> None:
    chosen = [case for case in cases if case.kind == "inference" and "ttft_ms" in case.observed]
    case = chosen[0]
    deployment = deployment_of(case)
    rows = {row.quantity: row for row in serving.predict([case])}
    for quantity, name in (("ttft_ms", "time_to_first_token"), ("tpot_ms", "step_time")):
        inputs = serving.inputs_at(deployment, name in serving.PROMPT_FIGURES)
        sample = propagate(registry, f"serving.{name}", inputs, count=256, replicates=1)
        exact = 1e3 * sample.quantiles(TAILS)[0]
        assert [rows[quantity].lo, rows[quantity].hi] == pytest.approx(list(exact), rel=1e-3)


def test_model_error_widens_the_interval(registry: Registry, cases: list[Case]) -> None:
    (_, inputs), *_ = training_rows(cases)
    name = "training.model_error.fit"
    assert inputs.distributions[name].parameters[0] == 1.0
    certain = {n: d for n, d in inputs.distributions.items() if n != name}
    both, constants = (
        intervals.intervals([one], ["training.step_time"])[0, 0]
        for one in (inputs, replace(inputs, distributions=certain))
    )
    spread = inputs.distributions[name].parameters[1]
    wide, narrow = (math.log(ends[1] / ends[0]) / (2 * 1.645) for ends in (both, constants))
    assert wide == pytest.approx(math.hypot(narrow, spread), rel=0.1)
    assert wide > 1.2 * narrow


def test_covariance_of_fitted_constants_is_sampled(registry: Registry, cases: list[Case]) -> None:
    (_, inputs), *_ = training_rows(cases)
    names = [n for n in inputs.distributions if n.startswith(("training.", "software."))]
    pairs = [pair for pair in inputs.correlations if set(pair) <= set(names)]
    assert len(pairs) > 20
    strongest = max(pairs, key=lambda pair: abs(inputs.correlations[pair]))
    sample = propagate(registry, strongest, inputs, count=1024, replicates=1).samples
    found = np.corrcoef(np.log(sample))[0, 1]
    assert found == pytest.approx(inputs.correlations[strongest], abs=0.06)


def test_accelerators_that_no_fit_has_seen_have_wider_intervals(registry: Registry) -> None:
    case = Case(
        "new-8b", "training",
        {"model": "llama-3.1-8b", "n_gpus": 64, "seq_len": 8192, "tp": 1, "pp": 1,
         "micro_batch": 1, "global_batch": 128, "precision": "bf16"},
        {"step_time_s": 1.0}, {"title": "A report of May 2025"},
    )  # fmt: skip
    width = {}
    for gpu in ("H100-SXM-80GB", "L40S", "MI300X"):
        (row,) = training.predict([replace(case, inputs={**case.inputs, "gpu": gpu})])
        width[gpu] = math.log((row.hi or 0.0) / (row.lo or 1.0))
        assert any("no fit of" in note for note in row.notes) == ("H100" not in gpu)
    assert width["L40S"] > 1.25 * width["H100-SXM-80GB"]
    assert width["MI300X"] > 1.25 * width["H100-SXM-80GB"]


def test_jobs_larger_than_any_fitted_one_have_wider_intervals_and_say_so(
    registry: Registry, cases: list[Case]
) -> None:
    (row,) = [inputs for r, inputs in training_rows(cases) if r.case == TRAINING[2]]
    large = replace(row, values={**row.values, "training.gpus": 65536.0})
    beyond = registry.resolve("training.model_error", large)
    assert [v.name for v in beyond.validity if v.status == "false"] == ["training.model_error.fit"]
    small = replace(row, values={**row.values, "training.gpus": 3072.0})
    inside = registry.resolve("training.model_error", small)
    assert all(v.status == "true" for v in inside.validity)
    assert beyond.value == inside.value == 1.0
    assert beyond.upper > inside.upper * 1.1


def test_scenario_names_the_model_error_among_its_sources(registry: Registry) -> None:
    preset = built_in.preset("llama3_8b_8_h100_training")
    shares = preset.variance_by_kind(["training.step_time"])["training.step_time"]
    assert 0.2 < shares["model error"] < 0.99
