"""Resolving: choice of relation, switches, gaps, verdicts, conflicts, errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.errors import (
    AmbiguityError,
    ConvergenceError,
    CycleError,
    EvaluationError,
    InputError,
    MissingInputsError,
    UnitError,
    UnknownNameError,
)
from assay.model import (
    ANY_SIGN,
    POSITIVE,
    Registry,
    Scope,
    Symbol,
    cos,
    equal,
    exp,
    log,
    number,
    sin,
    sqrt,
)


@pytest.fixture(scope="module")
def registry() -> Registry:
    """One relation of every kind, and variables with several of them."""
    scope = Scope("t", "every kind of relation")
    x = scope.variable("x", "x", "1", "angle", boundary="scenario", bounds=(-10, 10))
    time = scope.variable("time", "t", "s", "duration", boundary="scenario", display="h")
    power = scope.variable("power", "P", "W", "power", boundary="scenario")
    energy = scope.variable("energy", "E", "J", "energy", display="kWh", equals=power * time)
    scope.variable("inverse", "1/x", "1", "reciprocal", equals=1 / x, bounds=ANY_SIGN)
    scope.variable("root", "r", "1", "root", equals=sqrt(x), bounds=ANY_SIGN)
    scope.variable("logarithm", "l", "1", "logarithm", equals=log(x), bounds=ANY_SIGN)

    sine = scope.variable("sine", "s", "1", "sine of x", bounds=ANY_SIGN)
    scope.approximation(sine, x, name="small_angle", valid=(x < 0.1) & (x > -0.1))
    scope.approximation(sine, x - x**3 / 6, name="cubic", valid=(x < 1.0) & (x > -1.0))
    scope.approximation(sine, sin(x), name="full")

    guarded = scope.variable("guarded", "g", "1", "valid where an unknown says so")
    limit = scope.variable("limit", "lim", "1", "limit nobody gives", boundary="needs-source")
    scope.approximation(guarded, x + 1, name="near", valid=x < limit)
    scope.approximation(guarded, x + 2, name="far")

    both = scope.variable("both", "b", "1", "identity and approximation")
    scope.equation(both, x * 2, name="exact")
    scope.approximation(both, x * 2.1, name="rough")

    twice = scope.variable("twice", "w", "1", "two identities")
    scope.equation(twice, x * 2, name="twice_by_product")
    scope.equation(twice, x + x, name="twice_by_sum")

    step = scope.variable("step", "h", "1", "cases", bounds=ANY_SIGN)
    scope.piecewise(step, [(x < 0, -1), (x < 1, x)], otherwise=1 / (x - 3))
    partial = scope.variable("partial", "p", "1", "cases with a hole")
    scope.piecewise(partial, [(x < 0, 0), (x > 1, 1)])

    fixed = scope.variable("fixed", "f", "1", "x = cos(kx)", bounds=ANY_SIGN)
    scope.iterative(fixed, cos(fixed * x), start=0.5)
    running = scope.variable("running", "u", "1", "x = 2x + 1", bounds=ANY_SIGN)
    scope.iterative(running, 2 * running + x, start=1)

    decay = scope.variable("decay", "d", "1", "exponential decay")
    tau = Symbol("tau")
    scope.differential(
        decay,
        -decay / number("1 s"),
        time=tau,
        time_like=time,
        initial=1,
        start=number("0 s"),
        end=time,
    )
    drawn = scope.variable("drawn", "D", "W", "drawn power")
    scope.stochastic(drawn, "normal", power, 0.1 * power)

    a = scope.variable("a", "a", "1", "half of a loop")
    b = scope.variable("b", "b", "1", "other half")
    scope.equation(a, exp(-b * x))
    scope.equation(b, sqrt(a + 1))
    scope.simultaneous("loop", [a, b])

    egg = scope.variable("egg", "e", "1", "undeclared loop")
    hen = scope.variable("hen", "h", "1", "undeclared loop", equals=egg + 1)
    scope.equation(egg, hen - 1)

    scope.inequality("cap", power <= number("1 kW"), "power cap")
    scope.inequality("energy_cap", energy <= number("1 kWh"), "energy cap")
    bounded = scope.variable(
        "bounded", "B", "1", "must stay positive", equals=x - 1, bounds=POSITIVE
    )
    scope.variable("needs_both", "nb", "1", "needs what is missing", equals=bounded * limit)
    return Registry.from_scopes([scope])


def test_value_trace_and_units(registry: Registry) -> None:
    resolution = registry.resolve("t.energy", {"t.power": "500 W", "t.time": "2 h"})
    assert resolution.value == 3.6e6
    data = resolution.to_data()
    assert (data["value"], data["unit"], data["lo"], data["hi"]) == (1.0, "kWh", 1.0, 1.0)
    assert [step["name"] for step in data["trace"]] == ["t.power", "t.time", "t.energy"]
    assert data["trace"][-1]["text"] == "t.energy = t.power * t.time"
    assert resolution.values == {"t.power": 500.0, "t.time": 7200.0, "t.energy": 3.6e6}


def test_constraints_that_touch_the_cone(registry: Registry) -> None:
    resolution = registry.resolve("t.energy", {"t.power": "2 kW", "t.time": "1 h"})
    assert {v.name: v.status for v in resolution.constraints} == {
        "t.cap": "false",
        "t.energy_cap": "false",
    }
    assert [v.name for v in resolution.violated] == ["t.cap", "t.energy_cap"]
    unknown = registry.resolve("t.power", {"t.power": "500 W"})
    assert {v.name: v.status for v in unknown.constraints} == {"t.cap": "true"}


def test_constraint_without_all_inputs_is_unknown(registry: Registry) -> None:
    resolution = registry.resolve("t.energy", {"t.power": "500 W"})
    (cap, energy_cap) = resolution.constraints
    assert (cap.name, cap.status) == ("t.cap", "true")
    assert (energy_cap.name, energy_cap.status, energy_cap.missing) == (
        "t.energy_cap",
        "unknown",
        ("t.time",),
    )


def test_bounds_of_computed_values_are_constraints(registry: Registry) -> None:
    resolution = registry.resolve("t.bounded", {"t.x": 0.5})
    assert resolution.value == -0.5
    assert [v.name for v in resolution.violated] == ["bounds of t.bounded"]


def test_missing_inputs_are_all_named(registry: Registry) -> None:
    resolution = registry.resolve("t.needs_both")
    assert resolution.value is None
    assert [(gap.variable.name, gap.needed_by) for gap in resolution.missing] == [
        ("t.limit", ("t.needs_both",)),
        ("t.x", ("t.bounded",)),
    ]
    data = resolution.to_data()["missing"][0]
    assert (data["unit"], data["family"], data["boundary"]) == ("1", "t", "needs-source")
    with pytest.raises(MissingInputsError) as caught:
        resolution.require_value()
    assert caught.value.names == ("t.limit", "t.x")
    assert caught.value.exit_code == 3


def test_sole_identity_wins_over_approximations(registry: Registry) -> None:
    assert registry.resolve("t.both", {"t.x": 1.0}).value == 2.0
    assert registry.resolve("t.both", {"t.x": 1.0}, {"t.both": "rough"}).value == 2.1
    assert registry.resolve("t.both", {"t.x": 1.0}, {"t.both": "t.exact"}).value == 2.0


@pytest.mark.parametrize("target", ["t.twice", "t.sine"])
def test_ambiguous_relations_list_the_choices(registry: Registry, target: str) -> None:
    with pytest.raises(AmbiguityError) as caught:
        registry.resolve(target, {"t.x": 1.0})
    for relation in registry.variables[target].defining_equations:
        assert relation.name in caught.value.message
    assert caught.value.hint is not None
    assert "--variant" in caught.value.hint


@pytest.mark.parametrize(
    ("x", "value", "used"),
    [(0.05, 0.05, None), (0.5, 0.5 - 0.125 / 6, "t.cubic"), (2.0, math.sin(2.0), "t.full")],
)
def test_invalid_approximation_is_switched_away_from(
    registry: Registry, x: float, value: float, used: str | None
) -> None:
    resolution = registry.resolve("t.sine", {"t.x": x}, {"t.sine": "small_angle"})
    assert resolution.value == pytest.approx(value, rel=1e-15)
    assert [(s.left, s.used) for s in resolution.switches] == (
        [("t.small_angle", used)] if used else []
    )
    compiled = registry.compile(["t.x"], ["t.sine"], variants={"t.sine": "small_angle"})
    assert compiled(x)[0] == pytest.approx(value, rel=1e-15)


def test_switching_can_be_turned_off(registry: Registry) -> None:
    resolution = registry.resolve("t.sine", {"t.x": 2.0}, {"t.sine": "small_angle"}, switch=False)
    assert resolution.value == 2.0
    assert [(v.name, v.status) for v in resolution.validity] == [("t.small_angle", "false")]
    compiled = registry.compile(
        ["t.x"], ["t.sine"], variants={"t.sine": "small_angle"}, switch=False
    )
    assert compiled(2.0)[0] == 2.0


def test_unknown_validity_never_switches(registry: Registry) -> None:
    resolution = registry.resolve("t.guarded", {"t.x": 1.0}, {"t.guarded": "near"})
    assert resolution.value == 2.0
    assert [(v.status, v.missing) for v in resolution.validity] == [("unknown", ("t.limit",))]
    known = registry.resolve("t.guarded", {"t.x": 1.0, "t.limit": 0.5}, {"t.guarded": "near"})
    assert known.value == 3.0
    compiled = registry.compile(["t.x"], ["t.guarded"], variants={"t.guarded": "near"})
    assert compiled(1.0)[0] == 2.0


def test_switch_follows_the_declared_order_from_any_start(registry: Registry) -> None:
    resolution = registry.resolve("t.sine", {"t.x": 2.0}, {"t.sine": "cubic"})
    assert [(s.left, s.used) for s in resolution.switches] == [("t.cubic", "t.full")]


def test_pinned_value_and_its_conflict(registry: Registry) -> None:
    given = {"t.power": "500 W", "t.time": "2 h", "t.energy": "2 kWh"}
    resolution = registry.resolve("t.energy", given)
    assert resolution.value == 7.2e6
    (conflict,) = resolution.to_data()["conflicts"]
    assert conflict == {
        "name": "t.energy",
        "given": 2.0,
        "computed": 1.0,
        "unit": "kWh",
        "relation": "t.energy",
    }
    agreeing = registry.resolve("t.energy", {**given, "t.energy": "1 kWh"})
    assert not agreeing.conflicts


def test_a_pinned_value_is_compared_with_the_relation_that_is_valid(registry: Registry) -> None:
    given = {"t.x": 2.0, "t.sine": math.sin(2.0)}
    resolution = registry.resolve("t.sine", given, {"t.sine": "small_angle"})
    assert not resolution.conflicts
    assert not resolution.switches
    kept = registry.resolve("t.sine", given, {"t.sine": "small_angle"}, switch=False)
    assert [conflict.relation.name for conflict in kept.conflicts] == ["t.small_angle"]


def test_a_pinned_draw_contradicts_nothing() -> None:
    scope = Scope("s", "a draw")
    middle = scope.variable("middle", "m", "1", "median", boundary="scenario")
    drawn = scope.variable("drawn", "d", "1", "drawn value")
    scope.stochastic(drawn, "normal", middle, 1)
    resolution = Registry.from_scopes([scope]).resolve("s.drawn", {"s.middle": 5, "s.drawn": 5.5})
    assert resolution.value == 5.5
    assert not resolution.conflicts


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((None, None), "any s.power"),
        ((0, None), "s.power >= 0 kW"),
        (POSITIVE, "s.power > 0"),
        ((None, "2 kW"), "s.power <= 2 kW"),
        (("1 kW", "2 kW"), "1 kW <= s.power <= 2 kW"),
        (("positive", "2 kW"), "0 < s.power <= 2 kW"),
    ],
)
def test_bounds_are_reported_in_the_display_unit(bounds: tuple[Any, Any], text: str) -> None:
    power = Scope("s", "a scope").variable(
        "power", "P", "W", "power", bounds=bounds, display="kW", boundary="scenario"
    )
    assert power.bounds == text


@pytest.mark.parametrize(("x", "value"), [(-2.0, -1.0), (0.5, 0.5), (4.0, 1.0)])
def test_piecewise(registry: Registry, x: float, value: float) -> None:
    assert registry.resolve("t.step", {"t.x": x}).value == value
    assert registry.compile(["t.x"], ["t.step"])(x)[0] == value


def test_piecewise_without_a_case(registry: Registry) -> None:
    with pytest.raises(EvaluationError, match=r"no case of t\.partial applies"):
        registry.resolve("t.partial", {"t.x": 0.5})


def test_iteration_converges_to_the_known_fixed_point(registry: Registry) -> None:
    dottie = 0.7390851332151607
    assert registry.resolve("t.fixed", {"t.x": 1.0}).value == pytest.approx(dottie, rel=1e-11)
    compiled = registry.compile(["t.x"], ["t.fixed"])
    assert compiled(1.0)[0] == pytest.approx(dottie, rel=1e-11)
    # d/dk of x = cos(kx): x' = -x sin(kx) / (1 + k sin(kx)).
    slope = -dottie * math.sin(dottie) / (1 + math.sin(dottie))
    assert compiled.jacobian(1.0)[0, 0] == pytest.approx(slope, rel=1e-9)


def test_divergence_is_reported(registry: Registry) -> None:
    with pytest.raises(ConvergenceError) as caught:
        registry.resolve("t.running", {"t.x": 1.0})
    assert "t.running does not converge" in caught.value.message
    assert "last iterates" in caught.value.message


def test_differential_equals_its_closed_form(registry: Registry) -> None:
    for seconds in (0.0, 0.5, 3.0):
        value = registry.resolve("t.decay", {"t.time": seconds}).value
        assert value == pytest.approx(math.exp(-seconds), rel=1e-7)


def test_simultaneous_block(registry: Registry) -> None:
    """a = exp(-b x), b = sqrt(a + 1) at x = 2, against a bisection written out here."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if math.exp(-2 * math.sqrt(middle + 1)) > middle:
            low = middle
        else:
            high = middle
    resolution = registry.resolve("t.a", {"t.x": 2.0})
    assert resolution.value == pytest.approx(low, rel=1e-12)
    assert resolution.values["t.b"] == pytest.approx(math.sqrt(low + 1), rel=1e-12)
    compiled = registry.compile(["t.x"], ["t.a", "t.b"])
    assert compiled(2.0)[0] == pytest.approx(low, rel=1e-12)
    step = 1e-6
    slope = (compiled(2.0 + step) - compiled(2.0 - step)) / (2 * step)
    assert compiled.jacobian(2.0)[:, 0] == pytest.approx(slope, rel=1e-7)


