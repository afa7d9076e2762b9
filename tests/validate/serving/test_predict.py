"""Serving cases through the graph: held-out errors, intervals, and fields."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.catalog import engines, expert_formats
from assay.errors import InputError
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.fitting.serving import point_cases
from assay.validate.score import Row
from assay.validate.serving.deployments import QUANTITIES, deployment_of
from assay.validate.serving.fields import parse_count
from assay.validate.serving.predict import predict

DATA = Path(__file__).parents[2] / "data"
POINTS = DATA / "vllm_h200_decode_llama8b.json"
ROW = Case(
    "other-row", "inference",
    {"system": "h200_sxm", "model": "meta-llama/Llama-3.1-70B", "backend": "vllm",
     "precision": "fp8", "isl": 1024, "osl": 1024, "batch": 32, "tp": 4, "pp": 1},
    {"ttft_ms": 170.0, "tpot_ms": 15.0},
)  # fmt: skip


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Cases of latencies and rates; figures of records have units, and groups of their own."""
    published = read_cases(published_cases())
    return [case for case in published if case.kind == "inference" and not case.units]


@pytest.fixture(scope="module")
def rows(cases: list[Case]) -> list[Row]:
    return predict(cases)


def held_out_errors(rows: list[Row], suite: str) -> list[float]:
    """Absolute errors of a suite, by constants that have not seen it."""
    errors = [row.held_out_error for row in rows if row.suite == suite]
    return [abs(error) for error in errors if error is not None]


def test_measured_decode_steps_are_within_a_twentieth() -> None:
    points = json.loads(POINTS.read_text())
    cases = [
        Case(
            f"points-b{p['batch']}-c{p['context_start']}", "inference",
            {"system": "h200_sxm", "model": "llama-3.1-8b", "backend": "vllm",
             "precision": "bf16", "isl": p["context_mean"] - 1, "osl": 2, "batch": p["batch"],
             "tp": 1, "mode": "static batch"},
            {"step_ms": p["step_ms"]},
        )
        for p in points
    ]  # fmt: skip
    found = predict(cases)
    assert len(found) == 19
    assert max(abs(row.error or 1.0) for row in found) < 0.05


@pytest.mark.parametrize(
    ("file", "count", "median"),
    # Half a point above the errors that a fit without these steps leaves.
    [(POINTS.name, 19, 0.03), ("vllm_h200_decode_qwen3_30b_a3b.json", 4, 0.04)],
)
def test_measured_decode_steps_without_themselves(file: str, count: int, median: float) -> None:
    found = predict(point_cases(DATA / file))
    assert len(found) == count
    assert all(row.in_sample for row in found)
    assert all(row.held_out not in (None, row.predicted) for row in found)
    assert np.median(held_out_errors(found, "points")) < median


@pytest.mark.parametrize(
    ("suite", "count", "median"), [("trtllm0.6.1", 20, 0.15), ("trtllm1.0", 64, 0.12)]
)
def test_held_out_rates(rows: list[Row], suite: str, count: int, median: float) -> None:
    assert all(row.in_sample for row in rows if row.suite == suite)
    found = held_out_errors(rows, suite)
    assert len(found) == count
    assert np.median(found) < median


def test_held_out_first_tokens(rows: list[Row]) -> None:
    assert np.median(held_out_errors(rows, "trtllm0.5")) < 0.2


def test_every_source_with_a_prediction_was_left_out_once(rows: list[Row]) -> None:
    predicted = [row for row in rows if row.predicted is not None]
    assert all(row.in_sample for row in predicted)


@pytest.mark.parametrize(
    ("output", "bar"), [("throughput", 0.12), ("step_time", 0.15), ("time_to_first_token", 0.30)]
)
def test_median_error_with_the_source_left_out(rows: list[Row], output: str, bar: float) -> None:
    found = [
        abs(row.held_out_error)
        for row in rows
        if QUANTITIES.get(row.quantity, ("",))[0].removesuffix("_per_gpu") == output
        and row.held_out_error is not None
    ]
    assert len(found) > 40
    assert np.median(found) < bar


def test_held_out_intervals_hold_what_was_observed(cases: list[Case], rows: list[Row]) -> None:
    best = {case.id for case in cases if case.tier == "A"}
    inside = [
        row.is_inside_held_out for row in rows if row.case in best and row.predicted is not None
    ]
    assert len(inside) > 120
    assert 0.8 <= np.mean([bool(found) for found in inside]) <= 0.99


