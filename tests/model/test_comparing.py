"""Differences and sensitivities against closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given as examples, settings, strategies as st

from assay.errors import InputError, MissingInputsError
from assay.model import Registry, Scope, cited, maximum
from assay.model.comparing.difference import Side, difference
from assay.model.comparing.sensitivity import sensitivities
from assay.model.inputs import read_inputs

BOOK = cited("A Book", "p. 1")


def power_law(count: int) -> Registry:
    """The target is the product of x0^1, x1^2, x2^3 and so on."""
    scope = Scope("s", "a product of powers")
    xs = [
        scope.variable(f"x{i}", "x", "1", f"factor {i}", boundary="scenario", reference=BOOK)
        for i in range(count)
    ]
    product = xs[0]
    for i, x in enumerate(xs[1:], start=2):
        product = product * x**i
    scope.variable("y", "y", "1", "product", equals=product, reference=BOOK, target=True)
    return Registry.from_scopes([scope])


def values(*numbers: float) -> dict[str, float]:
    return {f"s.x{i}": number for i, number in enumerate(numbers)}


def test_two_factors_share_their_interaction_evenly() -> None:
    registry = power_law(2)
    found = difference(registry, "s.y", Side(values(2, 3)), Side(values(5, 4)))
    # f = a b^2: the Shapley value of a is its change times the mean of b^2, and likewise for b^2.
    amounts = {item.label: item.amount for item in found.contributions}
    assert amounts["s.x0"] == pytest.approx((5 - 2) * (9 + 16) / 2)
    assert amounts["s.x1"] == pytest.approx((16 - 9) * (2 + 5) / 2)


@settings(max_examples=30, deadline=None)
@examples(st.data(), st.integers(1, 16))
def test_contributions_sum_to_the_difference(data: st.DataObject, count: int) -> None:
    registry = power_law(count)
    sides = [
        Side(values(*data.draw(st.lists(st.floats(0.9, 1.1), min_size=count, max_size=count))))
        for _ in range(2)
    ]
    found = difference(registry, "s.y", sides[0], sides[1])
    total = math.fsum(item.amount for item in found.contributions)
    assert total == pytest.approx(found.after - found.before, rel=1e-9, abs=1e-12)
    assert (found.orders is None) == (len(found.contributions) <= 12)


def test_changes_with_one_label_are_one_contribution() -> None:
    found = difference(
        power_law(3), "s.y", Side(values(1, 1, 1)), Side(values(2, 2, 2)),
        {"s.x0": "entry", "s.x1": "entry"},
    )  # fmt: skip
    assert {item.label: len(item.changes) for item in found.contributions} == {
        "entry": 2, "s.x2": 1,
    }  # fmt: skip


def test_pinned_value_against_a_computed_one() -> None:
    scope = Scope("s", "a pinned intermediate")
    a = scope.variable("a", "a", "1", "input", boundary="scenario", reference=BOOK)
    b = scope.variable("b", "b", "1", "doubled input", equals=2 * a, reference=BOOK)
    scope.variable("y", "y", "1", "sum", equals=a + b, reference=BOOK, target=True)
    registry = Registry.from_scopes([scope])
    found = difference(registry, "s.y", Side({"s.a": 1.0, "s.b": 5.0}), Side({"s.a": 2.0}))
    assert (found.before, found.after) == (6.0, 6.0)
    amounts = {item.label: item.amount for item in found.contributions}
    # Unpinning b changes it to 2 a: to 2 before and to 4 after the change of a.
    assert amounts == {"s.b": pytest.approx(-2.0), "s.a": pytest.approx(2.0)}


def test_changes_that_do_not_reach_the_target_are_unused() -> None:
    scope = Scope("s", "a maximum and a stranger")
    a = scope.variable("a", "a", "1", "input", boundary="scenario", reference=BOOK)
    scope.variable("z", "z", "1", "stranger", boundary="scenario", reference=BOOK, library=True)
    scope.variable("y", "y", "1", "at least one", equals=maximum(a, 1), reference=BOOK, target=True)
    registry = Registry.from_scopes([scope])
    found = difference(
        registry, "s.y", Side({"s.a": 2.0, "s.z": 1.0}), Side({"s.a": 3.0, "s.z": 9.0})
    )
    assert found.unused == ("s.z",)
    assert [item.label for item in found.contributions] == ["s.a"]


def test_missing_inputs_are_named() -> None:
    with pytest.raises(MissingInputsError, match="needs 1 more"):
        difference(power_law(2), "s.y", Side(values(1, 1)), Side(values(1)))


def test_elasticities_are_the_exponents() -> None:
    registry = power_law(4)
    found = sensitivities(registry, "s.y", read_inputs(registry, values(2, 3, 4, 5)), {})
    assert {i.variable.name: i.elasticity for i in found.inputs} == {
        f"s.x{i}": pytest.approx(i + 1) for i in range(4)
    }
    first = found.inputs[0]
    assert first.variable.name == "s.x3"
    assert first.high / found.value == pytest.approx(1.1**4)


def test_uncertain_input_ranges_over_its_interval() -> None:
    registry = power_law(2)
    inputs = read_inputs(registry, {"s.x0": "2..8", "s.x1": 3.0})
    found = sensitivities(registry, "s.y", inputs, {})
    by_name = {item.variable.name: item for item in found.inputs}
    assert by_name["s.x0"].ends == (pytest.approx(2.0), pytest.approx(8.0))
    assert by_name["s.x0"].is_uncertain
    assert by_name["s.x1"].ends == (pytest.approx(2.7), pytest.approx(3.3))


@pytest.mark.parametrize("step", [0.0, 1.0, -0.5])
def test_step_outside_its_range_is_refused(step: float) -> None:
    registry = power_law(1)
    with pytest.raises(InputError, match="step: expected a number between 0 and 1"):
        sensitivities(registry, "s.y", read_inputs(registry, values(1)), {}, step=step)


@examples(st.integers(1, 500), st.floats(0.01, 0.9))
def test_counts_range_over_whole_numbers(at: int, step: float) -> None:
    scope = Scope("s", "a product")
    machines = scope.variable(
        "machines", "n", "1", "machines", nature="count", bounds=(1, None), reference=BOOK
    )
    scope.variable("y", "y", "1", "twice as many", equals=2 * machines, reference=BOOK, target=True)
    registry = Registry.from_scopes([scope])
    inputs = read_inputs(registry, {"s.machines": float(at)})
    [item] = sensitivities(registry, "s.y", inputs, {}, step=step).inputs
    low, high = item.ends
    assert low == int(low) >= 1
    assert high == int(high)
    assert abs(low - at * (1 - step)) <= 0.5 or low == 1
    assert abs(high - at * (1 + step)) <= 0.5
    assert (item.low, item.high) == (2 * low, 2 * high)
