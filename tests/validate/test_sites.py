"""Published PUE against the thermal model."""

from __future__ import annotations

import pytest

from assay.validate.cases import published_cases, read_cases
from assay.validate.kernels.predict import predict
from assay.validate.score import Row


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    cases = [case for case in read_cases(published_cases()) if case.suite == "pue"]
    return {row.case: row for row in predict(cases)}


def test_every_published_pue_is_predicted_within_a_tenth(rows: dict[str, Row]) -> None:
    assert len(rows) == 4
    errors = {case: (row.predicted or 0.0) / row.observed - 1 for case, row in rows.items()}
    assert {case: e for case, e in errors.items() if abs(e) > 0.1} == {}


def test_assumed_climate_of_a_fleet_is_noted(rows: dict[str, Row]) -> None:
    notes = {case: row.notes for case, row in rows.items()}
    assert any("assumed" in note for note in notes["pue-google-fleet"])
    assert not any("assumed" in note for note in notes["pue-meta-(lulea-best-site)"])
