"""Uncertainty against exact results: sums, products, ratios, Ishigami's function, draws, decay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import brentq

from assay.array_types import Floats
from assay.errors import EvaluationError, InputError, MissingInputsError, UnknownNameError
from assay.model import ANY_SIGN, Distribution, Registry, Scope, Symbol, exp, log, sin, sqrt
from assay.model.inputs import Given, read_inputs
from assay.model.language.variables import Variable
from assay.model.uncertainty.propagate import VarianceShare, propagate, variance_shares
from assay.model.uncertainty.sampling import PointEvaluator, TapeEvaluator, nominal_values
from assay.model.uncertainty.sobol_indices import sobol_indices
from assay.model.uncertainty.sources import UncertaintyQuery, find_sources

TAILS = (0.05, 0.25, 0.5, 0.75, 0.95)


def scenario(scope: Scope, name: str, unit: str = "1", bounds: Any = ANY_SIGN) -> Variable:
    return scope.variable(name, name, unit, name, boundary="scenario", bounds=bounds)


@pytest.fixture(scope="module")
def arithmetic() -> Registry:
    """Sums, products and ratios, whose distributions are known."""
    scope = Scope("t", "arithmetic of uncertain numbers")
    a, b, c = (scenario(scope, name) for name in "abc")
    for name, value in {
        "sum": 2 * a + 3 * b - c,
        "product": a * b / c,
        "ratio": a / b,
        "root": sqrt(a),
        "narrow": sqrt(0.01 - (a - 1) ** 2),
        "same": a - a + b,
        "shifted": sqrt(a) + b,
    }.items():
        scope.variable(name, name, "1", name, equals=value, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


@pytest.fixture(scope="module")
def ishigami() -> Registry:
    """The usual test of sensitivity analysis, with a = 7 and b = 0.1."""
    scope = Scope("i", "Ishigami and Homma 1990")
    x, y, z = (scenario(scope, name) for name in "xyz")
    value = sin(x) + 7 * sin(y) ** 2 + 0.1 * z**4 * sin(x)
    scope.variable("f", "f", "1", "the function", equals=value, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


@pytest.fixture(scope="module")
def drawing() -> Registry:
    """Stochastic relations: one on another, one within bounds, one without a spread."""
    scope = Scope("d", "draws")
    mean, spread = scenario(scope, "mean"), scenario(scope, "spread")
    inner = scope.variable("inner", "i", "1", "drawn around the mean", bounds=ANY_SIGN)
    scope.stochastic(inner, "normal", mean, spread)
    outer = scope.variable("outer", "o", "1", "drawn around a draw", bounds=ANY_SIGN)
    scope.stochastic(outer, "normal", 2 * inner, 3 * spread)
    half = scope.variable("half", "h", "1", "half of a normal distribution", bounds=(0, None))
    scope.stochastic(half, "normal", mean, spread)
    factor = scope.variable("factor", "f", "1", "lognormal around an exponential")
    scope.stochastic(factor, "lognormal", exp(mean), spread)
    scope.variable("both", "b", "1", "a draw used twice", equals=inner + outer, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


@pytest.fixture(scope="module")
def dynamic() -> Registry:
    """An exponential decay, integrated; a switch between approximations; what builds on them."""
    scope = Scope("y", "dynamics")
    rate = scenario(scope, "rate", "1/s", (0, None))
    time = scenario(scope, "time", "s", (0, None))
    scale = scenario(scope, "scale")
    left = scope.variable("left", "l", "1", "what is left of one")
    scope.differential(
        left, -rate * left, time=Symbol("t"), time_like=time, initial=1, start=0 * time, end=time
    )
    scope.variable("scaled", "s", "1", "what is left, scaled", equals=scale * left)
    decayed = scope.variable("decayed", "e", "1", "what is left, by formula")
    scope.approximation(decayed, 1 - rate * time, name="early", valid=rate * time < 0.1)
    scope.approximation(decayed, exp(-rate * time), name="always")
    noisy = scope.variable("noisy", "n", "1", "what is left, observed", bounds=ANY_SIGN)
    scope.stochastic(noisy, "normal", scale * decayed, 0.1 * scale)
    scope.variable("mixed", "m", "1", "all", equals=left + noisy + decayed, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


def quantiles(registry: Registry, target: str, assigned: Mapping[str, Given]) -> Floats:
    sample = propagate(registry, target, assigned, replicates=1)
    return np.asarray(sample.quantiles(TAILS)[0])


def test_a_sum_of_normals_is_normal(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {"t.a": "normal(1, 0.5)", "t.b": "normal(-2, 1)", "t.c": 4.0}
    sample = propagate(arithmetic, "t.sum", assigned)
    exact = stats.norm(2 * 1 - 3 * 2 - 4, math.hypot(2 * 0.5, 3 * 1))
    np.testing.assert_allclose(sample.mean, exact.mean(), rtol=1e-4)
    np.testing.assert_allclose(sample.std, exact.std(), rtol=2e-3)
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], exact.ppf(TAILS), atol=0.03)
    assert sample.samples.shape == (1, 4096)
    assert sample.degradations == ()


def test_a_product_of_lognormals_is_lognormal(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {
        "t.a": "lognormal(2, 0.1)",
        "t.b": "1..3",
        "t.c": "lognormal(5, 0.2)",
    }
    sigma = math.sqrt(0.1**2 + (math.log(3) / 2 / stats.norm.ppf(0.95)) ** 2 + 0.2**2)
    exact = stats.lognorm(sigma, scale=2 * math.sqrt(3) / 5)
    np.testing.assert_allclose(
        quantiles(arithmetic, "t.product", assigned), exact.ppf(TAILS), rtol=0.01
    )


def test_a_ratio_of_uniforms_has_its_known_quantiles(arithmetic: Registry) -> None:
    # P(A/B < z) = z/2 up to 1 and 1 - 1/(2z) beyond.
    assigned: dict[str, Given] = {"t.a": "uniform(0, 1)", "t.b": "uniform(0, 1)"}
    np.testing.assert_allclose(
        quantiles(arithmetic, "t.ratio", assigned), [0.1, 0.5, 1.0, 2.0, 10.0], rtol=0.02
    )


@settings(max_examples=25)
@given(st.floats(-5, 5), st.floats(0.01, 5), st.floats(-5, 5), st.floats(0.01, 5))
def test_any_sum_of_normals_is_normal(
    arithmetic: Registry, first: float, spread: float, second: float, other: float
) -> None:
    assigned: dict[str, Given] = {
        "t.a": Distribution("normal", (first, spread)),
        "t.b": Distribution("normal", (second, other)),
        "t.c": 0.0,
    }
    exact = stats.norm(2 * first + 3 * second, math.hypot(2 * spread, 3 * other))
    found = quantiles(arithmetic, "t.sum", assigned)
    np.testing.assert_allclose(found, exact.ppf(TAILS), atol=0.02 * exact.std())


def test_standard_errors_cover_the_error(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {
        "t.a": "normal(1, 0.5)",
        "t.b": "uniform(-2, 1)",
        "t.c": "normal(0, 1)",
    }
    best = propagate(arithmetic, "t.sum", assigned, count=65536, replicates=1).quantiles(TAILS)
    for seed in range(5):
        sample = propagate(arithmetic, "t.sum", assigned, count=1024, seed=seed, replicates=16)
        errors = sample.standard_errors(TAILS)
        assert errors is not None
        assert errors.shape == (1, len(TAILS))
        assert (np.abs(sample.quantiles(TAILS) - best) < 5 * errors).all()
        # Far better than as many independent draws, whose error is known.
        exact = math.sqrt(0.25 / 1024) / stats.norm.pdf(0) * float(sample.std[0])
        assert 0 < errors[0, 2] < exact


def test_results_are_reproducible(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {"t.a": "normal(1, 0.5)", "t.b": "2..3", "t.c": 1.0}
    first, second = (propagate(arithmetic, "t.sum", assigned) for _ in range(2))
    np.testing.assert_array_equal(first.replicates, second.replicates)
    other = propagate(arithmetic, "t.sum", assigned, seed=1)
    assert not np.array_equal(first.samples, other.samples)


def test_targets_share_their_points(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {"t.a": "uniform(1, 2)", "t.b": "uniform(1, 2)", "t.c": 1.0}
    sample = propagate(arithmetic, ["t.product", "t.ratio", "t.a"], assigned)
    product, ratio, a = sample.samples
    np.testing.assert_allclose(product * ratio, a**2, rtol=1e-12)
    assert sample.names == ("t.product", "t.ratio", "t.a")


def test_certain_target_has_an_interval_of_width_zero(arithmetic: Registry) -> None:
    sample = propagate(arithmetic, "t.sum", {"t.a": 1.0, "t.b": 2.0, "t.c": 3.0})
    assert set(sample.samples[0]) == {5.0}
    assert sample.samples.shape == (1, 4096)
    assert list(variance_shares(arithmetic, "t.sum", {"t.a": 1.0, "t.b": 2.0, "t.c": 3.0})) == []


def test_resolve_reports_the_interval(arithmetic: Registry) -> None:
    assigned: dict[str, Given] = {"t.a": "normal(1, 0.5)", "t.b": "normal(-2, 1)", "t.c": 4.0}
    resolution = arithmetic.resolve("t.sum", assigned)
    assert resolution.value == -8.0
    exact = stats.norm(-8, math.hypot(1, 3))
    assert resolution.lower == pytest.approx(exact.ppf(0.05), rel=5e-3)
    assert resolution.upper == pytest.approx(exact.ppf(0.95), rel=5e-2)
    inputs = read_inputs(arithmetic, assigned)
    sample = propagate(arithmetic, "t.sum", inputs)
    assert [resolution.lower, resolution.upper] == list(sample.quantiles((0.05, 0.95))[0])
    certain = arithmetic.resolve("t.sum", {"t.a": 1.0, "t.b": -2.0, "t.c": 4.0})
    assert (certain.lower, certain.upper) == (certain.value, certain.value)


def test_points_without_a_value_are_dropped_and_noted(arithmetic: Registry) -> None:
    sample = propagate(arithmetic, "t.root", {"t.a": "normal(1, 1)"}, replicates=1)
    failed = int(np.isnan(sample.samples).sum())
    assert failed == pytest.approx(4096 * stats.norm.cdf(-1), rel=0.01)
    exact = np.sqrt(stats.truncnorm(-1, np.inf, loc=1).ppf(TAILS))
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], exact, rtol=0.01)
    assert sample.degradations == (
        f"t.root has no finite value at {failed} of 4096 points, which are left out",
    )


def test_more_failures_than_values_are_an_error(arithmetic: Registry) -> None:
    # The median is fine: only sampling can find out.
    for make_query in (propagate, variance_shares):
        with pytest.raises(EvaluationError, match=r"t\.narrow has no finite value at \d+ of \d+ "):
            make_query(arithmetic, "t.narrow", {"t.a": "normal(1, 1)"})


@pytest.mark.parametrize(
    ("bounds", "text", "outside", "exact"),
    [
        ((0, None), "normal(0.5, 1)", stats.norm.cdf(-0.5), stats.truncnorm(-0.5, np.inf, 0.5)),
        ((None, 1), "normal(0.5, 1)", stats.norm.cdf(-0.5), stats.truncnorm(-np.inf, 0.5, 0.5)),
        ((0, 1), "uniform(-1, 3)", 0.75, stats.uniform(0, 1)),
    ],
)
def test_bounds_truncate_a_distribution(bounds: Any, text: str, outside: float, exact: Any) -> None:
    scope = Scope("b", "bounds")
    x = scenario(scope, "x", bounds=bounds)
    scope.variable("y", "y", "1", "y", equals=2 * x, bounds=ANY_SIGN)
    sample = propagate(Registry.from_scopes([scope]), "b.y", {"b.x": text}, replicates=1)
    found = sample.quantiles(TAILS)[0]
    np.testing.assert_allclose(found, 2 * exact.ppf(TAILS), rtol=0.02, atol=2e-3)
    # Nothing is heaped up on the bound.
    assert len(np.unique(sample.samples)) == sample.samples.size
    (note,) = sample.degradations
    expected = f"b.x is drawn within its bounds: {outside:.2g} of its distribution lies outside"
    assert note == expected


def test_ishigami_has_its_mean_and_variance(ishigami: Registry) -> None:
    angle = f"uniform({-math.pi}, {math.pi})"
    sample = propagate(ishigami, "i.f", dict.fromkeys(("i.x", "i.y", "i.z"), angle))
    assert sample.mean[0] == pytest.approx(3.5, rel=1e-3)
    # a^2/8 + b pi^4/5 + b^2 pi^8/18 + 1/2
    assert sample.std[0] ** 2 == pytest.approx(13.844587940719254, rel=2e-3)


def test_ishigami_has_its_shares(ishigami: Registry) -> None:
    angle = f"uniform({-math.pi}, {math.pi})"
    assigned = dict.fromkeys(("i.x", "i.y", "i.z"), angle)
    shares = variance_shares(ishigami, "i.f", assigned, count=4096)
    exact = {"i.x": (0.3139, 0.5576), "i.y": (0.4424, 0.4424), "i.z": (0.0, 0.2437)}
    assert [share.name for share in shares] == list(exact)
    for name, first, total, half_width in shares:
        assert (first, total) == pytest.approx(exact[name], abs=0.01)
        assert 0.01 < half_width < 0.1
    assert shares.degradations == ()


def test_shares_agree_with_salibs_own_design(ishigami: Registry) -> None:
    from SALib.analyze import sobol as analysis
    from SALib.sample import sobol as sampler
    from SALib.test_functions import Ishigami

    sides = [[-math.pi, math.pi]] * 3
    names = ["i.x", "i.y", "i.z"]
    problem = {"num_vars": 3, "names": names, "bounds": sides}
    points = sampler.sample(problem, 4096, calc_second_order=False, seed=3)
    outcomes = Ishigami.evaluate(points)
    theirs = analysis.analyze(problem, outcomes, calc_second_order=False, seed=3)
    angle = f"uniform({-math.pi}, {math.pi})"
    ours = variance_shares(ishigami, "i.f", dict.fromkeys(names, angle), count=4096)
    np.testing.assert_allclose([s.first_order for s in ours], theirs["S1"], atol=0.02)
    np.testing.assert_allclose([s.total_order for s in ours], theirs["ST"], atol=0.02)


@pytest.mark.parametrize(("rows", "sources", "offset"), [(64, 2, 0.0), (256, 5, 1e6), (8, 3, -3.0)])
def test_indices_equal_salibs(rows: int, sources: int, offset: float) -> None:
    from SALib.analyze import sobol as analysis

    outcomes = np.random.default_rng(rows).normal(offset, 2.0, (rows, sources + 2)) ** 3
    problem = {
        "num_vars": sources,
        "names": [str(i) for i in range(sources)],
        "bounds": [[0.0, 1.0]] * sources,
    }
    theirs = analysis.analyze(problem, outcomes.ravel(), calc_second_order=False, seed=7)
    ours = np.array(sobol_indices(outcomes, 7)).T
    for found, key in zip(ours, ("S1", "ST", "S1_conf", "ST_conf"), strict=True):
        np.testing.assert_allclose(found, theirs[key], rtol=1e-9, atol=1e-12)


@settings(max_examples=20)
@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_shares_of_a_sum_are_those_of_its_variance(
    arithmetic: Registry, first: float, second: float, third: float
) -> None:
    assigned: dict[str, Given] = {
        "t.a": Distribution("normal", (1.0, first)),
        "t.b": Distribution("uniform", (0.0, second)),
        "t.c": Distribution("triangular", (0.0, 0.0, third)),
    }
    parts = np.array([4 * first**2, 9 * second**2 / 12, third**2 / 18])
    shares = variance_shares(arithmetic, "t.sum", assigned, count=512)
    for share, exact in zip(shares, parts / parts.sum(), strict=True):
        # A sum has no interactions: both orders are the same.
        assert share.first_order == pytest.approx(exact, abs=0.03)
        assert share.total_order == pytest.approx(exact, abs=0.03)


def test_groups_are_single_sources(ishigami: Registry) -> None:
    angle = f"uniform({-math.pi}, {math.pi})"
    assigned = dict.fromkeys(("i.x", "i.y", "i.z"), angle)
    groups = {"i.x": "odd", "i.z": "odd"}
    odd, even = variance_shares(ishigami, "i.f", assigned, count=4096, groups=groups)
    # The interaction of x and z is inside the group.
    assert (odd.name, even.name) == ("odd", "i.y")
    assert (odd.first_order, odd.total_order) == pytest.approx((0.5576, 0.5576), abs=0.01)
    assert (even.first_order, even.total_order) == pytest.approx((0.4424, 0.4424), abs=0.01)


def test_a_sole_source_has_all_of_the_variance(arithmetic: Registry) -> None:
    shares = variance_shares(arithmetic, "t.sum", {"t.a": "normal(1, 2)", "t.b": 1.0, "t.c": 1.0})
    assert list(shares) == [VarianceShare("t.a", 1.0, 1.0, 0.0)]


def test_inputs_that_cancel_take_no_share(arithmetic: Registry) -> None:
    shares = variance_shares(arithmetic, "t.same", {"t.a": "normal(1, 2)", "t.b": "normal(1, 2)"})
    assert shares[0][1:] == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    assert shares[1].first_order == pytest.approx(1.0, abs=0.01)
    still = variance_shares(arithmetic, "t.same", {"t.a": "normal(1, 2)", "t.b": 1.0})
    assert list(still) == [VarianceShare("t.a", 0.0, 0.0, 0.0)]
    assert still.degradations == ("t.same does not vary with its uncertain inputs",)


def test_shares_drop_failed_points_and_note_it(arithmetic: Registry) -> None:
    shares = variance_shares(arithmetic, "t.root", {"t.a": "normal(2, 1)"})
    (note,) = shares.degradations
    assert note.startswith("t.root has no finite value at ")
    assert shares[0] == VarianceShare("t.a", 1.0, 1.0, 0.0)
    both: dict[str, Given] = {"t.a": "normal(2, 1)", "t.b": "normal(0, 0.5)"}
    root, shift = variance_shares(arithmetic, "t.shifted", both, count=4096)
    known = stats.truncnorm(-2, np.inf, loc=2)
    variance = known.expect(lambda a: a) - known.expect(np.sqrt) ** 2
    assert root.first_order == pytest.approx(variance / (variance + 0.25), abs=0.02)
    assert shift.first_order == pytest.approx(0.25 / (variance + 0.25), abs=0.02)


def test_a_draw_around_an_uncertain_mean(drawing: Registry) -> None:
    assigned: dict[str, Given] = {"d.mean": "normal(3, 4)", "d.spread": 3.0}
    exact = stats.norm(3, 5)
    found = quantiles(drawing, "d.inner", assigned)
    np.testing.assert_allclose(found, exact.ppf(TAILS), atol=0.02 * 5)
    shares = variance_shares(drawing, "d.inner", assigned)
    assert [share.name for share in shares] == ["d.mean", "d.inner"]
    assert [share.first_order for share in shares] == pytest.approx([0.64, 0.36], abs=0.02)


def test_a_draw_around_a_draw(drawing: Registry) -> None:
    assigned: dict[str, Given] = {"d.mean": "normal(1, 2)", "d.spread": 1.0}
    sample = propagate(drawing, ["d.inner", "d.outer", "d.both"], assigned)
    # inner = mean + e, outer = 2 inner + 3 f, both = 3 inner + 3 f
    exact = [math.sqrt(5), math.sqrt(4 * 5 + 9), math.sqrt(9 * 5 + 9)]
    np.testing.assert_allclose(sample.std, exact, rtol=5e-3)
    np.testing.assert_allclose(sample.mean, [1, 2, 3], atol=0.01)


def test_draws_need_no_uncertain_inputs(drawing: Registry) -> None:
    assigned: dict[str, Given] = {"d.mean": 0.7, "d.spread": 0.25}
    exact = stats.lognorm(0.25, scale=math.exp(0.7))
    found = quantiles(drawing, "d.factor", assigned)
    np.testing.assert_allclose(found, exact.ppf(TAILS), rtol=2e-3)
    resolution = drawing.resolve("d.factor", assigned)
    assert resolution.value == pytest.approx(exact.median(), rel=1e-12)
    assert resolution.lower == pytest.approx(exact.ppf(0.05), rel=5e-3)


def test_draws_keep_to_the_bounds_of_their_variable(drawing: Registry) -> None:
    sample = propagate(drawing, "d.half", {"d.mean": 0.0, "d.spread": 2.0}, replicates=1)
    np.testing.assert_allclose(
        sample.quantiles(TAILS)[0], stats.halfnorm(scale=2).ppf(TAILS), rtol=5e-3
    )
    (note,) = sample.degradations
    assert note == "d.half is drawn within its bounds: 0.5 of its distribution lies outside"


def test_draws_with_impossible_parameters_have_no_value(drawing: Registry) -> None:
    assigned: dict[str, Given] = {"d.mean": 1.0, "d.spread": "uniform(-1, 3)"}
    sample = propagate(drawing, "d.inner", assigned, replicates=1)
    assert np.isnan(sample.samples).sum() == pytest.approx(1024, abs=2)
    assert len(sample.degradations) == 1


def test_a_given_draw_is_not_drawn(drawing: Registry) -> None:
    sample = propagate(drawing, "d.inner", {"d.inner": "uniform(1, 2)"}, replicates=1)
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], 1 + np.array(TAILS), atol=1e-3)


def test_an_integrated_cone_is_resolved_point_by_point(dynamic: Registry) -> None:
    assigned: dict[str, Given] = {"y.rate": "lognormal(0.5, 0.3) 1/s", "y.time": "2 s"}
    sample = propagate(dynamic, "y.left", assigned)
    rates = stats.lognorm(0.3, scale=0.5).ppf(1 - np.array(TAILS))
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], np.exp(-2 * rates), rtol=0.01)
    assert sample.samples.shape == (1, 256)
    assert sample.standard_errors(TAILS) is None
    (note,) = sample.degradations
    assert note == (
        "256 points instead of 4096, resolved one by one: "
        "differential relation y.left cannot be compiled to a tape"
    )
    few = propagate(dynamic, "y.left", assigned, count=64)
    assert few.samples.shape == (1, 64)


def test_shares_of_an_integrated_cone(dynamic: Registry) -> None:
    # The logarithm of what is left is a sum; for small spreads so is the rest.
    assigned: dict[str, Given] = {
        "y.rate": "normal(1, 0.01) 1/s",
        "y.time": "normal(1, 0.02) s",
        "y.scale": "normal(1, 0.02)",
    }
    shares = variance_shares(dynamic, "y.scaled", assigned)
    assert [s.total_order for s in shares] == pytest.approx([1 / 9, 4 / 9, 4 / 9], abs=0.08)
    (note,) = shares.degradations
    assert note.startswith("64 points a source instead of 1024, resolved one by one: ")


def test_certain_integrated_relation_keeps_the_tape(dynamic: Registry) -> None:
    assigned: dict[str, Given] = {"y.rate": "0.5 1/s", "y.time": "2 s", "y.scale": "uniform(1, 3)"}
    sample = propagate(dynamic, "y.scaled", assigned)
    exact = (1 + 2 * np.array(TAILS)) * math.exp(-1)
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], exact, rtol=1e-3)
    assert sample.samples.shape == (1, 4096)
    assert sample.degradations == ()


def test_relations_are_switched_at_each_point(dynamic: Registry) -> None:
    assigned: dict[str, Given] = {"y.rate": "uniform(0, 0.2) 1/s", "y.time": "1 s"}
    both = propagate(dynamic, ["y.rate", "y.decayed"], assigned, {"y.decayed": "early"})
    rate, decayed = both.samples
    expected = np.where(rate < 0.1, 1 - rate, np.exp(-rate))
    np.testing.assert_allclose(decayed, expected, rtol=1e-14)
    kept = propagate(dynamic, "y.decayed", assigned, {"y.decayed": "early"}, switch=False)
    np.testing.assert_allclose(kept.samples[0], 1 - rate, rtol=1e-14)


@settings(max_examples=10)
@given(st.floats(0.01, 0.3), st.floats(0.1, 3), st.integers(0, 2**32 - 1))
def test_tape_and_point_by_point_agree(
    dynamic: Registry, median: float, scale: float, seed: int
) -> None:
    inputs = read_inputs(
        dynamic,
        {
            "y.rate": Distribution("lognormal", (median, 1.0)),
            "y.time": "1 s",
            "y.scale": Distribution("normal", (scale, 0.1)),
            # Given, so that the cone compiles.
            "y.left": 0.5,
        },
    )
    query = UncertaintyQuery(dynamic, ("y.mixed", "y.noisy"), inputs, {"y.decayed": "early"})
    sources = find_sources(query)
    assert sources.names == ("y.rate", "y.scale", "y.noisy")
    points = np.random.default_rng(seed).uniform(size=(3, 40))
    nominal = nominal_values(query)
    tape, point = (kind(query, sources, nominal) for kind in (TapeEvaluator, PointEvaluator))
    by_tape, by_point = tape(tape.inverse_cdf(points)), point(point.inverse_cdf(points))
    # A few points have a negative scale, which no draw can have for its spread.
    assert np.isfinite(by_tape).mean() > 0.4
    np.testing.assert_allclose(by_tape, by_point, rtol=1e-12, atol=1e-14)


def test_tape_and_point_by_point_truncate_the_same_share(drawing: Registry) -> None:
    inputs = read_inputs(drawing, {"d.mean": "uniform(0, 2)", "d.spread": 1.0})
    query = UncertaintyQuery(drawing, ("d.half",), inputs, {})
    sources, nominal = find_sources(query), nominal_values(query)
    points = np.random.default_rng(0).uniform(size=(2, 50))
    outside = []
    for kind in (TapeEvaluator, PointEvaluator):
        evaluator = kind(query, sources, nominal)
        evaluator(evaluator.inverse_cdf(points))
        outside.append(evaluator.outside)
    expected = float(np.mean(stats.norm.cdf(-2 * points[0])))
    assert outside[0] == pytest.approx({"d.half": expected}, rel=1e-9)
    assert outside[1] == pytest.approx({"d.half": expected}, rel=1e-9)


def test_failed_point_is_noted_with_its_reason() -> None:
    scope = Scope("z", "a rate that does not exist where the input is negative")
    x = scenario(scope, "x")
    time = scenario(scope, "time", "s", (0, None))
    rate = scenario(scope, "rate", "1/s")
    y = scope.variable("y", "y", "1", "y", bounds=ANY_SIGN)
    scope.differential(
        y, rate * log(x), time=Symbol("t"), time_like=time, initial=0, start=0 * time, end=time
    )
    registry = Registry.from_scopes([scope])
    assigned: dict[str, Given] = {"z.x": "uniform(-1, 3)", "z.time": "1 s", "z.rate": "1 1/s"}
    sample = propagate(registry, "z.y", assigned)
    assert np.isnan(sample.samples).sum() == 64
    exact = np.log(3 * np.array(TAILS))
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], exact, atol=0.1)
    reduced, left_out = sample.degradations
    assert reduced.startswith("256 points instead of 4096")
    assert left_out.startswith(
        "z.y has no finite value at 64 of 256 points, which are left out: z.y"
    )


def test_a_block_is_solved_at_every_point_from_its_nominal_solution() -> None:
    scope = Scope("s", "a block that a plain first guess does not solve")
    a = scenario(scope, "a")
    x = scope.variable("x", "x", "1", "x", bounds=ANY_SIGN)
    y = scope.variable("y", "y", "1", "y", equals=log(x - 50), bounds=ANY_SIGN)
    scope.equation(x, y + a)
    scope.simultaneous("block", [x, y])
    registry = Registry.from_scopes([scope])
    sample = propagate(registry, ["s.a", "s.x"], {"s.a": "uniform(59, 61)"}, replicates=1)
    assert sample.degradations == ()
    given_a, found = sample.samples[:, ::64]
    for level, value in zip(given_a, found, strict=True):
        exact = brentq(lambda x, level=level: x - level - math.log(x - 50), 55, 99, xtol=1e-12)
        assert value == pytest.approx(exact, rel=1e-10)


def test_an_input_that_no_point_needs_may_be_missing() -> None:
    scope = Scope("u", "a relation whose input nobody gives, never valid here")
    x, unknown = scenario(scope, "x"), scenario(scope, "unknown")
    y = scope.variable("y", "y", "1", "y", bounds=ANY_SIGN)
    scope.approximation(y, unknown * x, name="small", valid=x < 0.5)
    scope.approximation(y, x**2, name="large", valid=x > 0.5)
    registry = Registry.from_scopes([scope])
    sample = propagate(registry, "u.y", {"u.x": "uniform(1, 2)"}, {"u.y": "small"})
    exact = (1 + np.array(TAILS)) ** 2
    np.testing.assert_allclose(sample.quantiles(TAILS)[0], exact, rtol=0.01)
    assert not sample.degradations


def test_an_input_that_only_decides_validity_is_a_source() -> None:
    scope = Scope("v", "an approximation whose validity hangs on something else")
    load, limit = scenario(scope, "load"), scenario(scope, "limit")
    y = scope.variable("y", "y", "1", "y", bounds=ANY_SIGN)
    scope.approximation(y, 1 * limit, name="low", valid=load < limit)
    scope.approximation(y, 3 * limit, name="high")
    registry = Registry.from_scopes([scope])
    assigned: dict[str, Given] = {"v.load": "normal(4, 1)", "v.limit": 5.0}
    sample = propagate(registry, "v.y", assigned, {"v.y": "low"}, replicates=1)
    assert set(sample.samples[0]) == {5.0, 15.0}
    assert np.mean(sample.samples == 15.0) == pytest.approx(stats.norm.cdf(-1), abs=0.001)
    resolution = registry.resolve("v.y", assigned, {"v.y": "low"})
    assert (resolution.value, resolution.lower, resolution.upper) == (5.0, 5.0, 15.0)
    fixed = registry.resolve("v.y", assigned, {"v.y": "low"}, switch=False)
    assert (fixed.lower, fixed.upper) == (5.0, 5.0)


def test_points_switch_to_draws_but_not_to_those_that_lack_inputs() -> None:
    scope = Scope("w", "an approximation with stochastic relations to switch to")
    x, unknown = scenario(scope, "x"), scenario(scope, "unknown")
    y = scope.variable("y", "y", "1", "y", bounds=ANY_SIGN)
    scope.approximation(y, x, name="plain", valid=x < 1)
    scope.stochastic(y, "normal", unknown, 1 + 0 * unknown, name="unusable")
    scope.stochastic(y, "normal", 10 * x, x, name="usable")
    registry = Registry.from_scopes([scope])
    assigned: dict[str, Given] = {"w.x": "uniform(0, 2)"}
    sample = propagate(registry, ["w.x", "w.y"], assigned, {"w.y": "plain"}, replicates=1)
    x_values, y_values = sample.samples
    assert sample.degradations == ()
    np.testing.assert_array_equal(y_values[x_values < 1], x_values[x_values < 1])
    scores = (y_values / x_values - 10)[x_values >= 1]
    np.testing.assert_allclose(np.quantile(scores, TAILS), stats.norm.ppf(TAILS), atol=0.05)


def test_missing_inputs_are_named(arithmetic: Registry) -> None:
    for make_query in (propagate, variance_shares):
        with pytest.raises(MissingInputsError) as refused:
            make_query(arithmetic, "t.sum", {"t.a": "normal(1, 2)"})
        assert refused.value.names == ("t.b", "t.c")


def test_invalid_queries_are_refused(arithmetic: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"t\.summ"):
        propagate(arithmetic, "t.summ", {})
    for count in (1000, 1, 0, -8):
        with pytest.raises(InputError, match=f"expected a power of two, got {count}"):
            propagate(arithmetic, "t.sum", {}, count=count)
        with pytest.raises(InputError, match=f"expected a power of two, got {count}"):
            variance_shares(arithmetic, "t.sum", {}, count=count)
