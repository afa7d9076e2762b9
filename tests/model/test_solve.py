"""Solving in any direction, against closed forms, NumPy, SciPy and published values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from graphs import SMOOTH, RandomGraph, random_graphs
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from scipy.optimize import brentq

from assay import stack
from assay.errors import (
    AssayError,
    ConvergenceError,
    InputError,
    MissingInputsError,
    OverdeterminedError,
    UnderdeterminedError,
    UnknownNameError,
)
from assay.model import (
    ANY_SIGN,
    POSITIVE,
    Registry,
    Scope,
    Symbol,
    ceil,
    exp,
    log,
    log10,
    number,
    sin,
    sqrt,
)
from assay.scenario import built_in

Build = Callable[[Scope], None]


def registry_of(build: Build) -> Registry:
    scope = Scope("s", "a test")
    build(scope)
    return Registry.from_scopes([scope])


def linear(scope: Scope) -> None:
    a, b, c = (scope.variable(n, n, "1", "unknown", bounds=ANY_SIGN) for n in "abc")
    scope.variable("x", "x", "1", "", equals=2 * a + b - c, bounds=ANY_SIGN)
    scope.variable("y", "y", "1", "", equals=-3 * a - b + 2 * c, bounds=ANY_SIGN)
    scope.variable("z", "z", "1", "", equals=-2 * a + b + 2 * c, bounds=ANY_SIGN)


def test_linear_system_agrees_with_numpy() -> None:
    matrix = np.array([[2.0, 1, -1], [-3, -1, 2], [-2, 1, 2]])
    right = np.array([8.0, -11, -3])
    solution = registry_of(linear).solve(
        ["s.a", "s.b", "s.c"], equal=dict(zip(["s.x", "s.y", "s.z"], right, strict=True))
    )
    assert list(solution.values.values()) == pytest.approx(
        np.linalg.solve(matrix, right), rel=1e-12
    )
    assert solution.stages[0].unknowns == ("s.a", "s.b", "s.c")
    assert not solution.others


def friction(scope: Scope) -> None:
    reynolds = scope.variable("reynolds", "Re", "1", "Reynolds number", bounds=POSITIVE)
    roughness = scope.variable("roughness", "e", "1", "relative roughness")
    factor = scope.variable("factor", "f", "1", "friction factor", bounds=POSITIVE)
    inner = roughness / 3.7 + 2.51 / (reynolds * sqrt(factor))
    scope.iterative(factor, (-2 * log10(inner)) ** -2, start=0.02)


# F. M. White, Fluid Mechanics, smooth walls, equation 6.38.
SMOOTH_WALLS = [(1e4, 0.0309), (1e5, 0.0180), (1e6, 0.0116), (1e7, 0.0081), (1e8, 0.0059)]


@pytest.mark.parametrize(("reynolds", "factor"), SMOOTH_WALLS)
def test_colebrook_agrees_with_published_values(reynolds: float, factor: float) -> None:
    solution = registry_of(friction).solve(["s.factor"], {"s.reynolds": reynolds, "s.roughness": 0})
    assert solution.values["s.factor"] == pytest.approx(factor, abs=5e-5)


def test_colebrook_is_inverted() -> None:
    def residual(factor: float) -> float:
        inner = 3e-3 / 3.7 + 2.51 / (1e5 * math.sqrt(factor))
        return 1 / math.sqrt(factor) + 2 * math.log10(inner)

    factor = brentq(residual, 1e-4, 1.0, xtol=1e-15)
    solution = registry_of(friction).solve(
        ["s.roughness"], {"s.reynolds": 1e5}, {"s.factor": factor}, starts={"s.roughness": 1e-2}
    )
    assert solution.values["s.roughness"] == pytest.approx(3e-3, rel=1e-9)


def cooling(scope: Scope) -> None:
    rate = scope.variable("rate", "k", "1/s", "cooling rate", bounds=POSITIVE)
    first = scope.variable("first", "T_0", "K", "first temperature")
    ambient = scope.variable("ambient", "T_a", "K", "ambient temperature")
    time = scope.variable("time", "t", "s", "time")
    last = scope.variable("last", "T", "K", "last temperature")
    scope.differential(
        last, -rate * (last - ambient), time=Symbol("tau"), time_like=time,
        initial=first, start=number("0 s"), end=time, tolerance=1e-11,
    )  # fmt: skip


def test_newtons_cooling_is_solved_through_the_integrator() -> None:
    given_values = {"s.first": "370 K", "s.ambient": "300 K", "s.time": "60 s"}
    solution = registry_of(cooling).solve(["s.rate"], given_values, {"s.last": "330 K"})
    assert solution.values["s.rate"] == pytest.approx(math.log(70 / 30) / 60, rel=1e-7)
    assert any("point by point" in note and "s.last" in note for note in solution.notes)


def test_two_unknowns_behind_an_integrator() -> None:
    def build(scope: Scope) -> None:
        cooling(scope)
        last, ambient = Symbol("s.last"), Symbol("s.ambient")
        scope.variable("excess", "d", "K", "", equals=last - ambient)
        scope.variable("mean", "m", "K", "", equals=(last + ambient) / 2)

    given_values = {"s.first": "370 K", "s.time": "60 s"}
    solution = registry_of(build).solve(
        ["s.rate", "s.ambient"], given_values, {"s.excess": "30 K", "s.mean": "315 K"}
    )
    assert solution.values["s.ambient"] == pytest.approx(300, rel=1e-6)
    assert solution.values["s.rate"] == pytest.approx(math.log(70 / 30) / 60, rel=1e-5)


def test_wire_length_for_a_delay_is_the_root_of_the_quadratic() -> None:
    registry = stack.registry()
    resistance, load, r, c = 1e3, 20e-15, 2e5, 2e-10
    given_values = {
        "logic.gate.on_resistance": resistance, "logic.gate.fan_out": 1,
        "logic.gate.input_capacitance": load, "logic.wire.resistance_per_length": r,
        "logic.wire.capacitance_per_length": c,
    }  # fmt: skip
    delay = 1e-9
    # R (C + c L) + r L (c L / 2 + C) = t
    a2, a1, a0 = r * c / 2, resistance * c + r * load, resistance * load - delay
    length = (-a1 + math.sqrt(a1 * a1 - 4 * a2 * a0)) / (2 * a2)
    solution = registry.solve(["logic.wire.length"], given_values, {"logic.gate.delay": delay})
    assert solution.values["logic.wire.length"] == pytest.approx(length, rel=1e-10)


def chained(scope: Scope) -> None:
    a, b = (scope.variable(n, n, "1", "unknown") for n in "ab")
    m = scope.variable("m", "m", "1", "", equals=a * exp(-b) + b)
    n = scope.variable("n", "n", "1", "", equals=a**2 + a)
    scope.variable("x", "x", "1", "", equals=m**3 + m)
    scope.variable("y", "y", "1", "", equals=m * n + n)


def test_solving_for_intermediates_gives_smaller_stages() -> None:
    registry = registry_of(chained)
    m = 3 * math.exp(-2) + 2
    required = {"s.x": m**3 + m, "s.y": m * 12 + 12}
    solution = registry.solve(["s.a", "s.b"], equal=required)
    assert [stage.unknowns for stage in solution.stages] == [("s.m",), ("s.n",), ("s.a",), ("s.b",)]
    found = [solution.values, *solution.others]
    # 3 exp(-b) + b = m has two roots, and both are found.
    assert all(point["s.a"] == pytest.approx(3) for point in found)
    second = brentq(lambda b: 3 * math.exp(-b) + b - m, 0.0, 1.0)
    assert sorted(point["s.b"] for point in found) == pytest.approx([second, 2.0], rel=1e-9)


def test_required_values_are_used_downstream() -> None:
    def build(scope: Scope) -> None:
        a, b = (scope.variable(n, n, "1", "unknown") for n in "ab")
        x = scope.variable("x", "x", "1", "", equals=a * b + a)
        scope.variable("y", "y", "1", "", equals=x / a)

    solution = registry_of(build).solve(["s.a", "s.b"], equal={"s.x": 12, "s.y": 4})
    assert solution.values == pytest.approx({"s.a": 3.0, "s.b": 3.0})
    assert [stage.unknowns for stage in solution.stages] == [("s.a",), ("s.b",)]


def curves(scope: Scope) -> None:
    x, y = (scope.variable(n, n, "1", "unknown", bounds=ANY_SIGN) for n in "xy")
    scope.variable("circle", "c", "1", "", equals=x**2 + y**2)
    scope.variable("hyperbola", "h", "1", "", equals=x * y, bounds=ANY_SIGN)


def test_all_four_intersections_of_circle_and_hyperbola_are_found() -> None:
    solution = registry_of(curves).solve(["s.x", "s.y"], equal={"s.circle": 5, "s.hyperbola": 2})
    found = {(round(p["s.x"], 9), round(p["s.y"], 9)) for p in [solution.values, *solution.others]}
    assert found == {(1, 2), (2, 1), (-1, -2), (-2, -1)}
    assert "4 solutions were found; this is the first of them" in solution.notes


def test_a_start_decides_between_solutions() -> None:
    for x, y in [(1, 2), (2, 1), (-1, -2), (-2, -1)]:
        solution = registry_of(curves).solve(
            ["s.x", "s.y"], equal={"s.circle": 5, "s.hyperbola": 2},
            starts={"s.x": x * 1.1, "s.y": y * 0.9},
        )  # fmt: skip
        assert solution.values == pytest.approx({"s.x": x, "s.y": y})


def parabola(scope: Scope) -> None:
    a = scope.variable("a", "a", "1", "unknown", bounds=ANY_SIGN)
    positive = scope.variable("p", "p", "1", "unknown")
    scope.variable("x", "x", "1", "", equals=a**2 - 3 * a, bounds=ANY_SIGN)
    scope.variable("pole", "x", "1", "", equals=1 / (a - 1), bounds=ANY_SIGN)
    scope.variable("steps", "n", "1", "", equals=ceil(positive))
    scope.variable("touch", "x", "1", "", equals=(a - 2) ** 2)
    scope.variable("profit", "x", "1", "", equals=3e9 * positive - 6e9, bounds=ANY_SIGN)
    scope.variable("root", "x", "1", "", equals=sqrt(positive) + positive)


@pytest.mark.parametrize(
    ("unknown", "target", "value", "expected"),
    [
        ("s.a", "s.x", -2.0, [1.0, 2.0]),
        ("s.a", "s.x", 0.0, [0.0, 3.0]),
        ("s.a", "s.x", 4.0, [-1.0, 4.0]),
        ("s.a", "s.pole", 4.0, [1.25]),
        ("s.a", "s.pole", -1e9, [1 - 1e-9]),
        ("s.a", "s.touch", 0.0, [2.0]),
        ("s.p", "s.profit", 0.0, [2.0]),
        ("s.p", "s.root", 0.0, [0.0]),
        ("s.p", "s.root", 1e-40, [1e-80]),
    ],
)
def test_roots_of_one_unknown(
    unknown: str, target: str, value: float, expected: list[float]
) -> None:
    solution = registry_of(parabola).solve([unknown], equal={target: value})
    found = sorted(point[unknown] for point in [solution.values, *solution.others])
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("unknown", "target", "value", "message", "hint"),
    [
        ("s.a", "s.x", -3.0, "no s.a makes s.x -3; the closest misses by 25 %", "s.x lies between"),
        ("s.p", "s.steps", 4.5, "no s.p >= 0 makes s.steps 4.5", "jumps over the value at s.p = 4"),
        ("s.a", "s.pole", 0.0, "no s.a makes s.pole 0", "jumps over the value at s.a = 1"),
    ],
)
def test_missing_solution_is_explained(
    unknown: str, target: str, value: float, message: str, hint: str
) -> None:
    with pytest.raises(ConvergenceError) as caught:
        registry_of(parabola).solve([unknown], equal={target: value})
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_plateau_at_the_required_value_is_a_range_of_solutions() -> None:
    solution = registry_of(parabola).solve(["s.p"], equal={"s.steps": 4})
    assert math.ceil(solution.values["s.p"]) == 4
    assert any("every s.p between" in note for note in solution.notes)


def test_a_solution_outside_bounds_is_never_returned() -> None:
    def build(scope: Scope) -> None:
        a = scope.variable("a", "a", "1", "unknown", bounds=(0, 10))
        share = scope.variable("share", "s", "1", "", equals=a / 4, bounds=(0, 1))
        scope.variable("x", "x", "1", "", equals=share * 2)

    registry = registry_of(build)
    assert registry.solve(["s.a"], equal={"s.x": 2}).values == {"s.a": 4.0}
    with pytest.raises(ConvergenceError, match=r"at s.a = 6, s.share is 1.5, which is out of"):
        registry.solve(["s.a"], equal={"s.x": 3})
    with pytest.raises(ConvergenceError, match=r"no s.a between 0 and 10 makes s.x 12"):
        registry.solve(["s.a"], equal={"s.x": 12})


def heated(scope: Scope) -> None:
    ambient = scope.variable("ambient", "T_a", "K", "ambient temperature")
    load = scope.variable("load", "P_0", "W", "power at reference temperature")
    power = scope.variable("power", "P", "W", "power")
    chip = scope.variable("chip", "T", "K", "chip temperature", bounds=(0, 1000))
    scope.equation(power, load * exp((chip - number("350 K")) / number("80 K")))
    scope.equation(chip, ambient + power * number("0.1 K/W"))
    scope.simultaneous("loop", [power, chip], {"s.power": "100 W", "s.chip": "320 K"})


def test_a_simultaneous_block_is_solved_through() -> None:
    registry = registry_of(heated)
    solution = registry.solve(["s.ambient"], {"s.load": "200 W"}, {"s.chip": "340 K"})
    power = 200 * math.exp(-10 / 80)
    assert solution.values["s.ambient"] == pytest.approx(340 - 0.1 * power)
    both = registry.solve(["s.ambient", "s.load"], equal={"s.chip": "340 K", "s.power": "150 W"})
    assert both.values["s.load"] == pytest.approx(150 / math.exp(-10 / 80))
    assert both.values["s.ambient"] == pytest.approx(325)


def test_undeclared_cycle_is_solved_when_its_members_are_unknown() -> None:
    def build(scope: Scope) -> None:
        a, b = (scope.variable(n, n, "1", "member") for n in "ab")
        scope.equation(a, exp(-b))
        scope.equation(b, exp(-a) + 1)

    solution = registry_of(build).solve(["s.a", "s.b"])
    a, b = solution.values["s.a"], solution.values["s.b"]
    assert a == pytest.approx(math.exp(-b), rel=1e-12)
    assert b == pytest.approx(math.exp(-a) + 1, rel=1e-12)


def test_repelling_fixed_point_is_no_solution() -> None:
    def build(scope: Scope) -> None:
        x = scope.variable("x", "x", "1", "limit")
        scope.iterative(x, 2.5 * x * (1 - x), start=0.5)

    # The logistic map at 2.5 settles at 0.6; 0 is a fixed point too, but it repels.
    solution = registry_of(build).solve(["s.x"])
    assert solution.values["s.x"] == pytest.approx(0.6)
    assert solution.others == ()


def two_models(scope: Scope) -> None:
    size = scope.variable("size", "n", "B", "size", bounds=POSITIVE)
    time = scope.variable("time", "t", "s", "time")
    small = size <= number("1e6 B")
    scope.approximation(
        time, number("1e-5 s") + size / number("1e9 B/s"), name="short", valid=small
    )
    scope.approximation(time, size / number("5e8 B/s"), name="long", valid=size > number("1e6 B"))


def test_the_relation_switches_where_its_validity_ends() -> None:
    registry, variants = registry_of(two_models), {"s.time": "short"}
    short = registry.solve(["s.size"], equal={"s.time": "110 us"}, variants=variants)
    assert short.values["s.size"] == pytest.approx(1e5)
    far = registry.solve(["s.size"], equal={"s.time": "1 s"}, variants=variants)
    assert far.values["s.size"] == pytest.approx(5e8)
    stay = registry.solve(["s.size"], equal={"s.time": "1 s"}, variants=variants, switch=False)
    assert stay.values["s.size"] == pytest.approx((1 - 1e-5) * 1e9)


def tree(scope: Scope) -> None:
    a, b, c, d = (scope.variable(n, n, "1", "input") for n in "abcd")
    m = scope.variable("m", "m", "1", "", equals=a + b)
    scope.variable("x", "x", "1", "", equals=m**3 + m)
    scope.variable("y", "y", "1", "", equals=2 * m)
    scope.variable("z", "z", "1", "", equals=c * m)
    scope.variable("w", "w", "1", "", equals=a * c)
    scope.variable("lonely", "l", "1", "", equals=d + 1)


@pytest.mark.parametrize(
    ("unknown", "required", "error", "message"),
    [
        (["s.a", "s.b"], {"s.x": 10}, UnderdeterminedError,
         "2 unknowns s.a, s.b but only 1 equation depends on them: s.m"),
        (["s.a", "s.c"], {"s.w": 10}, UnderdeterminedError,
         "2 unknowns s.a, s.c but only 1 equation depends on them: s.w"),
        (["s.a", "s.d"], {"s.x": 10}, UnderdeterminedError, "no equation depends on the unknown s.d"),
        (["s.a"], {"s.x": 10, "s.y": 4}, OverdeterminedError,
         "2 requirements depend only on 1 variable s.m: s.y, s.x; without it, s.y is 4 already"),
        (["s.a"], {"s.x": 10, "s.y": 5}, OverdeterminedError, "without it, s.y is 4, not 5"),
        (["s.a", "s.b"], {"s.x": 10, "s.y": 4}, OverdeterminedError,
         "2 requirements depend only on 1 variable s.m: s.y, s.x"),
        (["s.a"], {"s.lonely": 2}, OverdeterminedError, "s.lonely does not depend on s.a"),
        (["s.a"], {"s.m": 3, "s.z": 6}, OverdeterminedError,
         "s.z cannot be required besides s.m: it depends on s.a only through that"),
        (["s.m"], {"s.z": 6}, OverdeterminedError,
         "s.m is fixed by its own relation s.m, so that s.z cannot be required as well"),
        (["s.a"], {"s.d": 2}, InputError, "s.d is given as 1 and required to be 2"),
        (["s.a", "s.a"], {"s.x": 2}, InputError, "s.a is listed as an unknown twice"),
        ([], {"s.x": 2}, InputError, "nothing to solve for"),
        (["s.q"], {"s.x": 2}, UnknownNameError, 'unknown variable "s.q"'),
    ],
)  # fmt: skip
def test_structurally_singular_systems_are_explained_by_names(
    unknown: list[str], required: dict[str, float], error: type[AssayError], message: str
) -> None:
    known = {name: 1.0 for name in ("s.a", "s.b", "s.c", "s.d") if name not in unknown}
    with pytest.raises(error) as caught:
        registry_of(tree).solve(unknown, known, required)
    assert message in caught.value.message
    assert type(caught.value) is error


def test_numerically_dependent_equations_are_detected() -> None:
    def build(scope: Scope) -> None:
        a, b = (scope.variable(n, n, "1", "unknown", bounds=ANY_SIGN) for n in "ab")
        scope.variable("x", "x", "1", "", equals=a + b, bounds=ANY_SIGN)
        scope.variable("y", "y", "1", "", equals=2 * a + 2 * b, bounds=ANY_SIGN)

    with pytest.raises(UnderdeterminedError, match="depend on each other and do not fix"):
        registry_of(build).solve(["s.a", "s.b"], equal={"s.x": 8, "s.y": 16})
    with pytest.raises(ConvergenceError) as caught:
        registry_of(build).solve(["s.a", "s.b"], equal={"s.x": 8, "s.y": 17})
    assert "no solution found for s.a, s.b together" in caught.value.message
    assert "depend on each other there" in (caught.value.hint or "")


def test_missing_inputs_are_all_named() -> None:
    with pytest.raises(MissingInputsError) as caught:
        registry_of(tree).solve(["s.a"], {}, {"s.z": 1, "s.lonely": 2})
    assert set(caught.value.names) == {"s.b", "s.c", "s.d"}


def test_unknown_whose_relation_lacks_inputs_is_free() -> None:
    solution = registry_of(tree).solve(["s.m"], {"s.a": 1}, {"s.y": 4})
    assert solution.values == {"s.m": 2.0}
    assert solution.notes == ("s.m is left free: its own relation lacks s.b",)


def test_an_unknown_keeps_its_own_relation() -> None:
    solution = registry_of(tree).solve(["s.a", "s.m"], {"s.b": 1, "s.c": 3}, {"s.z": 12})
    assert solution.values == pytest.approx({"s.a": 3, "s.m": 4})


def test_a_given_value_of_an_unknown_is_a_start() -> None:
    near = registry_of(parabola).solve(["s.a"], {"s.a": 1.8}, {"s.x": -2})
    assert near.values["s.a"] == pytest.approx(2)
    assert [other["s.a"] for other in near.others] == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ({"s.x": "nan"}, "malformed value"),
        ({"s.x": math.inf}, "expected a finite number"),
        ({"s.touch": -1.0}, "expected >= 0, got -1"),
        ({"s.x": "3 m"}, "unit mismatch"),
        ({"s.x": "normal(1, 2)"}, "required to equal a distribution"),
    ],
)
def test_bad_requirements_are_refused(required: dict[str, str | float], message: str) -> None:
    with pytest.raises(AssayError) as caught:
        registry_of(parabola).solve(["s.a"], equal=required)
    assert message in caught.value.message


def test_result_as_plain_data() -> None:
    preset = built_in.preset("dense_training_cost_fixture")
    solution = stack.registry().solve(
        ["training.gpus"], preset.given, {"training.time_to_train": "1.5 s"}, preset.variants
    )
    data = solution.to_data()
    assert data["unknowns"] == [{"name": "training.gpus", "value": pytest.approx(8), "unit": "GPU"}]
    assert data["required"][0]["name"] == "training.time_to_train"
    assert data["required"][0]["value"] == pytest.approx(1.5 / 86400)
    assert data["required"][0]["unit"] == "day"
    assert data["stages"][0]["equations"] == ["training.time_to_train"]
    assert abs(solution.residuals["training.time_to_train"]) < 1e-12


# Each grows with its first operand, for positive operands.
MONOTONE = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a**2 + b,
    lambda a, b: sqrt(a) * b,
    lambda a, b: log(1 + a) + b,
    lambda a, b: a / (a + b),
    lambda a, b: a**3 / (1 + a) + b * a,
]


@st.composite
def monotone_chains(draw: st.DrawFn) -> tuple[Registry, dict[str, float], str]:
    scope = Scope("s", "a chain that grows with its root")
    root = scope.variable("root", "r", "1", "unknown", bounds=POSITIVE)
    point = {"s.root": 10 ** draw(st.floats(-2, 2))}
    current = root
    for index in range(draw(st.integers(1, 6))):
        other = scope.variable(f"p{index}", "p", "1", "given", bounds=POSITIVE)
        point[other.name] = 10 ** draw(st.floats(-1, 1))
        formula = draw(st.sampled_from(MONOTONE))
        current = scope.variable(f"v{index}", "v", "1", "", equals=formula(current, other))
    return Registry.from_scopes([scope]), point, current.name


@given(monotone_chains())
@settings(max_examples=40)
def test_solve_inverts_resolve_where_it_is_monotone(
    case: tuple[Registry, dict[str, float], str],
) -> None:
    registry, point, target = case
    value = registry.resolve(target, point).require_value()
    slope = registry.compile(list(point), [target]).jacobian(point)[0, 0]
    # A value that hardly depends on the root does not say what the root was.
    assume(slope * point["s.root"] > 1e-4 * value)
    known = {name: v for name, v in point.items() if name != "s.root"}
    solution = registry.solve(["s.root"], known, {target: value})
    assert solution.values["s.root"] == pytest.approx(point["s.root"], rel=1e-8)
    assert not solution.others


@given(random_graphs(formulas=SMOOTH, max_relations=10), st.data())
@settings(max_examples=40)
def test_solve_reproduces_resolve_where_it_is_not_monotone(
    graph: RandomGraph, data: st.DataObject
) -> None:
    target = data.draw(st.sampled_from(graph.targets))
    unknown = data.draw(st.sampled_from(sorted(graph.point)))
    value = graph.direct(graph.point)[target]
    compiled = graph.registry.compile(list(graph.point), [target])
    slope = compiled.jacobian(graph.point)[0, list(graph.point).index(unknown)]
    assume(abs(slope) > 1e-3)
    known = {name: v for name, v in graph.point.items() if name != unknown}
    solution = graph.registry.solve([unknown], known, {target: value})
    for found in (solution.values, *solution.others):
        again = graph.registry.resolve(target, {**known, **found}).require_value()
        assert again == pytest.approx(value, rel=1e-7, abs=1e-7)


@given(random_graphs(formulas=SMOOTH, max_relations=8, least=2), st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])
def test_several_unknowns_from_as_many_targets(graph: RandomGraph, data: st.DataObject) -> None:
    roots = sorted(graph.point)
    count = data.draw(st.integers(2, min(3, len(roots), len(graph.targets))))
    unknown = data.draw(st.permutations(roots))[:count]
    targets = data.draw(st.permutations(graph.targets))[:count]
    compiled = graph.registry.compile(list(graph.point), targets)
    columns = [list(graph.point).index(name) for name in unknown]
    # Targets that do not need the unknowns say nothing of them; what is drawn is often such.
    singular = np.linalg.svd(compiled.jacobian(graph.point)[:, columns], compute_uv=False)
    assume(singular[-1] > 1e-2)
    values = graph.direct(graph.point)
    known = {name: v for name, v in graph.point.items() if name not in unknown}
    near = {name: graph.point[name] * 1.05 for name in unknown}
    solution = graph.registry.solve(
        unknown, known, {name: values[name] for name in targets}, starts=near
    )
    # What the targets do not need may have no value at another solution.
    again = graph.direct({**known, **solution.values}, targets)
    assert {n: again[n] for n in targets} == pytest.approx(
        {n: values[n] for n in targets}, rel=1e-7
    )


def test_rounding_of_a_fast_oscillation_gives_no_solution() -> None:
    scope = Scope("s", "a wave")
    angle = scope.variable("angle", "a", "1", "angle", boundary="scenario", bounds=ANY_SIGN)
    scope.variable("height", "h", "1", "height", equals=sin(angle), bounds=ANY_SIGN)
    registry = Registry.from_scopes([scope])
    with pytest.raises(ConvergenceError, match=r"no s\.angle makes s\.height 2"):
        registry.solve(["s.angle"], {}, {"s.height": 2})
    solution = registry.solve(["s.angle"], {}, {"s.height": 0.5})
    assert solution.values["s.angle"] == pytest.approx(math.pi / 6)
    for point in solution.others:
        assert math.sin(point["s.angle"]) == pytest.approx(0.5, rel=1e-6)
    level = registry.solve(["s.angle"], {}, {"s.height": 0})
    assert level.values["s.angle"] == 0
    for point in level.others:
        assert math.sin(point["s.angle"]) == pytest.approx(0, abs=1e-6)
