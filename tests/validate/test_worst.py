"""What would have to be true: single changes against closed forms, and the worst misses."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from assay.model.inputs import Inputs
from assay.model.language.distributions import Distribution
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.points import GroupedPoints
from assay.validate.run import rows_of
from assay.validate.score import Row, scores as score_rows
from assay.validate.single_changes import single_changes
from assay.validate.training.predict import predict
from assay.validate.worst import worst

PEAK = {"gpu.multiprocessors": 132.0, "gpu.flops_per_cycle": 4096.0, "gpu.clock": 1.83e9}
JOB = Case(
    "new-8b", "training",
    {"model": "Llama-3.1-8B", "gpu": "H100-SXM-80GB", "n_gpus": 64, "seq_len": 8192, "tp": 1,
     "pp": 1, "micro_batch": 1, "global_batch": 128, "precision": "fp8"},
    {"step_time_s": 1.0}, {"title": "A report of May 2025"},
)  # fmt: skip


def row(case: str, observed: float, predicted: float, **more: object) -> Row:
    return Row(case, "suite", "step_time", "s", observed, predicted, group="training dense", **more)  # type: ignore[arg-type]


def test_a_product_needs_each_factor_as_much_larger_as_the_figure() -> None:
    inputs = Inputs(PEAK, {"gpu.clock": Distribution("lognormal", (1.83e9, 0.1))}, {})
    peak = 132 * 4096 * 1.83e9
    found = {one.name: one for one in single_changes(inputs, "gpu.peak_flops", 1.5 * peak)}
    assert found.keys() == PEAK.keys()
    for change in found.values():
        assert change.factor == pytest.approx(1.5, rel=1e-6)
        assert change.ratio == 1.0
    assert found["gpu.clock"].spreads == pytest.approx(4.0547, rel=1e-3)
    assert found["gpu.multiprocessors"].spreads is None


def test_beyond_eight_times_nothing_explains() -> None:
    peak = 132 * 4096 * 1.83e9
    assert single_changes(Inputs(PEAK, {}, {}), "gpu.peak_flops", 9 * peak) == []


def test_a_format_that_was_misread_is_found() -> None:
    (fp8,) = [one for one in predict([JOB]) if one.quantity == "step_time"]
    assert fp8.predicted is not None
    misread = replace(
        JOB, inputs={**JOB.inputs, "precision": "bf16"}, observed={"step_time_s": fp8.predicted}
    )
    rows = [replace(one, source="mine") for one in predict([misread])]
    (miss,) = worst(rows_of(score_rows("training", rows)), [misread], 5)
    first = miss.changes[0]
    assert (first.name, first.before, first.after) == ("training.compute_bits", 16.0, 8.0)
    assert first.ratio == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("folder", "cases"),
    [
        ("training", ["megatron2021-t1-1.7B", "mlperf-5.0-llama31-405b-h100-512"]),
        ("serving", ["trtllm0.14-H100-Llama-3.1-70B-tp4-467-256-qps2"]),
    ],
)
def test_inputs_of_a_figure_give_the_prediction_without_its_source(
    folder: str, cases: list[str]
) -> None:
    chosen = [one for one in read_cases(published_cases()) if one.id in cases]
    predicted = import_module(f"assay.validate.{folder}.predict").predict(chosen)
    rows = {(one.case, one.quantity): one for one in predicted if one.group}
    found = import_module(f"assay.validate.{folder}.figure_inputs").figure_inputs(
        chosen, set(cases)
    )
    assert rows.keys() <= found.keys()
    for key, row_there in rows.items():
        inputs, output, observed = found[key]
        value = GroupedPoints([inputs.values]).evaluate([output])[output][0]
        expected = row_there.held_out or row_there.predicted
        assert value / observed == pytest.approx(expected / row_there.observed, rel=1e-9)


def test_misses_are_ordered_by_their_factor() -> None:
    rows = [
        row("a-1", 10.0, 15.0),
        row("a-2", 10.0, 5.0),
        row("a-3", 10.0, 10.0, held_out=30.0),
        Row("a-4", "suite", "x", "s", 1.0, 9.0),
    ]
    assert [miss.row.case for miss in worst(rows, [], 2)] == ["a-3", "a-2"]


def test_terms_are_solved_for_alone() -> None:
    times = row("a-1", 10.0, 6.0, terms={"kernels": 4.0, "traffic": 2.0})
    (miss,) = worst([times], [], 1)
    assert [(term.name, term.after) for term in miss.terms] == [("kernels", 8.0), ("traffic", 6.0)]
    fast = row("a-2", 3.0, 6.0, terms={"kernels": 4.0, "traffic": 2.0})
    (miss,) = worst([fast], [], 1)
    assert [(term.name, term.after) for term in miss.terms] == [("kernels", 1.0), ("traffic", 0.0)]


def test_terms_of_a_rate_are_times_of_a_step() -> None:
    rate = Row(
        "a-1", "suite", "output", "token/s", 50.0, 100.0, terms={"decode": 8.0, "host": 2.0},
        group="throughput",
    )  # fmt: skip
    (miss,) = worst([rate], [], 1)
    # Half the rate is a step of 20 ms in place of 10.
    assert [(term.name, term.after) for term in miss.terms] == [("decode", 18.0), ("host", 12.0)]
