"""Kernel predictions against held-out rows of published tables, and published cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.kernels.operations import OPERATION_RELATIONS
from assay.validate.kernels.predict import predict
from assay.validate.kernels.scores import KernelScore, errors, score_sample
from assay.validate.kernels.tables import read_sample

SAMPLE = Path(__file__).parents[2] / "data" / "kernels_sample.csv"


@pytest.fixture(scope="module")
def scores() -> list[KernelScore]:
    """Scores of the committed sample."""
    return score_sample(SAMPLE)


def _pooled(operation: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = []
    for table in read_sample(SAMPLE):
        if table.operation != operation:
            continue
        by_engine = OPERATION_RELATIONS[operation].by_engine
        for engine in np.unique(table.framework) if by_engine else [None]:
            mask = table.framework == engine if by_engine else np.full(len(table), True)
            parts.append(errors(table.where(mask), engine))
    return tuple(
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("predicted", "roofline", "spread")
    )


def test_sample_contains_only_held_out_shapes() -> None:
    tables = read_sample(SAMPLE)
    assert {table.system for table in tables} == {"a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"}
    assert all(table.held_out.all() for table in tables)
    assert 200 <= sum(map(len, tables)) <= 300


@pytest.mark.parametrize(
    ("operation", "median", "p90"),
    [("gemm", 0.055, 0.20), ("prefill", 0.08, 0.25), ("decode", 0.10, 0.30)],
)
def test_errors_of_held_out_rows(operation: str, median: float, p90: float) -> None:
    predicted, roofline, spread = _pooled(operation)
    absolute = np.abs(np.expm1(predicted))
    assert np.median(absolute) <= median
    assert np.quantile(absolute, 0.9) <= p90
    assert np.median(np.abs(np.expm1(roofline))) > 4 * np.median(absolute)
    assert 0.8 <= np.mean(np.abs(predicted) <= 1.645 * spread) <= 0.97


def test_scores_are_by_engine_and_together(scores: list[KernelScore]) -> None:
    labels = {s.framework for s in scores if s.operation == "decode" and s.system == "h100_sxm"}
    assert labels == {"vllm", "sglang", "trtllm", "all"}


def case(inputs: dict[str, object], observed: dict[str, object], suite: str = "any") -> Case:
    return Case(f"{suite}-1", "hardware", inputs, observed)


GEMM = {"system": "h100_sxm", "op": "gemm", "dtype": "bf16", "m": 4096, "n": 4096, "k": 4096}


def test_gemm_of_a_published_table() -> None:
    # aiconfigurator-core 0.12.0, H100, vLLM 0.24.0, 16 bits.
    inputs = {**GEMM, "framework": "vllm/0.24.0"}
    time, rate = predict([case(inputs, {"latency_ms": 0.166026, "tflops": 827.8})])
    assert time.predicted == pytest.approx(0.166026, rel=0.1)
    assert time.lo is not None
    assert time.hi is not None
    assert time.lo < 0.166026 < time.hi
    assert sum(time.terms.values()) == pytest.approx(time.predicted)
    assert time.baselines["roofline"] < time.predicted
    assert rate.predicted is not None
    assert time.predicted is not None
    assert rate.predicted == pytest.approx(2 * 4096**3 / (time.predicted * 1e-3) / 1e12)


def test_rows_of_the_fitted_package_are_in_sample_unless_their_shape_is_held_out() -> None:
    cases = [one for one in read_cases(published_cases()) if one.inputs.get("op") == "gemm"]
    rows = predict(cases)
    seen = {row.case: row.in_sample for row in rows}
    package = [one for one in cases if one.suite == "aic"]
    # Weights (n, k) are drawn by the hash of their shape: all rows of one are on the same side.
    by_weight: dict[tuple[int, int], set[bool]] = {}
    for one in package:
        weight = (one.inputs["n"], one.inputs["k"])
        by_weight.setdefault(weight, set()).add(seen[one.id])
    assert all(len(sides) == 1 for sides in by_weight.values())
    assert set.union(*by_weight.values()) == {True, False}
    assert not any(seen[one.id] for one in cases if one.suite != "aic")


def test_predictions_do_not_depend_on_the_suite() -> None:
    observed = {"latency_ms": 1.0}
    first, second = predict([case(GEMM, observed, "one"), case(GEMM, observed, "two")])
    assert first.predicted == second.predicted


def test_defaults_are_noted() -> None:
    (row,) = predict([case({**GEMM, "dtype": None}, {"latency_ms": 1.0})])
    assert any("no format stated" in note for note in row.notes)
    assert any("no engine stated" in note for note in row.notes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": "int3"}, "int3"),
        ({"m": None}, "m"),
        ({"m": "many"}, "expected a number"),
        ({"system": "abacus"}, "abacus"),
    ],
)
def test_unpredictable_case_has_a_reason(changes: dict[str, object], reason: str) -> None:
    (row,) = predict([case({**GEMM, **changes}, {"latency_ms": 1.0})])
    assert row.predicted is None
    assert reason in row.gap


def test_data_sheet_rates_are_predicted() -> None:
    observed = {"dense_tflops": {"bf16": 989.4, "fp8": 1978.9}, "hbm_GBps": 3350, "tdp_W": 700}
    rows = {r.quantity: r for r in predict([case({"gpu": "H100-SXM-80GB"}, observed)])}
    for name in ("dense_tflops.bf16", "dense_tflops.fp8", "hbm_GBps"):
        assert rows[name].predicted == pytest.approx(rows[name].observed, rel=2e-3)
    assert rows["tdp_W"].gap == "gpu.power.limit is an input of the graph, not a prediction"


def test_borrowed_constants_widen_the_interval() -> None:
    inputs = {**GEMM, "framework": "vllm/0.24.0"}
    own, other = predict(
        [case(inputs, {"latency_ms": 1.0}), case({**inputs, "system": "H800"}, {"latency_ms": 1.0})]
    )
    assert own.hi is not None
    assert own.lo is not None
    assert other.hi is not None
    assert other.lo is not None
    assert other.hi / other.lo > own.hi / own.lo
    assert any("h100_sxm" in note for note in other.notes)


def test_headline_rates_of_flash_attention() -> None:
    # Shah et al. 2024, FlashAttention-3, abstract: 740 TFLOP/s in 16 bits, close to 1200 in 8.
    for kernel, rate in (("fp16", 740.0), ("fp8", 1200.0)):
        inputs = {"kernel": f"FlashAttention-3 fwd H100 {kernel} max"}
        (row,) = predict([case(inputs, {"tflops": rate})])
        assert row.predicted == pytest.approx(rate, rel=0.1)
        assert any("no shape stated" in note for note in row.notes)
    (older,) = predict([case({"kernel": "FlashAttention-2 on H100"}, {"tflops": 350.0})])
    assert older.predicted is None
