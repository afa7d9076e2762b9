"""Published collectives that entered no fit, predicted through the graph."""

from __future__ import annotations

import numpy as np
import pytest

from assay.validate.cases import published_cases, read_cases
from assay.validate.collectives.predict import handles, predict
from assay.validate.collectives.tables import BYTES, OPERATIONS, Measured
from assay.validate.score import Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Predictions of the published rows whose size and rank count were held out."""
    cases = [case for case in read_cases(published_cases()) if handles(case)]
    inputs = [case.inputs for case in cases]
    measured = Measured(
        "any",
        np.array([OPERATIONS[i["op"]] for i in inputs]),
        np.array(["nccl"] * len(cases)),
        np.array([float(i["message_size_elements"] * BYTES[i["dtype"]]) for i in inputs]),
        np.array([float(i["num_gpus"]) for i in inputs]),
        np.ones(len(cases)),
        np.ones(len(cases), dtype=bool),
    )
    unseen = [case for case, out in zip(cases, measured.held_out, strict=True) if out]
    assert len(unseen) >= 16
    rows = predict(cases)
    held_out = {case.id for case in unseen}
    assert {row.case for row in rows if not row.in_sample} == held_out
    return [row for row in rows if row.case in held_out]


def test_errors_of_held_out_collectives(rows: list[Row]) -> None:
    assert not [row.gap for row in rows if row.gap]
    errors = np.array([abs(row.error or 0.0) for row in rows])
    assert np.median(errors) <= 0.06
    assert np.quantile(errors, 0.9) <= 0.20


def test_roofline_has_large_errors(rows: list[Row]) -> None:
    errors = [abs(row.baselines["roofline"] / row.observed - 1) for row in rows]
    assert np.median(errors) > 0.4


def test_interval_coverage(rows: list[Row]) -> None:
    assert 0.75 <= np.mean([bool(row.is_inside) for row in rows]) <= 1.0
