"""Counts are whole, differences have no zero point, and branches not taken need nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay import stack
from assay.errors import AssayError, DeclarationError, InputError, MissingInputsError
from assay.model.language.functions import where
from assay.model.language.quantity import as_difference, parse_quantity
from assay.model.language.scope import Scope
from assay.model.optimizing.sweep import sweep
from assay.model.registry import Registry
from assay.model.uncertainty.propagate import propagate


def build() -> Registry:
    scope = Scope("s", "a test")
    machines = scope.variable("machines", "n", "1", "machines", nature="count", bounds=(1, None))
    work = scope.variable("work", "w", "h", "work")
    rise = scope.variable("rise", "dT", "K", "a rise", nature="difference")
    base = scope.variable("base", "T", "K", "a temperature", display="degC")
    scope.variable("time", "t", "h", "time of all", equals=work / machines)
    scope.variable("top", "T_1", "K", "the highest temperature", display="degC", equals=base + rise)
    wet = scope.variable("wet", "f", "1", "1: wet cooling")
    water = scope.variable("water", "m", "kg", "water")
    air = scope.variable("air", "a", "kg", "air")
    chosen = scope.variable("chosen", "c", "kg", "coolant", equals=where(wet > 0.5, water, air))
    scope.variable("double", "d", "kg", "twice", equals=2 * chosen)
    return Registry.from_scopes([scope])


@given(st.floats(0, 1000))
def test_a_difference_in_degrees_celsius_is_one_in_kelvin(size: float) -> None:
    registry = build()
    known = {"s.base": "20 degC", "s.rise": f"{size!r} degC"}
    in_kelvin = {"s.base": "20 degC", "s.rise": f"{size!r} K"}
    assert registry.resolve("s.top", known).value == registry.resolve("s.top", in_kelvin).value


def test_distributions_and_quantities_of_a_difference() -> None:
    registry = build()
    for text in ("8..12 degC", "normal(10, 1) degC", "uniform(8, 12) degC"):
        resolution = registry.resolve("s.top", {"s.base": "20 degC", "s.rise": text})
        assert resolution.value is not None
        assert resolution.value == pytest.approx(303, abs=0.5)
    quantity = parse_quantity("10 degC")
    assert registry.resolve("s.rise", {"s.rise": quantity}).value == pytest.approx(10)
    assert as_difference(parse_quantity("10 K")) == parse_quantity("10 K")


def test_every_temperature_difference_of_the_stack_is_declared() -> None:
    registry = stack.registry()
    words = (
        "rise",
        "approach",
        "lift",
        "range of",
        "difference",
        "how far",
        "change of temperature",
    )
    for variable in registry.variables.values():
        if variable.unit.text == "K":
            assert variable.is_difference == any(w in variable.meaning for w in words), (
                variable.name
            )
    given = {"thermal.coolant.rise": "10 degC"}
    assert registry.resolve("thermal.coolant.rise", given).value == pytest.approx(10)


@pytest.mark.parametrize("text", ["7.5", "0.999", "uniform(7.5, 7.5)"])
def test_a_count_is_whole(text: str) -> None:
    registry = build()
    if text.startswith("uniform"):
        resolution = registry.resolve("s.machines", {"s.machines": text})
        assert resolution.value == 8
        return
    with pytest.raises(InputError, match=r"s\.machines: expected"):
        registry.resolve("s.time", {"s.machines": text, "s.work": "10 h"})


def test_half_a_gpu_is_refused_with_both_neighbors() -> None:
    with pytest.raises(
        InputError, match=r"training.gpus: expected a whole number, got 7.5 GPU"
    ) as e:
        stack.registry().resolve("training.gpus", {"training.gpus": "7.5 GPU"})
    assert e.value.hint == "write 7 GPU or 8 GPU"


def test_samples_of_a_count_are_whole() -> None:
    registry = build()
    found = propagate(registry, ["s.machines"], {"s.machines": "uniform(1, 5)"}, {}, count=256)
    assert set(np.unique(found.samples[0])) <= {1.0, 2.0, 3.0, 4.0, 5.0}


@given(st.floats(1.1, 500))
def test_solve_returns_the_whole_values_on_either_side(time: float) -> None:
    registry = build()
    solution = registry.solve(["s.machines"], {"s.work": "1000 h"}, {"s.time": f"{time!r} h"})
    exact = 1000 / time
    if exact == pytest.approx(round(exact), rel=1e-8):
        return
    below, above = solution.whole
    assert (below.values["s.machines"], above.values["s.machines"]) == (exact // 1, exact // 1 + 1)
    assert below.resolutions["s.time"].require_value() > time * 3600
    assert above.resolutions["s.time"].require_value() < time * 3600
    assert solution.to_data()["whole"][0]["unknowns"][0]["value"] == exact // 1


def test_ranges_and_grids_of_a_count_are_whole() -> None:
    registry = build()
    best = registry.minimize("s.time", {"s.machines": (1.5, 6.5)}, {"s.work": "1000 h"})
    assert best.choices == {"s.machines": 6.0}
    assert best.points == 5
    table = sweep(registry, "s.time", {"s.machines": (1, 100, 4, "log")}, {"s.work": "1 h"}, {})
    assert list(table.columns["s.machines"]) == [1, 5, 22, 100]
    with pytest.raises(InputError, match="more than 100,000"):
        registry.minimize("s.time", {"s.machines": (1, 1e9)}, {"s.work": "1 h"})


def test_a_branch_not_taken_needs_no_inputs() -> None:
    registry = build()
    resolution = registry.resolve("s.double", {"s.wet": 1, "s.water": "3 kg"})
    assert resolution.value == 6
    assert not resolution.missing
    lacking = registry.resolve("s.double", {"s.wet": 0, "s.water": "3 kg"})
    assert lacking.value is None
    assert [gap.variable.name for gap in lacking.missing] == ["s.air"]
    undecided = registry.resolve("s.double", {"s.water": "3 kg"})
    assert {gap.variable.name for gap in undecided.missing} == {"s.wet", "s.air"}


def test_many_points_need_only_the_branch_taken() -> None:
    registry = build()
    known = {"s.wet": 1}
    table = sweep(registry, "s.double", {"s.water": ["1 kg", "2 kg"]}, known, {})
    assert list(table.columns["s.double"]) == [2, 4]
    best = registry.minimize("s.double", {"s.water": ["1 kg", "2 kg"]}, known)
    assert best.value == 2
    found = registry.resolve("s.double", {"s.wet": 1, "s.water": "1..2 kg"})
    assert found.lower == pytest.approx(2, rel=1e-2)
    assert found.upper == pytest.approx(4, rel=1e-2)
    with pytest.raises(MissingInputsError):
        sweep(registry, "s.double", {"s.water": ["1 kg"]}, {"s.wet": 0}, {})
    mixed = sweep(registry, "s.double", {"s.wet": [1, 0]}, {"s.water": "1 kg"}, {})
    assert mixed.to_data()["rows"][1]["s.double"] is None


@given(st.floats(0.01, 100), st.booleans())
def test_solve_needs_only_the_branch_taken(required: float, wet: bool) -> None:
    registry = build()
    taken, other = ("s.water", "s.air") if wet else ("s.air", "s.water")
    at = {"s.double": f"{required!r} kg"}
    solution = registry.solve([taken], {"s.wet": float(wet)}, at)
    assert solution.values[taken] == pytest.approx(required / 2)
    with pytest.raises(MissingInputsError) as caught:
        registry.solve([other], {"s.wet": float(wet)}, at)
    assert list(caught.value.names) == [taken]
    # What decides the choice is asked for as well, with both branches.
    with pytest.raises(MissingInputsError) as undecided:
        registry.solve([taken], {}, at)
    assert set(undecided.value.names) == {"s.wet", other}


def test_an_unknown_nature_is_refused() -> None:
    with pytest.raises(DeclarationError, match='unknown nature "half"'):
        Scope("s", "").variable("a", "a", "1", "", nature="half")


def test_explain_leaves_out_the_branch_not_taken() -> None:
    from assay.model.resolving.provenance import explain

    registry = build()
    resolution = registry.resolve("s.double", {"s.wet": 1, "s.water": "3 kg"})
    names = [entry.variable.name for entry in explain(registry, resolution).entries]
    assert names == ["s.double", "s.chosen", "s.wet", "s.water"]


def test_errors_are_one_line() -> None:
    with pytest.raises(AssayError) as caught:
        build().minimize("s.time", {"s.machines": (1.2, 1.8)}, {"s.work": "1 h"})
    assert "there is no whole number from 1.2 to 1.8" in caught.value.message