def test_pinning_a_member_opens_the_block(registry: Registry) -> None:
    resolution = registry.resolve("t.a", {"t.x": 2.0, "t.b": 1.5})
    assert resolution.value == pytest.approx(math.exp(-3.0), rel=1e-14)


def test_a_relation_of_unknown_validity_is_not_switched_to() -> None:
    scope = Scope("s", "three approximations")
    x = scope.variable("x", "x", "1", "input", boundary="scenario")
    unknown = scope.variable("unknown", "u", "1", "nobody gives it", boundary="scenario")
    y = scope.variable("y", "y", "1", "approximated")
    scope.approximation(y, x, name="first", valid=x < 1)
    scope.approximation(y, 2 * x, name="unsure", valid=unknown > 0)
    scope.approximation(y, 3 * x, name="undefined", valid=(x - x) / (x - x) > 0)
    scope.approximation(y, 4 * x, name="sure", valid=x < 10)
    registry = Registry.from_scopes([scope])
    for value, expected in ((0.5, 0.5), (2.0, 8.0), (20.0, 20.0)):
        assert registry.resolve("s.y", {"s.x": value}, {"s.y": "first"}).value == expected
        assert registry.compile(["s.x"], ["s.y"], variants={"s.y": "first"})(value)[0] == expected


@pytest.mark.parametrize(
    ("offset", "x", "used"), [(0.2, 0.2, None), (3.0, 1.0, "s.large"), (30.0, 30.0, "s.huge")]
)
def test_approximations_switch_inside_a_block(offset: float, x: float, used: str | None) -> None:
    """x = y/2 below y = 1, y/4 below 10, else y/2 again; y = x + c: solved by hand for each c."""
    scope = Scope("s", "a block of approximations")
    c = scope.variable("c", "c", "1", "offset", boundary="scenario")
    unknown = scope.variable("unknown", "u", "1", "nobody gives it", boundary="scenario")
    a = scope.variable("x", "x", "1", "a share of y")
    b = scope.variable("y", "y", "1", "x and an offset", equals=a + c)
    scope.approximation(a, b / 2, name="small", valid=b < 1)
    scope.approximation(a, b / 3, name="out_of_reach", valid=unknown > 0)
    scope.approximation(a, b / 4, name="large", valid=b < 10)
    scope.approximation(a, b * 0.5, name="huge")
    scope.simultaneous("loop", [a, b])
    registry = Registry.from_scopes([scope])
    variants = {"s.x": "small"}
    resolution = registry.resolve("s.x", {"s.c": offset}, variants)
    assert resolution.value == pytest.approx(x, rel=1e-12)
    assert [s.used for s in resolution.switches] == ([used] if used else [])
    compiled = registry.compile(["s.c"], ["s.x"], variants=variants)
    assert compiled(offset)[0] == pytest.approx(x, rel=1e-12)
    fixed = registry.resolve("s.x", {"s.c": offset}, variants, switch=False)
    assert fixed.value == pytest.approx(offset, rel=1e-12)
    assert not fixed.switches


