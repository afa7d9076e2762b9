"""Sweeps, against resolving every row."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest

from assay import stack
from assay.errors import AssayError, InputError, MissingInputsError
from assay.model import ANY_SIGN, POSITIVE, Registry, Scope, Symbol, log, number
from assay.model.optimizing.sweep import sweep
from assay.scenario import built_in

COST, ENERGY = "econ.cost.per_token", "econ.run.energy"


def test_every_row_agrees_with_resolve() -> None:
    registry, preset = stack.registry(), built_in.preset("dense_training_cost_fixture")
    over = {
        "training.gpus": ["4 GPU", "8 GPU", "16 GPU"],
        "econ.electricity.price": ("0.1 USD/kWh", "0.4 USD/kWh", 4),
    }
    table = sweep(registry, [COST, ENERGY], over, preset.given, preset.variants)
    assert len(table) == 12
    assert table.units[ENERGY] == "kWh"
    points = product(["4 GPU", "8 GPU", "16 GPU"], [0.1, 0.2, 0.3, 0.4])
    for row, (gpus, price) in zip(table.rows(), points, strict=True):
        assert row["training.gpus"] == float(gpus.split()[0])
        assert row["econ.electricity.price"] == pytest.approx(price)
        known = {
            **preset.given,
            "training.gpus": gpus,
            "econ.electricity.price": f"{price} USD/kWh",
        }
        for name in (COST, ENERGY):
            resolution = registry.resolve(name, known, preset.variants)
            assert row[name] == pytest.approx(resolution.to_data()["value"], rel=1e-12)
        violated = {
            verdict.name for verdict in registry.resolve(COST, known, preset.variants).violated
        }
        assert set(row["violated"]) == violated
        assert row["constraints"] == ("false" if violated else "true")


def small() -> Registry:
    scope = Scope("s", "a test")
    a = scope.variable("a", "a", "s", "", bounds=POSITIVE, display="ms")
    b, c = (scope.variable(n, n, "1", "", bounds=ANY_SIGN) for n in "bc")
    scope.variable(
        "t", "t", "K", "", equals=number("273.15 K") + a * number("1 K/s"), display="degC"
    )
    scope.variable("l", "l", "1", "", equals=log(b), bounds=ANY_SIGN)
    scope.inequality("with_c", b <= c, "needs c")
    return Registry.from_scopes([scope])


def test_axes_have_the_given_spacing() -> None:
    table = sweep(small(), "s.t", {"s.a": ("1 ms", "1 s", 4, "log")}, {}, {})
    assert table.columns["s.a"] == pytest.approx([1, 10, 100, 1000])
    assert table.columns["s.t"] == pytest.approx([1e-3, 1e-2, 0.1, 1.0], rel=1e-9)
    linear = sweep(small(), "s.t", {"s.a": ("1 s", "3 s", 3)}, {}, {})
    assert linear.columns["s.a"] == pytest.approx([1000, 2000, 3000])


def test_rows_without_a_value_say_so() -> None:
    table = sweep(small(), "s.l", {"s.b": [-1, 0, 1, math.e]}, {"s.c": 2}, {})
    assert np.isnan(table.columns["s.l"][:2]).all()
    assert table.columns["s.l"][2:] == pytest.approx([0, 1])
    assert list(table.verdicts) == ["unknown", "unknown", "true", "false"]
    rows = table.to_data()["rows"]
    assert rows[0]["s.l"] is None
    assert rows[0]["violated"] == []
    assert rows[3]["violated"] == ["s.with_c"]
    json.dumps(table.to_data(), allow_nan=False)


def test_constraints_that_lack_inputs_are_unknown() -> None:
    table = sweep(small(), "s.l", {"s.b": [1, 2]}, {}, {})
    assert [verdict.missing for verdict in table.unknown] == [("s.c",)]
    assert list(table.verdicts) == ["true", "true"]


def test_a_cone_that_cannot_be_compiled_is_resolved_row_by_row() -> None:
    scope = Scope("s", "a test")
    rate = scope.variable("rate", "k", "1/s", "", bounds=POSITIVE)
    left = scope.variable("left", "x", "1", "")
    time = scope.variable("time", "t", "s", "")
    scope.differential(
        left, -rate * left, time=Symbol("tau"), time_like=time,
        initial=number("1 1"), start=number("0 s"), end=time,
    )  # fmt: skip
    registry = Registry.from_scopes([scope])
    table = sweep(registry, "s.left", {"s.rate": [0.5, 1, 2], "s.time": [1, 2]}, {}, {})
    expected = [math.exp(-k * t) for k, t in product([0.5, 1, 2], [1, 2])]
    assert table.columns["s.left"] == pytest.approx(expected, rel=1e-7)
    assert "differential relation s.left" in table.notes[0]
    with pytest.raises(InputError, match="too many to resolve one by one"):
        sweep(registry, "s.left", {"s.rate": ("1 1/s", "2 1/s", 30_000)}, {"s.time": 1}, {})


@pytest.mark.parametrize(
    ("over", "error", "message"),
    [
        ({}, InputError, "nothing to sweep"),
        ({"s.b": (1, 2)}, InputError, "expected .start, stop, count, spacing."),
        ({"s.b": (1, 2, 0)}, InputError, "expected a positive count of values, got 0"),
        ({"s.b": (1, 2, 3, "cubic")}, InputError, 'unknown spacing "cubic"'),
        ({"s.b": (-1, 2, 3, "log")}, InputError, "a log spacing needs positive ends"),
        ({"s.b": (1, 2, 3_000_000)}, InputError, "3000000 points, more than the limit"),
        ({"s.a": [1, 2]}, MissingInputsError, "cannot be swept without 1 more inputs: s.b"),
        ({"s.x": [1, 2]}, AssayError, 'unknown variable "s.x"'),
    ],
)
def test_invalid_sweeps_are_refused(
    over: dict[str, object], error: type[AssayError], message: str
) -> None:
    with pytest.raises(error, match=message):
        sweep(small(), "s.l", over, {}, {})
