"""Energy, emissions and cost of published runs, in-sample and held-out apart."""

from __future__ import annotations

import pytest

from assay.validate.cases import published_cases, read_cases
from assay.validate.score import Row, score_suite
from assay.validate.training.predict import predict


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    cases = [case for case in read_cases(published_cases()) if case.kind == "training"]
    chosen = [case for case in cases if case.suite in ("llama1", "llama3.1", "deepseek")]
    return predict(chosen)


def by_quantity(rows: list[Row], case: str) -> dict[str, Row]:
    return {row.quantity: row for row in rows if row.case == case}


def test_energy_and_carbon_of_llama_follow_its_hours(rows: list[Row]) -> None:
    found = by_quantity(rows, "llama1-65B")
    hours = found["gpu_hours"].predicted or 0.0
    # Touvron et al. 2023, section 6: 400 W, PUE 1.1, 0.385 kg/kWh.
    assert found["energy"].predicted == pytest.approx(hours * 400 * 1.1 / 1e6)
    assert found["carbon"].predicted == pytest.approx(hours * 400 * 1.1 * 0.385 / 1e6)
    assert found["energy"].error == pytest.approx(found["gpu_hours"].error, abs=0.01)
    assert found["carbon"].is_inside
    assert found["energy"].in_sample


def test_cost_of_deepseek_v3_is_its_rent(rows: list[Row]) -> None:
    found = by_quantity(rows, "deepseek-v3-pretrain")
    # DeepSeek-V3 report, table 1: pre-training is 5.328 M USD of 5.576 M USD.
    assert found["cost"].observed == pytest.approx(5.328e6, rel=1e-3)
    assert found["cost"].predicted == pytest.approx(2.0 * (found["gpu_hours"].predicted or 0.0))


def test_figures_that_a_case_does_not_determine_say_why(rows: list[Row]) -> None:
    found = by_quantity(rows, "llama3.1-70B")
    assert found["carbon_tCO2eq_location_based"].gap.startswith("the case states neither PUE")


def test_scores_have_coverage_of_both_kinds(rows: list[Row]) -> None:
    score = score_suite("llama1", [row for row in rows if row.suite == "llama1"])
    data = score.to_data()
    assert data["in_sample"]["cases"] > 0
    assert data["in_sample_coverage90"] is not None
    assert data["held_out_coverage90"] is not None
