"""Training cases through the graph: held-out errors, intervals, and fields."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.score import Row
from assay.validate.training.kinds import kind_of
from assay.validate.training.predict import predict, read_jobs
from assay.validate.training.software import stated_date

LLAMA_70B = Case(
    "new-70b", "training",
    {"model": "Llama-3.1-70B", "gpu": "H200-SXM-141GB", "n_gpus": 64, "seq_len": 8192, "tp": 4,
     "pp": 4, "vp": 5, "cp": 1, "micro_batch": 1, "global_batch": 128, "precision": "bf16"},
    {"step_time_s": 13.0},
    {"title": "A report of May 2025", "url": "https://example.org/report"},
)  # fmt: skip


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [case for case in read_cases(published_cases()) if case.kind == "training"]


@pytest.fixture(scope="module")
def rows(cases: list[Case]) -> list[Row]:
    return predict(cases)


def macro(rows: list[Row]) -> float:
    suites: dict[str, list[float]] = {}
    for row in rows:
        assert row.error is not None
        suites.setdefault(row.suite, []).append(abs(row.error))
    return float(np.mean([np.mean(errors) for errors in suites.values()]))


def fitted_rows(cases: list[Case], rows: list[Row]) -> list[Row]:
    """Figures that entered the fit: steps of tiers A and B, and hours of tier A."""
    tiers = {case.id: case.tier for case in cases}
    return [
        row
        for row in rows
        if not row.gap
        and (row.quantity == "step_time" and tiers[row.case] in "AB")
        | (row.quantity == "gpu_hours" and tiers[row.case] == "A")
    ]


def held_out(rows: list[Row]) -> list[Row]:
    """The same figures, predicted by constants that have not seen their source."""
    return [replace(row, predicted=row.held_out) if row.in_sample else row for row in rows]


def test_every_fitted_step_is_marked_in_sample(cases: list[Case], rows: list[Row]) -> None:
    fitted = fitted_rows(cases, rows)
    assert len(fitted) == 414
    assert all(row.in_sample and row.held_out is not None for row in fitted)
    others = [row for row in rows if row.quantity == "step_time" and row not in fitted]
    assert not any(row.in_sample for row in others)


@pytest.mark.parametrize(
    ("kind", "count", "median"), [("dense", 149, 0.07), ("moe", 64, 0.15), ("fsdp_long", 201, 0.12)]
)
def test_steps_of_sources_that_no_constant_has_seen(
    cases: list[Case], rows: list[Row], kind: str, count: int, median: float
) -> None:
    jobs = {job.case.id: job for job in read_jobs(cases)[0]}
    steps = [row for row in fitted_rows(cases, rows) if kind_of(jobs[row.case]) == kind]
    assert len(steps) == count
    assert np.median([abs(row.held_out_error or 0.0) for row in steps]) <= median


def test_held_out_gpu_hours_of_published_runs(cases: list[Case], rows: list[Row]) -> None:
    names = {case.id for case in cases if case.tier in "AB"}
    hours = {
        row.case: abs(row.held_out_error or 0.0)
        for row in rows
        if row.case in names and row.unit == "GPU*h" and row.predicted is not None
    }
    assert len(hours) == 25
    assert np.median(list(hours.values())) < 0.18
    # Touvron et al. 2023, Table 15.
    assert max(hours[f"llama1-{size}"] for size in ("7B", "13B", "33B", "65B")) < 0.36


def test_simpler_rules_are_worse_than_held_out_predictions(
    cases: list[Case], rows: list[Row]
) -> None:
    gate = fitted_rows(cases, rows)
    for name in ("constant_mfu", "rule_6nd", "roofline"):
        errors = [replace(row, predicted=row.baselines[name]) for row in gate]
        assert macro(errors) > 2 * macro(held_out(gate))


def test_held_out_intervals_hold_what_was_observed(cases: list[Case], rows: list[Row]) -> None:
    inside: dict[str, list[bool]] = {}
    for row in fitted_rows(cases, rows):
        inside.setdefault(row.suite, []).append(bool(row.is_inside_held_out))
    assert np.mean([np.mean(group) for group in inside.values()]) >= 0.8


def test_published_memory_is_within_two_percent(rows: list[Row]) -> None:
    memory = [row for row in rows if row.unit == "GiB/GPU"]
    assert len(memory) == 12
    assert max(abs(row.error or 0.0) for row in memory) < 0.02


def test_terms_add_up(rows: list[Row]) -> None:
    for row in rows:
        if row.terms:
            assert sum(row.terms.values()) == pytest.approx(row.predicted, rel=1e-9)


def test_predictions_do_not_depend_on_the_ids_of_cases(cases: list[Case], rows: list[Row]) -> None:
    new = {case.id: f"other-{number}" for number, case in enumerate(cases)}
    renamed = []
    for case in cases:
        inputs = dict(case.inputs)
        for reference in ("same_config_as", "same_model_as"):
            if inputs.get(reference):
                inputs[reference] = new[inputs[reference]]
        renamed.append(replace(case, id=new[case.id], inputs=inputs))
    before = {(new[row.case], row.quantity): row.predicted for row in rows}
    after = {(row.case, row.quantity): row.predicted for row in predict(renamed)}
    assert after == before


def test_named_model_on_an_accelerator_without_training_data() -> None:
    (row,) = predict([LLAMA_70B])
    assert row.predicted == pytest.approx(13.0, rel=0.25)
    assert any("catalog" in note for note in row.notes)


@pytest.mark.parametrize(
    "fields",
    [
        {"n_gpus": None, "dp": 4},
        {"global_batch": None, "grad_accum": 32},
        {"global_batch": None, "global_batch_tokens_M": 1.048576},
    ],
)
def test_equivalent_fields_give_the_same_prediction(fields: dict[str, object]) -> None:
    (row,) = predict([LLAMA_70B])
    (other,) = predict([replace(LLAMA_70B, inputs={**LLAMA_70B.inputs, **fields})])
    assert other.predicted == row.predicted


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gpu": "Abacus-9"}, "Abacus-9"),
        ({"gpu": None}, "no accelerator"),
        ({"model": "unheard-of"}, "unheard-of"),
        ({"n_gpus": "many"}, "field"),
    ],
)
def test_unpredictable_case_has_a_reason(change: dict[str, object], reason: str) -> None:
    (row,) = predict([replace(LLAMA_70B, inputs={**LLAMA_70B.inputs, **change})])
    assert row.predicted is None
    assert reason in row.gap


@pytest.mark.parametrize(
    ("source", "date"),
    [
        ({"url": "https://arxiv.org/abs/2104.04473", "title": "x"}, 2021.25),
        ({"title": "Scaling table, January 2021"}, 2021.0),
        ({"title": "Recipes", "where": "README.md (NeMo 24.09)"}, 2024 + 8 / 12),
        ({"title": "Recipes"}, None),
    ],
)
def test_dates_come_from_the_source(source: dict[str, str], date: float | None) -> None:
    assert stated_date(replace(LLAMA_70B, source=source)) == date


def test_a_stated_date_wins_over_the_source_and_the_id_says_nothing() -> None:
    dated = replace(LLAMA_70B, inputs={**LLAMA_70B.inputs, "stated_date": 2021.9})
    assert stated_date(dated) == 2021.9
    assert stated_date(replace(LLAMA_70B, id="bloom-opt-175b")) == stated_date(LLAMA_70B)
