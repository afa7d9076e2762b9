"""Decode steps of a mixture of experts in the fit of serving, vLLM on one H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from assay.validate.cases import Case
from assay.validate.serving.predict import predict

POINTS = Path(__file__).parents[2] / "data" / "vllm_h200_decode_qwen3_30b_a3b.json"
BANDWIDTH = 4.8e12
LAYERS, EXPERTS, CHOSEN, EXPERT_BYTES = 48, 128, 8, 3 * 2048 * 768 * 2


def test_steps_of_a_fitted_mixture() -> None:
    cases = [
        Case(
            f"mixture-{point['batch']}", "inference",
            {"system": "h200_sxm", "model": "qwen3-30b-a3b", "backend": "vllm",
             "precision": "bf16", "isl": point["context_mean"] - 1, "osl": 2,
             "batch": point["batch"], "tp": 1, "mode": "static batch"},
            {"step_ms": point["step_ms"]},
        )
        for point in json.loads(POINTS.read_text())
    ]  # fmt: skip
    rows = predict(cases)
    errors = []
    for case, row in zip(cases, rows, strict=True):
        assert row.predicted is not None
        batch = case.inputs["batch"]
        touched = EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** batch)
        read_ms = LAYERS * touched * EXPERT_BYTES / BANDWIDTH * 1e3
        assert row.terms["decode feed_forward"] >= read_ms
        errors.append(abs(row.predicted / row.observed - 1))
    assert np.median(errors) < 0.06
    assert max(errors) < 0.12