def test_every_tier_a_case_is_predicted(cases: list[Case], rows: list[Row]) -> None:
    best = {case.id for case in cases if case.tier == "A"}
    assert not [row for row in rows if row.case in best and row.gap]


def test_row_has_terms_and_baselines() -> None:
    row = next(row for row in predict([ROW]) if row.quantity == "tpot_ms")
    assert row.predicted is not None
    assert row.terms["decode attention"] > 0
    assert 0 < sum(row.terms.values()) < 1.2 * row.predicted
    assert row.baselines["roofline"] < row.predicted


def test_predictions_do_not_depend_on_the_id() -> None:
    renamed = replace(ROW, id="trtllm1.0-row")
    first, second = ([row.predicted for row in predict([case])] for case in (ROW, renamed))
    assert first == second


def test_unknown_system_or_figure_has_a_reason() -> None:
    unknown = replace(ROW, inputs=ROW.inputs | {"system": "abacus"})
    assert ["abacus" in row.gap for row in predict([unknown])] == [True, True]
    figure = replace(ROW, observed={"joy": 1.0})
    assert [row.gap for row in predict([figure])] == ["no such figure in the serving scope"]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"precision": "fp16"}, {"compute_bits": 16, "weight_bytes": 2, "kv_bytes": 2}),
        ({"precision": "fp8"}, {"compute_bits": 8, "weight_bytes": 1, "kv_bytes": 2}),
        ({"precision": "fp8", "kv_cache": "fp8 kv"}, {"compute_bits": 8, "kv_bytes": 2}),
        ({"precision": "fp8, fp8 kv"}, {"compute_bits": 8, "kv_bytes": 1}),
        ({"precision": "int4 awq"}, {"compute_bits": 16, "weight_bytes": 0.53125}),
        ({"precision": "bf16, fp8 kv"}, {"compute_bits": 16, "kv_bytes": 1}),
        ({"precision": "fp4", "backend": "trtllm", "system": "b200_sxm"}, {"kv_bytes": 1}),
        ({"precision": "fp4"}, {"compute_bits": 16, "weight_bytes": 0.5625}),
        ({"precision": "fp4", "system": "b200_sxm"}, {"compute_bits": 4}),
        ({"tp": 8, "moe_tp": "1", "moe_ep": "8"}, {"tensor": 8, "expert": 8}),
        ({"tp": 64, "moe_tp": "8", "moe_ep": "8"}, {"tensor": 8, "expert": 8}),
        ({"tp": 1, "moe_tp": "1", "moe_ep": "8"}, {"tensor": 8, "attention_replicas": 8}),
        ({"tp": 2, "pp": 4}, {"tensor": 2, "pipeline": 4}),
        ({}, {"prompt": 921.6, "output": 921.6, "concurrency": 32}),
        ({"isl": 1000, "osl": 100}, {"prompt": 1000, "output": 100}),
        ({"mode": "max-throughput, infinite request rate"}, {"concurrency": 1e6}),
        ({"mode": "static batch"}, {"static": 1, "prompt": 1024}),
    ],
)
def test_fields_map_to_inputs(inputs: dict[str, object], expected: dict[str, float]) -> None:
    found = deployment_of(replace(ROW, inputs=ROW.inputs | inputs)).values
    assert {name: found[f"serving.{name}"] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        # gpt-oss is published in MXFP4, whatever a table calls it: 16 bits around 4-bit experts.
        ({"model": "gpt-oss-120b", "precision": "fp8", "backend": "trtllm"},
         {"compute_bits": 16, "expert_bits": 16, "expert_bytes": 0.53125, "kv_bytes": 2}),
        ({"model": "gpt-oss-120b", "precision": "mxfp4, fp8 kv", "backend": "trtllm",
          "system": "b200_sxm"},
         {"compute_bits": 16, "expert_bits": 8, "expert_bytes": 0.53125, "kv_bytes": 1}),
        # Latent attention stays in 16 bits in 4-bit checkpoints, grouped attention does not.
        ({"model": "DeepSeek-R1", "precision": "fp4", "system": "b200_sxm"},
         {"compute_bits": 16, "expert_bits": 4, "expert_bytes": 0.5625}),
        ({"model": "Qwen3-30B-A3B", "precision": "fp4", "system": "b200_sxm"},
         {"compute_bits": 4, "expert_bits": 4, "weight_bytes": 0.5625}),
    ],
)  # fmt: skip
def test_a_checkpoint_decides_what_a_precision_covers(
    inputs: dict[str, object], expected: dict[str, float]
) -> None:
    found = deployment_of(replace(ROW, inputs=ROW.inputs | inputs)).values
    assert {name: found[f"serving.{name}"] for name in expected} == pytest.approx(expected)


