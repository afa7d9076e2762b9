"""Keywords that a public function does not take: refused by name, with the nearest that it takes."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

import assay
from assay.errors import InputError
from assay.keywords import UnknownKeywordError
from assay.scenario.question import Given, read_question

TARGET = "econ.cost.per_token"
PRESET = {"preset": "dense_training_cost_fixture"}
OVER = {"gpu.power": "400,500 W/GPU"}


@pytest.mark.parametrize(
    ("function", "keyword", "nearest"),
    [
        (partial(assay.predict_step, "llama-3.1-8b", "h200"), "batch", "sequences"),
        (partial(assay.predict_step, "llama-3.1-8b", "h200"), "sequence", "sequences"),
        (partial(assay.predict_step, "llama-3.1-8b", "h200"), "weight_dtype", "dtype"),
        (
            partial(assay.sweep_steps, "llama-3.1-8b", ["h200"], {"sequences": [1]}),
            "tensr",
            "tensor",
        ),
        (partial(assay.predict_load, "llama-3.1-8b", "h200", [1.0]), "promt", "prompt"),
        (
            partial(assay.plan_capacity, model="llama-3.1-8b", rate=1),
            "max_cost",
            "max_usd_per_hour",
        ),
        (partial(assay.plan_by_limits, model="llama-3.1-8b", rate=1), "engine", "engines"),
        (partial(assay.load_server, "http://127.0.0.1:1"), "workloads", "workload"),
        (partial(assay.find_load, "http://127.0.0.1:1", "max-rate"), "sloo", "slo"),
        (
            partial(assay.estimate, "llama-3.1-8b", "h100_sxm", "15T", "us_virginia"),
            "elecricity",
            "electricity",
        ),
        (partial(assay.resolve, TARGET), "presets", "preset"),
        (partial(assay.explain, TARGET), "assigned", "assign"),
        (partial(assay.receipt, TARGET), "assig", "assign"),
        (partial(assay.solve, ["gpu.power"], {}), "pressets", "preset"),
        (partial(assay.sensitivity, TARGET), "steps", "step"),
        (partial(assay.minimize, TARGET, OVER), "alternative", "alternatives"),
        (partial(assay.sweep, [TARGET], OVER), "presets", "preset"),
        (partial(assay.pareto, TARGET, "econ.run.duration", OVER), "presets", "preset"),
        (partial(assay.cone, TARGET), "depths", "depth"),
        (partial(assay.root_debt), "family", "families"),
        (partial(assay.walk, "gpu.power", TARGET), "presets", "preset"),
        (partial(assay.atlas), "targets", "target"),
        (partial(assay.predict_workload, "order-book"), "sizes", "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_keyword_is_named_with_the_nearest(
    function: Callable[..., Any], keyword: str, nearest: str
) -> None:
    with pytest.raises(UnknownKeywordError) as caught:
        function(**{keyword: 1})
    assert f'unknown keyword "{keyword}"' in str(caught.value)
    assert str(caught.value.hint).startswith(f"did you mean {nearest}")
    # Code that catches what Python raises, or what Assay raises, catches this one.
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, InputError)


def test_a_keyword_that_would_change_nothing_is_refused() -> None:
    """The rates decide how many sequences decode."""
    with pytest.raises(UnknownKeywordError, match="sequences"):
        assay.predict_load("llama-3.1-8b", "h200", [1.0], sequences=64)


def test_every_keyword_that_is_listed_is_taken() -> None:
    with pytest.raises(UnknownKeywordError) as caught:
        assay.resolve(TARGET, nothing_like_it=1)  # type: ignore[call-arg]
    known = str(caught.value.hint).removeprefix("known: ").split(", ")
    assert {"preset", "assign", "variant", "includes", "offer", "switch"} <= set(known)
    assert read_question(**dict.fromkeys(Given.__annotations__)) is not None  # type: ignore[arg-type]


def test_known_keywords_pass_through_by_position_and_name() -> None:
    by_name = assay.predict_step(model="llama-3.1-8b", gpu="h200", sequences=8)
    by_position = assay.predict_step("llama-3.1-8b", "h200", sequences=8)
    assert [field.name for field in fields(by_name)]
    assert by_name.headline() == by_position.headline()
    assert "8 decoding" in by_name.headline()
