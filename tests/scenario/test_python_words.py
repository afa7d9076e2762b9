"""Questions asked in Python: axes by name, and refusals that name arguments, not options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import assay
from assay.errors import AssayError, unknown_name

COST = "econ.cost.per_token"
FIXTURE: Any = {"preset": "dense_training_cost_fixture"}


@pytest.mark.parametrize(
    "over",
    [
        ["gpu.power=400,500 W/GPU"],
        {"gpu.power": "400,500 W/GPU"},
        {"gpu.power": ["400 W/GPU", "500 W/GPU"]},
    ],
)
def test_axes_are_texts_or_values_by_name(over: Any) -> None:
    answer = assay.sweep([COST], over, **FIXTURE)
    assert [row["gpu.power"] for row in answer.table.rows()] == [400, 500]
    least = assay.minimize(COST, over, **FIXTURE)
    assert least.optimum.choices["gpu.power"] == 400


def test_axes_without_a_unit_are_numbers() -> None:
    answer = assay.sweep([COST], {"training.gpus": ["8", "16 GPU"]}, **FIXTURE)
    assert len(list(answer.table.rows())) == 2
    with pytest.raises(AssayError, match=r"gpu\.power has no unit"):
        assay.sweep([COST], {"gpu.power": [400, 500]}, **FIXTURE)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: assay.sweep([COST], {}), 'over={"training.gpus": "8,16,32 GPU"}'),
        (lambda: assay.sweep([COST], ["gpu.power"]), 'write over={"name": "values"}'),
        (lambda: assay.resolve(COST, preset=["a", "b"]), "includes GROUP/NAME adds"),
        (
            lambda: assay.pareto(COST, "gpu.power", ["gpu.clock=1,2 GHz"], maximize=["x"]),
            "maximize: expected one of the two targets",
        ),
        (lambda: assay.predict_step("llama-3.1-70b", "h100"), "it fits with tensor=2"),
    ],
)
def test_refusals_name_arguments(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(AssayError) as caught:
        ask()
    text = f"{caught.value.message} {caught.value.hint}"
    assert said in text
    assert "--" not in text


def test_missing_inputs_are_asked_for_in_python() -> None:
    problem = assay.resolve(COST).problem
    assert problem is not None
    assert problem.hint == ('give each a value with assign={"name": "value unit"}, or use preset')


@pytest.mark.parametrize("name", ["narnia", "bogus", "x"])
def test_no_far_fetched_name_is_suggested(name: str) -> None:
    known = [f"us_{state}" for state in ("california", "virginia", "nevada")] * 9
    known += ["california", "--verbose"]
    assert "did you mean" not in (unknown_name("place", name, known).hint or "")