def test_a_release_decides_features_and_kernels() -> None:
    mixture = replace(
        ROW,
        inputs=ROW.inputs | {"model": "gpt-oss-120b", "precision": "mxfp4", "system": "h100_sxm"},
    )
    old, new = (
        deployment_of(replace(mixture, inputs=mixture.inputs | {"backend_version": release}))
        for release in ("0.10.2", "0.24.0")
    )
    rate = "kernels.experts.sustained_share"
    assert old.values[rate] < 0.7 * new.values[rate]
    eager = "serving.eager"
    assert engines.given("trtllm", "offline", (0, 14))[eager] == 1
    assert engines.given("trtllm", "offline", (1, 2))[eager] == 0
    assert engines.given("trtllm", "offline")[eager] == 0
    # vLLM 0.11 sorts all logits for top-p, in copies that 0.24 does without.
    logit, before, now = "serving.logit_bytes", (0, 11, 1), (0, 24)
    assert engines.given("vllm", release=before)[logit] > 3 * engines.given("vllm")[logit]
    assert set(engines.sampler("vllm", before, "top-p")) == {"serving.sort_time"}
    assert engines.sampler("vllm", now, "top-p") == engines.sampler("sglang", before, "top-p") == {}
    # Penalties of repetition copy all output tokens of all requests in every iteration.
    assert "serving.history_time" in engines.sampler("vllm", before, "top-p", "penalties")
    # Block-scaled experts of vLLM 0.12 are padded; Qwen3-235B takes as long with 4 requests as with 20.
    old, new = (
        expert_formats.find("h200_sxm", "h200_sxm", "vllm", "fp8_block", 2.0, release)
        for release in ((0, 12), (0, 24))
    )
    assert old is not None
    assert new is not None
    assert old.values["kernels.experts.untouched_share"] == 1
    assert "kernels.experts.untouched_share" not in new.values


@pytest.mark.parametrize(
    ("source", "engine", "limit"),
    [
        ({"title": "TensorRT-LLM v0.6.1 performance.md"}, "trtllm", 3),
        ({"title": "TensorRT-LLM perf-overview (v1.0)"}, "trtllm", 1000),
        ({"title": "A page", "where": "served with SGLang"}, "sglang", 1000),
        ({"title": "A page"}, "vllm", 1000),
    ],
)
def test_engine_is_read_from_the_text_of_a_case(
    source: dict[str, str], engine: str, limit: float
) -> None:
    inputs = {name: value for name, value in ROW.inputs.items() if name != "backend"}
    found = deployment_of(replace(ROW, inputs=inputs, source=source))
    assert found.engine == engine
    assert found.values["serving.group_limit"] == limit
    assert found.client == "offline"


def test_disaggregated_requests_are_spread_over_workers() -> None:
    inputs = ROW.inputs | {
        "mode": "disagg", "batch": 64, "prefill_tp_size": 2, "decode_tp_size": 8,
        "prefill_num_workers": 2, "decode_num_workers": 4,
    }  # fmt: skip
    found = deployment_of(replace(ROW, inputs=inputs))
    assert found.prompt_values is not None
    assert (found.values["serving.tensor"], found.values["serving.concurrency"]) == (8, 16)
    assert found.prompt_values["serving.tensor"] == 2
    assert found.prompt_values["serving.concurrency"] == 32
    assert found.values["serving.separate"] == 1
    silent = deployment_of(
        replace(ROW, inputs={k: v for k, v in inputs.items() if "num_workers" not in k})
    )
    assert any("decode workers are not stated" in note for note in silent.notes)


@pytest.mark.parametrize(
    ("value", "count"), [(4, 4), ("8", 8), (2.0, 2), (None, 1), ("", 1), (0, 1)], ids=repr
)
def test_parse_count(value: object, count: int) -> None:
    assert parse_count(value) == count


@pytest.mark.parametrize("value", ["two", [], float("nan"), float("inf")], ids=repr)
def test_parse_count_raises_for_other_values(value: object) -> None:
    with pytest.raises(InputError, match="expected a count, got"):
        parse_count(value)
