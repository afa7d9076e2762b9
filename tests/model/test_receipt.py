"""Shares and receipts against closed forms and against independent derivatives."""

from __future__ import annotations

import pytest
from graphs import SMOOTH, RandomGraph, random_graphs
from hypothesis import given as examples, settings

from assay import stack
from assay.model import Registry, Scope, cited, minimum
from assay.model.comparing.receipt import Receipt, make_receipt
from assay.model.comparing.sensitivity import sensitivities
from assay.model.comparing.shares import shares
from assay.model.inputs import Inputs, read_inputs
from assay.model.resolving.resolve import make_resolver
from assay.scenario import built_in

BOOK = cited("A Book", "p. 1")


def bill() -> Registry:
    """Total = machines + power * price / yield; power = chips * watts."""
    scope = Scope("s", "a bill")
    inputs = {
        name: scope.variable(name, name, "1", name, boundary="scenario", reference=BOOK)
        for name in ("machines", "chips", "watts", "price", "output")
    }
    power = scope.variable(
        "power", "P", "1", "power", equals=inputs["chips"] * inputs["watts"], reference=BOOK
    )
    total = inputs["machines"] + power * inputs["price"] / inputs["output"]
    scope.variable("total", "T", "1", "total", equals=total, reference=BOOK, target=True)
    return Registry.from_scopes([scope])


GIVEN = {"s.machines": 60.0, "s.chips": 4.0, "s.watts": 5.0, "s.price": 8.0, "s.output": 4.0}


def receipt_of(registry: Registry, target: str, given: dict[str, float | str]) -> Receipt:
    resolver = make_resolver(registry, read_inputs(registry, given), {})
    return make_receipt(resolver, target)


def test_terms_divide_the_total_and_factors_carry_it_whole() -> None:
    found = receipt_of(bill(), "s.total", dict(GIVEN))
    # 60 + 4 * 5 * 8 / 4 = 100: machines are 60 % of it, each factor of the rest 40 %.
    assert found.resolution.value == 100.0
    assert {name: line.share for name, line in found.lines.items()} == {
        "s.total": pytest.approx(1.0), "s.machines": pytest.approx(0.6),
        "s.power": pytest.approx(0.4), "s.price": pytest.approx(0.4),
        "s.output": pytest.approx(-0.4), "s.chips": pytest.approx(0.4),
        "s.watts": pytest.approx(0.4),
    }  # fmt: skip
    assert {i.name: i.share for i in found.lines["s.power"].inputs} == {
        "s.chips": pytest.approx(1.0), "s.watts": pytest.approx(1.0),
    }  # fmt: skip


def test_tree_has_large_shares_first_and_leaves_out_small_ones() -> None:
    found = receipt_of(bill(), "s.total", dict(GIVEN))
    assert [(p.line.entry.variable.name, p.depth) for p in found.paths(5, 0.5)] == [
        ("s.total", 0), ("s.machines", 1),
    ]  # fmt: skip
    names = [p.line.entry.variable.name for p in found.paths(1, 0.0)]
    assert names[:2] == ["s.total", "s.machines"]
    assert set(names) == {"s.total", "s.machines", "s.power", "s.price", "s.output"}


def test_branch_not_taken_has_no_share() -> None:
    scope = Scope("s", "a roofline")
    a, b = (
        scope.variable(name, name, "1", name, boundary="scenario", reference=BOOK) for name in "ab"
    )
    scope.variable("y", "y", "1", "bound", equals=minimum(a, b), reference=BOOK, target=True)
    found = receipt_of(Registry.from_scopes([scope]), "s.y", {"s.a": 2.0, "s.b": 3.0})
    assert (found.lines["s.a"].share, found.lines["s.b"].share) == (1.0, 0.0)


def test_shares_pass_through_a_simultaneous_block() -> None:
    scope = Scope("s", "heat that leaks back")
    a = scope.variable("a", "a", "1", "input", boundary="scenario", reference=BOOK)
    x = scope.variable("x", "x", "1", "power", reference=BOOK)
    y = scope.variable("y", "y", "1", "leakage", equals=x / 2, reference=BOOK)
    scope.equation(x, a + y, reference=BOOK)
    scope.simultaneous("loop", [x, y])
    scope.variable("z", "z", "1", "target", equals=x**3, reference=BOOK, target=True)
    found = receipt_of(Registry.from_scopes([scope]), "s.z", {"s.a": 5.0})
    # x = 2 a, z = 8 a^3: by hand dz/dy = 3 x^2 / (1 - 1/2).
    assert found.resolution.value == pytest.approx(1000.0)
    assert found.lines["s.a"].share == pytest.approx(3.0)
    assert found.lines["s.y"].share == pytest.approx(3 * 100 * 2 * 5 / 1000)