def test_constraint_on_a_block_names_the_input_that_the_block_lacks() -> None:
    """Members need each other: the search for what is missing must not go in circles."""
    scope = Scope("s", "a block without its input")
    given = scope.variable("given", "g", "1", "given", boundary="scenario")
    absent = scope.variable("absent", "c", "1", "nobody gives it", boundary="scenario")
    a = scope.variable("x", "x", "1", "a share of y")
    b = scope.variable("y", "y", "1", "x and an offset", equals=a + absent)
    scope.equation(a, b / 2)
    scope.simultaneous("loop", [a, b])
    scope.variable("sum", "t", "1", "sum", equals=given + a)
    scope.inequality("cap", a <= given, "x is below its cap")
    found = Registry.from_scopes([scope]).resolve("s.sum", {"s.given": 1.0})
    (cap,) = found.constraints
    assert (cap.status, cap.missing) == ("unknown", ("s.absent",))


def test_undeclared_cycle_is_named(registry: Registry) -> None:
    with pytest.raises(CycleError, match=r"t\.hen <- t\.egg <- t\.hen"):
        registry.resolve("t.hen")
    assert registry.resolve("t.hen", {"t.egg": 1.0}).value == 2.0


@pytest.mark.parametrize(
    ("target", "x", "words"),
    [
        ("t.inverse", 0.0, "division by zero in 1 / t.x"),
        ("t.root", -1.0, "sqrt(-1) in sqrt(t.x)"),
        ("t.logarithm", 0.0, "log(0) in log(t.x)"),
        ("t.step", 3.0, "division by zero"),
    ],
)
def test_values_that_do_not_exist(registry: Registry, target: str, x: float, words: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        registry.resolve(target, {"t.x": x})
    assert words in caught.value.message
    assert target in caught.value.message


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"t.power": "500 J"}, UnitError, "unit mismatch in t.power: expected W, got J"),
        ({"t.power": "500"}, UnitError, "t.power has no unit"),
        ({"t.power": math.nan}, InputError, "t.power: expected a finite number, got nan"),
        ({"t.power": math.inf}, InputError, "expected a finite number, got inf"),
        ({"t.power": "-1 W"}, InputError, "t.power: expected >= 0 W, got -1 W"),
        ({"t.x": 11.0}, InputError, "t.x: expected <= 10, got 11"),
        ({"t.powr": "1 W"}, UnknownNameError, 'unknown variable "t.powr"'),
        ({"t.power": "much"}, InputError, "malformed value"),
        ({"t.power": ""}, InputError, "malformed value"),
    ],
)
def test_bad_input(
    registry: Registry, given: dict[str, float | str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        registry.resolve("t.energy", given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_get_a_suggestion(registry: Registry) -> None:
    with pytest.raises(UnknownNameError) as caught:
        registry.resolve("t.enrgy")
    assert caught.value.hint == "did you mean t.energy?"
    with pytest.raises(UnknownNameError) as caught:
        registry.resolve("t.sine", {"t.x": 1.0}, {"t.sine": "smal_angle"})
    assert caught.value.hint is not None
    assert "t.small_angle" in caught.value.hint


def test_constants_cannot_be_given() -> None:
    from assay import stack

    with pytest.raises(InputError, match="constant of nature"):
        stack.registry().resolve("econ.cost.per_token", {"physics.boltzmann": 1.0})


def test_public_contract_of_resolve(registry: Registry) -> None:
    (relation,) = registry.variables["t.energy"].defining_equations
    assert registry.equations["t.energy"] is relation
    assert relation.evaluate_rhs({"t.power": 2.0, "t.time": 3.0}) == 6.0
    assert str(relation.as_sympy().rhs) == "t.power*t.time"


def test_nan_makes_conditions_unknown() -> None:
    scope = Scope("s", "a ratio of zeros")
    x = scope.variable("x", "x", "1", "numerator", boundary="scenario", bounds=ANY_SIGN)
    y = scope.variable("y", "y", "1", "denominator", boundary="scenario", bounds=ANY_SIGN)
    z = scope.variable("z", "z", "1", "result", bounds=ANY_SIGN)
    scope.approximation(z, x + 1, name="near", valid=(x / y < 1) & (x > -5))
    scope.approximation(z, x + 2, name="far")
    scope.inequality("small", x / y <= 1, "ratio is small")
    scope.inequality("not_large", ~(x / y > 1), "ratio is not large")
    scope.inequality("unequal", ~equal(x / y, 1), "ratio is not one")
    scope.inequality("either", (x / y > 1) | (x > -5), "one is true whatever the other is")
    registry = Registry.from_scopes([scope])
    near = {"s.z": "near"}
    compiled = registry.compile(["s.x", "s.y"], ["s.z"], variants=near)
    for place, value, statuses in (
        ((0.0, 0.0), 1.0, ["unknown", "unknown", "unknown", "true"]),
        ((1.0, 2.0), 2.0, ["true", "true", "true", "true"]),
        ((2.0, 1.0), 4.0, ["false", "false", "true", "true"]),
        ((-6.0, 0.0), -4.0, ["true", "true", "true", "false"]),
    ):
        resolution = registry.resolve("s.z", dict(zip(("s.x", "s.y"), place, strict=True)), near)
        assert resolution.value == value
        assert compiled(*place)[0] == value
        assert [v.status for v in resolution.constraints] == statuses


def test_constraint_on_a_block_without_its_input_names_the_input() -> None:
    """Members of a block need each other: looking for what is missing must end."""
    scope = Scope("t", "a block that lacks an input")
    k = scope.variable("k", "k", "1", "factor", boundary="scenario")
    a = scope.variable("a", "a", "1", "first")
    b = scope.variable("b", "b", "1", "second", equals=a / 2)
    scope.equation(a, k + b / 2)
    scope.simultaneous("loop", [a, b])
    y = scope.variable("y", "y", "1", "other input", boundary="scenario")
    scope.variable("x", "x", "1", "answer", equals=2 * y, target=True)
    scope.inequality("small", b < 10, "b is small")
    found = Registry.from_scopes([scope]).resolve("t.x", {"t.y": 1.0})
    (verdict,) = found.unjudged
    assert (verdict.name, verdict.missing) == ("t.small", ("t.k",))
