"""Minimizing, against brute force over resolve, closed forms and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import milp

from assay import stack
from assay.errors import AssayError, InfeasibleError, InputError, MissingInputsError
from assay.model import (
    ANY_SIGN,
    POSITIVE,
    Registry,
    Scope,
    Symbol,
    ceil,
    equal,
    log,
    maximum,
    minimum,
    number,
    sqrt,
    total,
)
from assay.model.optimizing.optimize import minimize
from assay.scenario import built_in

Build = Callable[[Scope], None]


def registry_of(build: Build) -> Registry:
    scope = Scope("s", "a test")
    build(scope)
    return Registry.from_scopes([scope])


def checkpoints(scope: Scope) -> None:
    cost = scope.variable("cost", "d", "s", "time of one checkpoint", bounds=POSITIVE)
    mtbf = scope.variable("mtbf", "M", "s", "mean time between failures", bounds=POSITIVE)
    interval = scope.variable("interval", "t", "s", "time between checkpoints", bounds=POSITIVE)
    scope.variable(
        "lost", "l", "1", "share of time lost", equals=cost / interval + interval / (2 * mtbf)
    )


@pytest.mark.parametrize(("cost", "mtbf"), [(30.0, 18000.0), (1e-3, 1e9), (600.0, 3600.0)])
def test_youngs_checkpoint_interval(cost: float, mtbf: float) -> None:
    best = registry_of(checkpoints).minimize(
        "s.lost", {"s.interval": ("1 ms", "1000 day")}, {"s.cost": cost, "s.mtbf": mtbf}
    )
    # Young 1974: sqrt(2 d M), where the two losses are equal.
    assert best.choices["s.interval"] == pytest.approx(math.sqrt(2 * cost * mtbf), rel=1e-6)
    assert best.value == pytest.approx(math.sqrt(2 * cost / mtbf), rel=1e-12)
    assert best.method == "local refinement"
    assert best.binding == ()


def plane(scope: Scope) -> None:
    x, y = (scope.variable(n, n, "1", "chosen", bounds=ANY_SIGN) for n in "xy")
    scope.variable("distance", "f", "1", "", equals=(x - 1) ** 2 + (y - 2) ** 2)
    scope.variable("valley", "f", "1", "", equals=(1 - x) ** 2 + 100 * (y - x**2) ** 2)
    scope.variable("kink", "f", "1", "", equals=maximum(abs(x - 0.3), 2 * abs(y + 0.1)))
    scope.inequality("disc", x**2 + y**2 <= 0.5, "inside the disc")
    scope.inequality("line", x + y <= 2, "below the line")


SQUARE = {"s.x": (-2.0, 2.0), "s.y": (-2.0, 2.0)}


def test_nearest_point_of_a_disc() -> None:
    best = registry_of(plane).minimize("s.distance", SQUARE)
    radius = math.sqrt(0.5)
    direction = 1 / math.sqrt(5)
    assert best.choices["s.x"] == pytest.approx(radius * direction, rel=1e-6)
    assert best.choices["s.y"] == pytest.approx(radius * 2 * direction, rel=1e-6)
    assert best.value == pytest.approx((math.sqrt(5) - radius) ** 2, rel=1e-9)
    assert [binding.name for binding in best.binding] == ["s.disc"]
    assert best.binding[0].text == "s.x ^ 2 + s.y ^ 2 <= 0.5"
    # What the optimum fulfills, it fulfills when resolved, to the last bit.
    assert not best.resolution.violated


def ball(scope: Scope) -> None:
    x, y, z = (scope.variable(n, n, "1", "chosen", bounds=ANY_SIGN) for n in "xyz")
    radius = scope.variable("radius", "r", "1", "", bounds=POSITIVE)
    scope.variable("sum", "f", "1", "", equals=x + 2 * y + 3 * z, bounds=ANY_SIGN)
    scope.inequality("ball", x**2 + y**2 + z**2 <= radius**2, "inside the ball")


@pytest.mark.parametrize("radius", [0.1, 0.3, 0.7, 1.1, 1.7])
def test_optimum_on_a_curved_constraint_is_feasible(radius: float) -> None:
    cube = {f"s.{n}": (-2.0, 2.0) for n in "xyz"}
    best = registry_of(ball).minimize("s.sum", cube, {"s.radius": radius})
    assert best.value == pytest.approx(-radius * math.sqrt(14), rel=1e-9)
    assert not best.resolution.violated


def test_rosenbrock_in_a_disc_agrees_with_a_scan_of_its_boundary() -> None:
    best = registry_of(plane).minimize("s.valley", SQUARE)
    angle = np.linspace(0, 2 * np.pi, 2_000_001)
    x, y = math.sqrt(0.5) * np.cos(angle), math.sqrt(0.5) * np.sin(angle)
    rim = ((1 - x) ** 2 + 100 * (y - x**2) ** 2).min()
    assert best.value == pytest.approx(rim, rel=1e-8)
    assert [binding.name for binding in best.binding] == ["s.disc"]


def test_a_kink_does_not_stop_the_search() -> None:
    best = registry_of(plane).minimize("s.kink", SQUARE)
    assert best.choices == pytest.approx({"s.x": 0.3, "s.y": -0.1}, abs=1e-3)
    assert best.value < 1e-3


def test_the_end_of_a_range_is_binding() -> None:
    best = registry_of(plane).minimize("s.distance", {"s.x": (-0.3, 0.2), "s.y": (0.1, 0.4)})
    assert best.choices == pytest.approx({"s.x": 0.2, "s.y": 0.4})
    assert [(b.name, b.text) for b in best.binding] == [
        ("range of s.x", "s.x <= 0.2"),
        ("range of s.y", "s.y <= 0.4"),
    ]


def test_maximize() -> None:
    best = registry_of(plane).minimize("s.distance", SQUARE, maximize=True)
    assert best.value == pytest.approx((math.sqrt(5) + math.sqrt(0.5)) ** 2, rel=1e-9)
    assert best.maximized
    listed = registry_of(plane).minimize(
        "s.distance", {"s.x": [0.5, 0, -0.5], "s.y": [0, 0.5]}, maximize=True
    )
    assert listed.choices == {"s.x": -0.5, "s.y": 0.0}
    values = [alternative.value for alternative in listed.alternatives]
    assert values == sorted(values, reverse=True)


WEIGHTS, WORTHS, CAPACITY = [12, 7, 11, 8, 9], [24, 13, 23, 15, 16], 26


def knapsack(scope: Scope) -> None:
    items = [scope.variable(f"item{i}", "n", "1", "taken", bounds=(0, 1)) for i in range(5)]
    weight = scope.variable(
        "weight", "w", "1", "", equals=total(*(w * i for w, i in zip(WEIGHTS, items, strict=True)))
    )
    scope.variable(
        "worth", "v", "1", "", equals=total(*(v * i for v, i in zip(WORTHS, items, strict=True)))
    )
    scope.inequality("fits", weight <= CAPACITY, "the knapsack holds it")


def test_knapsack_agrees_with_integer_programming() -> None:
    over = {f"s.item{i}": [0, 1] for i in range(5)}
    best = registry_of(knapsack).minimize("s.worth", over, maximize=True)
    bounds = [WEIGHTS], -np.inf, CAPACITY
    theirs = milp(-np.array(WORTHS), integrality=1, bounds=(0, 1), constraints=bounds)
    assert best.value == pytest.approx(-theirs.fun)
    assert [best.choices[f"s.item{i}"] for i in range(5)] == pytest.approx(list(theirs.x))
    assert (best.points, best.evaluated, best.method) == (32, 32, "enumeration")
    assert [binding.name for binding in best.binding] == ["s.fits"]


def random_problem(scope: Scope, coefficients: list[float]) -> None:
    p, q, r, s = coefficients
    a, b, c = (scope.variable(n, n, "1", "chosen", bounds=ANY_SIGN) for n in "abc")
    m = scope.variable("m", "m", "1", "", equals=p * a**2 - a * b + q * c, bounds=ANY_SIGN)
    share = scope.variable("share", "s", "1", "", equals=a / (b + r), bounds=(-2, 2))
    scope.variable("f", "f", "1", "", equals=m + s * share + sqrt(c + 3), bounds=ANY_SIGN)
    scope.inequality("below", m <= 6, "")
    scope.inequality("either", (a > 0) | (b <= c), "")
    scope.inequality("whole", equal((a + b) % 2, 0) | (c > 0), "")


@given(
    st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    st.lists(st.integers(-3, 3), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-3, 3), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-4, 3), min_size=1, max_size=3, unique=True),
)
@settings(max_examples=50)
def test_enumeration_agrees_with_resolving_every_point(
    coefficients: list[float], first: list[int], second: list[int], third: list[int]
) -> None:
    registry = registry_of(lambda scope: random_problem(scope, coefficients))
    over = {"s.a": first, "s.b": second, "s.c": third}
    feasible, undefined = {}, 0
    for point in product(first, second, third):
        known = dict(zip(over, map(float, point), strict=True))
        try:
            resolution = registry.resolve("s.f", known)
        except AssayError:
            undefined += 1
            continue
        if not resolution.violated:
            feasible[point] = resolution.require_value()
    if not feasible:
        with pytest.raises(InfeasibleError):
            registry.minimize("s.f", over)
        return
    best = registry.minimize("s.f", over)
    assert best.value == min(feasible.values())
    assert feasible[tuple(best.choices.values())] == best.value
    assert (best.points, best.feasible) == (len(first) * len(second) * len(third), len(feasible))
    assert best.undefined == undefined
    ranked = [best.value, *(alternative.value for alternative in best.alternatives)]
    assert ranked == pytest.approx(sorted(feasible.values())[: len(ranked)], rel=1e-14)
    assert len(ranked) == min(6, len(feasible))


def test_mixed_choices_agree_with_the_best_of_each_list_entry() -> None:
    def build(scope: Scope) -> None:
        n = scope.variable("n", "n", "1", "machines", bounds=POSITIVE)
        x = scope.variable("x", "x", "1", "load", bounds=POSITIVE)
        scope.variable("f", "f", "1", "", equals=n * 3 + 50 / (n * x) + x**2)
        scope.inequality("load", x <= 10 / n, "each takes its share")

    registry = registry_of(build)
    best = registry.minimize("s.f", {"s.n": [1, 2, 3, 4, 5, 6], "s.x": (0.01, 100)})

    def closed_form(n: int) -> float:
        # 2 x = 50 / (n x^2), cut off by the constraint.
        x = min((25 / n) ** (1 / 3), 10 / n)
        return n * 3 + 50 / (n * x) + x**2

    assert best.value == pytest.approx(min(map(closed_form, range(1, 7))), rel=1e-9)
    assert best.method == "enumeration, then local refinement"
    values = sorted(map(closed_form, range(1, 7)))
    found = [best.value, *(alternative.value for alternative in best.alternatives)]
    assert found == pytest.approx(values, rel=1e-8)


def two_models(scope: Scope) -> None:
    size = scope.variable("size", "n", "1", "size", bounds=POSITIVE)
    time = scope.variable("time", "t", "s", "time", bounds=ANY_SIGN)
    scope.equation(time, number("1 s") + size * number("1 s"), name="direct")
    scope.equation(time, number("5 s") + log(size) * number("2 s"), name="tree")


def test_variant_is_chosen() -> None:
    registry = registry_of(two_models)
    over = {"variant:s.time": ["direct", "tree"], "s.size": [2, 4, 8, 16]}
    best = registry.minimize("s.time", over)
    assert best.choices == {"s.size": 2.0, "variant:s.time": "s.direct"}
    assert best.value == 3.0
    assert best.points == 8
    largest = registry.minimize("s.time", {**over, "s.size": [8, 16]})
    assert largest.choices["variant:s.time"] == "s.direct"
    assert registry.minimize("s.time", {**over, "s.size": [16]}).choices == {
        "s.size": 16.0, "variant:s.time": "s.tree",
    }  # fmt: skip


def test_independent_choices_are_searched_separately() -> None:
    def build(scope: Scope) -> None:
        a, b, c, d = (scope.variable(n, n, "1", "chosen") for n in "abcd")
        scope.variable("f", "f", "1", "", equals=(a - 3) ** 2)
        scope.inequality("apart", b + c >= 5, "a matter of its own")
        scope.variable("g", "g", "1", "", equals=d + 1)

    registry = registry_of(build)
    over = {f"s.{n}": list(range(100)) for n in "abcd"}
    best = registry.minimize("s.f", over, limit=20_000)
    assert best.choices["s.a"] == 3.0
    assert best.choices["s.b"] + best.choices["s.c"] >= 5  # type: ignore[operator]
    assert best.points == 100**4
    assert best.evaluated == 100 + 100**2 + 100
    assert best.feasible == 100 * (100**2 - 15) * 100
    assert "without influence, left at the first value: s.d" in best.notes


def test_target_that_depends_on_no_choice() -> None:
    def build(scope: Scope) -> None:
        a, b = (scope.variable(n, n, "1", "chosen") for n in "ab")
        scope.variable("f", "f", "1", "", equals=b + 1)
        scope.inequality("large", a >= 2, "")
        scope.inequality("not_a_choice", b <= 5, "")

    best = registry_of(build).minimize("s.f", {"s.a": [1, 2, 3]}, {"s.b": 4})
    assert (best.value, best.choices, best.feasible) == (5.0, {"s.a": 2.0}, 2)
    assert "s.f depends on none of the choices" in best.notes
    with pytest.raises(InfeasibleError, match=r"s.not_a_choice excludes 1"):
        registry_of(build).minimize("s.f", {"s.a": [1, 2, 3]}, {"s.b": 6})


def test_too_many_points_are_refused() -> None:
    registry = registry_of(knapsack)
    over = {f"s.item{i}": [0, 1] for i in range(5)}
    with pytest.raises(InputError, match="32 points, more than the limit of 31"):
        registry.minimize("s.worth", over, limit=31)


def test_infeasible_problem_is_explained() -> None:
    preset = built_in.preset("dense_training_cost_fixture")
    with pytest.raises(InfeasibleError) as caught:
        stack.registry().minimize(
            "econ.cost.per_token", {"training.gpus": [16, 32]}, preset.given, preset.variants
        )
    assert "none of 2 points" in caught.value.message
    assert "econ.job.fits_site excludes 2" in caught.value.message
    assert "training.gpus = 32 GPU violates only econ.job.fits_site" in (caught.value.hint or "")
    free = stack.registry().minimize(
        "econ.cost.per_token",
        {"training.gpus": [16, 32]},
        preset.given,
        preset.variants,
        constraints=False,
    )
    assert free.choices == {"training.gpus": 32.0}


def test_points_without_a_value_are_counted_and_left_out() -> None:
    def build(scope: Scope) -> None:
        a = scope.variable("a", "a", "1", "chosen", bounds=ANY_SIGN)
        scope.variable("f", "f", "1", "", equals=log(a) + 1 / (a - 2), bounds=ANY_SIGN)

    best = registry_of(build).minimize("s.f", {"s.a": [-1, 0, 1, 2, 3]})
    assert best.undefined == 3
    assert best.choices == {"s.a": 1.0}
    with pytest.raises(InfeasibleError, match="no finite value at any of 2 points"):
        registry_of(build).minimize("s.f", {"s.a": [-1, 2]})


def test_constraints_without_inputs_are_named_as_unknown() -> None:
    def build(scope: Scope) -> None:
        a, b = (scope.variable(n, n, "1", "") for n in "ab")
        scope.variable("f", "f", "1", "", equals=(a - 2) ** 2)
        scope.inequality("needs_b", a <= b, "cannot be told")

    best = registry_of(build).minimize("s.f", {"s.a": [1, 2, 3]})
    assert best.value == 0.0
    assert [(v.name, v.missing) for v in best.unknown] == [("s.needs_b", ("s.b",))]


def test_constraints_that_exclude_better_neighbors_are_binding() -> None:
    def build(scope: Scope) -> None:
        n = scope.variable("n", "n", "1", "chosen")
        memory = scope.variable("memory", "m", "1", "", equals=40 / n)
        scope.variable("cost", "c", "1", "", equals=3 * n)
        scope.inequality("memory_fits", memory <= 9, "fits")
        scope.inequality("few", n <= 30, "not too many")
        scope.inequality("even", equal(n % 2, 0), "even")

    best = registry_of(build).minimize("s.cost", {"s.n": list(range(1, 41))})
    assert best.choices == {"s.n": 6.0}
    # 5 is odd, 4 and below do not fit; that n <= 30 costs nothing.
    assert [binding.name for binding in best.binding] == ["s.memory_fits", "s.even"]
    assert best.excluded["s.few"] == 10
    assert best.feasible == 13


def test_choices_behind_an_integrator_are_resolved_one_by_one() -> None:
    def build(scope: Scope) -> None:
        rate = scope.variable("rate", "k", "1/s", "rate", bounds=POSITIVE)
        time = scope.variable("time", "t", "s", "time")
        left = scope.variable("left", "x", "1", "")
        scope.differential(
            left, -rate * left, time=Symbol("tau"), time_like=time,
            initial=number("1 1"), start=number("0 s"), end=time,
        )  # fmt: skip
        scope.variable("f", "f", "1", "", equals=left + rate * number("0.1 s"))

    registry = registry_of(build)
    listed = registry.minimize("s.f", {"s.rate": [0.1, 1, 2, 3, 10]}, {"s.time": 1})
    direct = {k: math.exp(-k) + 0.1 * k for k in (0.1, 1, 2, 3, 10)}
    assert listed.choices["s.rate"] == min(direct, key=direct.__getitem__)
    assert "point by point" in listed.notes[0]
    ranged = registry.minimize("s.f", {"s.rate": (0.1, 10)}, {"s.time": 1})
    assert ranged.choices["s.rate"] == pytest.approx(math.log(10), rel=1e-3)


def test_progress_reaches_its_end() -> None:
    seen: list[tuple[int, int]] = []
    over = {"s.a": list(range(-3, 4)), "s.b": list(range(300)), "s.c": list(range(300))}
    registry = registry_of(lambda scope: random_problem(scope, [1.0, 1.0, 0.5, 1.0]))
    minimize(registry, "s.f", over, {}, {}, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (630_000, 630_000)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("target", "over", "error", "message"),
    [
        ("s.f", {}, InputError, "nothing to choose"),
        ("s.f", {"s.a": []}, InputError, "no values for s.a"),
        ("s.f", {"s.a": (1, 2, 3)}, InputError, r"expected a range \(lower, upper\)"),
        ("s.f", {"s.a": (2, 1)}, InputError, "the range from 2 to 1 is empty"),
        ("s.f", {"s.a": ["1..2"]}, InputError, "expected a single value, got a distribution"),
        ("s.f", {"s.f": [1, 2]}, InputError, "s.f is the target"),
        ("s.f", {"s.q": [1, 2]}, AssayError, 'unknown variable "s.q"'),
        ("s.f", {"s.a": ["1 m"]}, AssayError, "unit mismatch"),
        ("s.f", {"variant:s.m": ["other"]}, AssayError, "unknown variant of s.m"),
        ("s.f", {"s.a": [1, 2]}, MissingInputsError, "s.f needs 2 more inputs: s.b, s.c"),
    ],
)
def test_invalid_problems_are_refused(
    target: str, over: dict[str, object], error: type[AssayError], message: str
) -> None:
    registry = registry_of(lambda scope: random_problem(scope, [1.0, 1.0, 0.5, 1.0]))
    with pytest.raises(error, match=message):
        registry.minimize(target, over)


def test_stack_scenario_as_plain_data() -> None:
    preset = built_in.preset("dense_training_cost_fixture")
    over = {"training.gpus": [f"{n} GPU" for n in range(1, 33)]}
    best = stack.registry().minimize("econ.cost.per_token", over, preset.given, preset.variants)
    data = best.to_data()
    assert data["value"] == pytest.approx(3.000078e-6)
    assert data["unit"] == "USD/token"
    assert data["choices"] == [{"name": "training.gpus", "value": 8.0, "unit": "GPU"}]
    assert data["binding"][0]["text"] == "training.gpus <= cluster.gpus"
    assert (data["points"], data["feasible"]) == (32, 8)
    assert [a["choices"][0]["value"] for a in data["alternatives"]] == [7, 6, 5, 4, 3]


def test_ceilings_are_enumerated_exactly() -> None:
    def build(scope: Scope) -> None:
        batch = scope.variable("batch", "b", "1", "", bounds=POSITIVE)
        waves = scope.variable("waves", "w", "1", "", equals=ceil(batch / 132))
        scope.variable("per", "p", "1", "", equals=waves / batch)
        scope.inequality("room", minimum(batch, 1000) <= 600, "fits")

    best = registry_of(build).minimize("s.per", {"s.batch": list(range(1, 1001))})
    # Full waves only: 132, 264, 396 and 528 tie, and the first is taken.
    assert best.choices == {"s.batch": 132.0}
    assert best.value == pytest.approx(1 / 132)


def budget(scope: Scope) -> None:
    x = scope.variable("x", "x", "1", "first amount", bounds=POSITIVE, boundary="scenario")
    y = scope.variable("y", "y", "1", "second amount", bounds=POSITIVE, boundary="scenario")
    limit = scope.variable("limit", "b", "1", "budget", boundary="scenario")
    scope.variable("loss", "l", "1", "loss", equals=1 / x + 4 / y)
    scope.inequality("budget", x + y <= limit, "the amounts are within the budget")


def test_price_of_a_constraint_is_its_lagrange_multiplier() -> None:
    best = registry_of(budget).minimize(
        "s.loss", {"s.x": (0.01, 100.0), "s.y": (0.01, 100.0)}, {"s.limit": 6.0}
    )
    # Minimum (1 + 2)^2 / b at x = b/3; its derivative by the budget is -9 / b^2.
    assert best.value == pytest.approx(9 / 6, rel=1e-6)
    (binding,) = best.binding
    assert binding.name == "s.budget"
    assert binding.price == pytest.approx(9 / 36, rel=1e-3)
    assert binding.gain is None


@given(st.integers(2, 12))
@settings(max_examples=10, deadline=None)
def test_gain_of_a_constraint_is_the_best_without_it(limit: int) -> None:
    registry = registry_of(budget)
    values = [float(i) for i in range(1, 9)]
    over = {"s.x": values, "s.y": values}
    best = registry.minimize("s.loss", over, {"s.limit": limit})
    free = registry.minimize("s.loss", over, {"s.limit": limit}, constraints=False)
    gains = {binding.name: binding.gain for binding in best.binding}
    assert gains.get("s.budget", 0.0) == pytest.approx(best.value - free.value)
