"""Model errors of a case use nothing of its source; they are wider where less is known."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from assay.catalog import constants, engines
from assay.model.inputs import Inputs
from assay.model.language.distributions import Z90, Distribution
from assay.validate.assumed import count_assumed
from assay.validate.cases import Case
from assay.validate.fitting.model_error_spreads import (
    Residual,
    coverage,
    degrees_of_freedom,
    fit_spreads,
    student_factor,
)
from assay.validate.folds import folds, folds_file
from assay.validate.model_error import spreads_without_source, with_constants, with_spreads


def residual(log: float, source: str = "a", level: str = "base", **features: float) -> Residual:
    return Residual("a-1", source, level, log, 0.0, {"base": 1.0, **features})


def test_spread_holds_nine_in_ten_draws_of_a_known_distribution() -> None:
    draws = np.random.default_rng(0).normal(0, 0.2, 2000)
    found = fit_spreads([residual(float(log), f"s{n % 20}") for n, log in enumerate(draws)])
    assert found["base"] == pytest.approx(0.2, rel=0.06)


def test_a_feature_takes_what_its_residuals_have_more() -> None:
    random = np.random.default_rng(1)
    # Of two sources each: a level that one source alone knows keeps its most probable spread.
    plain = [
        residual(float(log), f"source{n % 2}") for n, log in enumerate(random.normal(0, 0.1, 1500))
    ]
    wide = [
        residual(float(log), f"source{n % 2}", level="kind", kind=1.0)
        for n, log in enumerate(random.normal(0, math.hypot(0.1, 0.3), 1500))
    ]
    found = fit_spreads([*plain, *wide])
    assert found["base"] == pytest.approx(0.1, rel=0.1)
    assert found["kind"] == pytest.approx(0.3, rel=0.1)
    assert coverage(wide, found) == pytest.approx(0.9, abs=0.01)


def test_known_spreads_stay_and_explained_variance_is_not_counted_twice() -> None:
    draws = np.random.default_rng(2).normal(0, 0.5, 2000)
    found = fit_spreads(
        [
            Residual("a-1", f"s{n % 20}", "base", float(log), 0.3, {"base": 1.0, "far": 1.0})
            for n, log in enumerate(draws)
        ],
        {"far": 0.2},
    )
    assert found["far"] == 0.2
    assert found["base"] == pytest.approx(math.sqrt(0.25 - 0.09 - 0.04), rel=0.06)


def test_large_sources_do_not_decide_alone() -> None:
    many = [residual(0.01, "many") for _ in range(400)]
    others = [residual(0.5, f"other{n}") for n in range(10)]
    found = fit_spreads([*many, *others])
    factor = student_factor([*many, *others])
    assert Z90 * found["base"] == pytest.approx(0.5 * factor, rel=0.01)


def test_sources_of_one_figure_count_as_their_number() -> None:
    three = [residual(log, f"source{n}") for n, log in enumerate((0.1, -0.3, 0.2))]
    assert degrees_of_freedom(three) == pytest.approx(3)
    assert student_factor(three) == pytest.approx(2.353 / 1.645, rel=1e-3)


def test_figures_count_where_sources_agree() -> None:
    draws = np.random.default_rng(3).normal(0, 0.2, 300)
    same = [residual(float(log), f"source{n % 3}") for n, log in enumerate(draws)]
    assert degrees_of_freedom(same) > 100
    apart = [
        residual(float(log) + 5 * (n % 3 - 1), f"source{n % 3}") for n, log in enumerate(draws)
    ]
    assert degrees_of_freedom(apart) == pytest.approx(3, rel=0.05)


def test_one_source_keeps_the_most_probable_spread() -> None:
    alone = fit_spreads([residual(log) for log in (0.3, 0.5, 0.4)])["base"]
    assert 0.1 < alone < 0.6
    assert alone != pytest.approx(0.5 / Z90, rel=0.05)


def test_intervals_hold_figures_of_a_source_that_is_not_among_three() -> None:
    random, inside = np.random.default_rng(4), []
    for _ in range(60):
        means = random.normal(0, 0.2, 4)
        logs = means[:, None] + random.normal(0, 0.1, (4, 6))
        known = [residual(float(log), f"s{n}") for n in range(3) for log in logs[n]]
        found = fit_spreads(known)
        inside.append(coverage([residual(float(log), "new") for log in logs[3]], found))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)


def test_other_constants_keep_their_spread_and_errors_are_replaced() -> None:
    spread = Distribution("lognormal", (2.0, 0.1))
    error = Distribution("lognormal", (1.0, 0.5))
    inputs = Inputs(
        {"a": 2.0, "x.model_error.fit": 1.0, "x.model_error.transfer": 1.0},
        {"a": spread, "x.model_error.fit": error, "x.model_error.transfer": error},
        {},
    )
    found = with_spreads(
        with_constants(inputs, {"a": 3.0, "b": 1.0}),
        {"x.model_error.fit": 0.2, "x.model_error.other": 0.4},
    )
    assert found.values["a"] == 3.0
    assert "b" not in found.values
    assert found.distributions == {
        "a": Distribution("lognormal", (3.0, 0.1)),
        "x.model_error.fit": Distribution("lognormal", (1.0, 0.2)),
    }


def test_fold_of_a_source_has_no_transfer_on_systems_that_others_have() -> None:
    fold = next(fold for fold in folds("model_error") if fold.constants["seen"]["training"])
    system = fold.constants["seen"]["training"][0]
    document = json.loads(folds_file("model_error").read_text())
    assert {one["group"] for one in document["folds"]} == {
        one.group for one in folds("model_error")
    }
    name = fold.group.split("/", 1)
    url = f"https://{fold.group}" if len(name) > 1 else f"https://{fold.group}/page"
    if fold.group.startswith("arxiv.org/"):
        url = f"https://arxiv.org/abs/{name[1]}"
    case = Case("x-1", "training", {}, {}, {"url": url})
    seen = spreads_without_source(case, "training", system)
    unseen = spreads_without_source(case, "training", "no_such_system")
    assert seen is not None
    assert unseen is not None
    assert unseen.keys() - seen.keys() == {"training.model_error.transfer"}
    assert spreads_without_source(Case("y-1", "training", {}, {}), "training", system) is None


def test_every_command_has_the_spreads_of_one_file() -> None:
    assert constants.find("l40s").log_standard_errors["training.model_error.transfer"] > 0.05
    assert "training.model_error.transfer" not in constants.find("h100_sxm").log_standard_errors
    for client in engines.clients():
        assert engines.find("vllm", client).log_standard_errors["serving.model_error.step"] > 0.05


@pytest.mark.parametrize(
    ("notes", "count"),
    [
        (["network not stated: the usual one", "network not stated: the usual one"], 1),
        (["undated source: software of 2023.5 assumed", "micro-batch not stated: the best"], 2),
        (["no engine is named: vllm", "the client is not stated: a closed loop"], 2),
        (["shapes of llama-3.1-8b from the catalog", "no fit of serving has seen x"], 0),
    ],
)
def test_notes_on_defaults_are_counted(notes: list[str], count: int) -> None:
    assert count_assumed(notes) == count