def test_fixed_point_and_drawn_variable() -> None:
    scope = Scope("s", "a fixed point of a drawn variable")
    a = scope.variable("a", "a", "1", "input", boundary="scenario", reference=BOOK)
    d = scope.variable("d", "d", "1", "drawn", reference=BOOK)
    scope.stochastic(d, "lognormal", a, 1.0, reference=BOOK)
    x = scope.variable("x", "x", "1", "fixed point", reference=BOOK)
    scope.iterative(x, x / 4 + d, start=1, reference=BOOK)
    scope.variable("z", "z", "1", "target", equals=x * x, reference=BOOK, target=True)
    registry = Registry.from_scopes([scope])
    resolver = make_resolver(registry, Inputs({"s.a": 1.0}), {})
    found = make_receipt(resolver, "s.z", intervals=False)
    assert found.lines["s.d"].share == pytest.approx(2.0)
    assert found.lines["s.x"].inputs[0].share == pytest.approx(1.0)
    # A drawn variable does not follow its parameters by a slope, and the receipt says so.
    assert found.lines["s.d"].inputs[0].share is None
    assert found.notes == ("no share below s.d: its relation has no slope",)


def test_missing_input_and_zero_total_have_no_shares() -> None:
    partial = {name: value for name, value in GIVEN.items() if name != "s.price"}
    found = receipt_of(bill(), "s.total", dict(partial))
    assert found.resolution.value is None
    assert {line.share for line in found.lines.values()} == {None}
    assert found.lines["s.price"].entry.status == "missing"
    nothing = receipt_of(bill(), "s.total", {**GIVEN, "s.machines": 0.0, "s.price": 0.0})
    assert {line.share for line in nothing.lines.values()} == {None}


def test_intervals_of_lines_are_those_of_their_distributions() -> None:
    found = receipt_of(bill(), "s.total", {**GIVEN, "s.watts": "4..6"})
    line = found.lines["s.power"]
    assert (line.lower, line.upper) == (pytest.approx(16, rel=2e-3), pytest.approx(24, rel=2e-3))
    assert (found.lines["s.machines"].lower, found.lines["s.machines"].upper) == (60.0, 60.0)


def moved(graph: RandomGraph, name: str, factor: float, target: str) -> float:
    """The target by plain Python, with one variable multiplied by a factor."""
    values = {n: v * (factor if n == name else 1.0) for n, v in graph.point.items()}
    for each, function, operands in graph.formulas:
        value = float(function(*(values[operand] for operand in operands)))
        values[each] = value * (factor if each == name else 1.0)
    return values[target]


@settings(max_examples=40, deadline=None)
@examples(random_graphs(SMOOTH))
def test_shares_are_the_changes_that_plain_python_sees(graph: RandomGraph) -> None:
    target = graph.targets[-1]
    found = shares(graph.registry, graph.registry.resolve(target, graph.point, {}))
    total = moved(graph, target, 1.0, target)
    step = 1e-5
    for name, share in found.of_target.items():
        ahead, behind = (moved(graph, name, 1 + sign * step, target) for sign in (1, -1))
        expected = (ahead - behind) / (2 * step * total)
        assert share == pytest.approx(expected, rel=1e-5, abs=1e-6), name


def test_shares_of_a_whole_scenario_agree_with_sensitivities() -> None:
    preset = built_in.preset("llama3_8b_h200_serving")
    target = "econ.cost.per_output_token"
    resolution = stack.registry().resolve(target, preset.exact_inputs.values, preset.variants)
    found = shares(stack.registry(), resolution)
    inputs = Inputs(dict(preset.exact_inputs.values))
    expected = sensitivities(stack.registry(), target, inputs, preset.variants)
    assert len(expected.inputs) > 50
    for item in expected.inputs:
        if item.elasticity is not None:
            assert found.of_target[item.variable.name] == pytest.approx(item.elasticity, abs=1e-12)
