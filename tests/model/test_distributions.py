"""Distributions against SciPy's: quantiles, texts, the 90 % shorthand, draws within bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

from assay.errors import AssayError, InputError, UnitError
from assay.model import Distribution, interval90, parse_unit
from assay.model.language.distributions import Z90, are_valid_parameters, parse_given, quantile
from assay.model.language.normal import normal_quantile, normal_share
from assay.model.uncertainty.truncation import (
    share_below,
    truncated_quantile,
    truncated_quantile_of,
)

PROBABILITIES = np.array([1e-9, 0.001, 0.05, 0.25, 0.5, 0.6, 0.95, 0.999, 1 - 1e-9])

# Our parameters and SciPy's own object for the same distribution.
ORACLES = [
    ("normal", (3.0, 2.0), stats.norm(3.0, 2.0)),
    ("normal", (-1e9, 1e-3), stats.norm(-1e9, 1e-3)),
    ("lognormal", (5.0, 0.3), stats.lognorm(0.3, scale=5.0)),
    ("lognormal", (1e15, 2.0), stats.lognorm(2.0, scale=1e15)),
    ("uniform", (-2.0, 7.0), stats.uniform(-2.0, 9.0)),
    ("triangular", (1.0, 2.0, 5.0), stats.triang(0.25, 1.0, 4.0)),
    ("triangular", (1.0, 1.0, 5.0), stats.triang(0.0, 1.0, 4.0)),
    ("triangular", (1.0, 5.0, 5.0), stats.triang(1.0, 1.0, 4.0)),
]


@pytest.mark.parametrize(("kind", "parameters", "oracle"), ORACLES)
def test_quantiles_agree_with_scipy(kind: str, parameters: tuple[Any, ...], oracle: Any) -> None:
    ours = Distribution(kind, parameters)
    np.testing.assert_allclose(ours.quantile(PROBABILITIES), oracle.ppf(PROBABILITIES), rtol=1e-12)
    assert ours.median() == pytest.approx(float(oracle.median()), rel=1e-12)


@pytest.mark.parametrize(("kind", "parameters", "oracle"), ORACLES)
@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.8, 0.99])
def test_share_below_agrees_with_scipy(
    kind: str, parameters: tuple[Any, ...], oracle: Any, probability: float
) -> None:
    bound = float(oracle.ppf(probability))
    columns = tuple(np.float64(p) for p in parameters)
    share = share_below(kind, bound, columns, inclusive=False)
    assert float(share) == pytest.approx(float(oracle.cdf(bound)), rel=1e-12)


def test_extreme_quantiles_of_a_triangle_are_its_bounds() -> None:
    for mode in (1.0, 2.0, 5.0):
        ends = Distribution("triangular", (1.0, mode, 5.0)).quantile(np.array([0.0, 1.0]))
        assert list(ends) == [1.0, 5.0]


@pytest.mark.parametrize(
    ("kind", "parameters", "value"),
    [
        ("triangular", (4.0, 4.0, 4.0), 4.0),
        ("uniform", (4.0, 4.0), 4.0),
        ("normal", (4.0, 0.0), 4.0),
        ("lognormal", (4.0, 0.0), 4.0),
        ("empirical", (4.0,), 4.0),
    ],
)
def test_a_distribution_without_width_is_a_number(
    kind: str, parameters: tuple[Any, ...], value: float
) -> None:
    single = Distribution(kind, parameters)
    assert single.median() == value
    assert set(single.quantile(PROBABILITIES)) == {value}
    # A bound on the very value leaves nothing out, from either side.
    for bounds in ((value, math.inf), (-math.inf, value), (value, value)):
        drawn, outside = truncated_quantile_of(single, PROBABILITIES, *bounds)
        assert set(drawn) == {value}
        assert outside == 0.0


def test_quantiles_take_arrays_of_parameters() -> None:
    lower, mode, upper = np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 2.0]), np.array([1.0, 3, 2])
    found = quantile("triangular", np.full(3, 0.3), (lower, mode, upper))
    expected = [stats.triang(0, 0, 1).ppf(0.3), stats.triang(0.5, 1, 2).ppf(0.3), 2.0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_an_empirical_distribution_is_its_sample_interpolated(
    sample: Any, probability: float
) -> None:
    ours = Distribution("empirical", tuple(sample))
    assert ours.quantile(np.array([probability]))[0] == np.quantile(sample, probability)
    assert ours.median() == pytest.approx(float(np.median(sample)), rel=1e-15, abs=1e-300)


@given(st.floats(1e-300, 1e300), st.floats(1, 1e6))
def test_positive_interval_is_the_central_90_percent(lower: float, factor: float) -> None:
    upper = lower * factor
    if not math.isfinite(upper):
        return
    found = interval90(lower, upper)
    assert found.kind == "lognormal"
    np.testing.assert_allclose(found.quantile(np.array([0.05, 0.95])), [lower, upper], rtol=1e-9)


@given(st.floats(-1e9, 0), st.floats(0, 1e9))
def test_an_interval_that_reaches_zero_is_normal(lower: float, width: float) -> None:
    found = interval90(lower, lower + width)
    assert found.kind == "normal"
    ends = found.quantile(np.array([0.05, 0.95]))
    np.testing.assert_allclose(ends, [lower, lower + width], rtol=1e-9, atol=1e-9 * (1 + width))


def test_normal_quantiles_and_shares_agree_with_scipy() -> None:
    tails = 10.0 ** -np.arange(1.0, 300.0, 0.5)
    probabilities = np.concatenate(
        [np.linspace(0.001, 0.999, 999), tails, 1 - tails[tails > 1e-16]]
    )
    np.testing.assert_allclose(
        normal_quantile(probabilities), ndtri(probabilities), rtol=5e-15, atol=1e-16
    )
    scores = np.linspace(-37.0, 9.0, 1001)
    np.testing.assert_allclose(normal_share(scores), ndtr(scores), rtol=1e-12)
    beyond = [0.0, 1.0, -0.1, 1.1, math.nan]
    np.testing.assert_array_equal(normal_quantile(beyond), ndtri(beyond))
    np.testing.assert_array_equal(normal_share([-math.inf, math.inf, math.nan]), [0, 1, math.nan])


def test_the_normal_interval_constant_is_scipys() -> None:
    assert pytest.approx(float(stats.norm.ppf(0.95)), rel=1e-14) == Z90


@pytest.mark.parametrize(
    ("text", "unit", "kind", "parameters"),
    [
        ("normal(0.5, 0.02) kW", "W", "normal", (500.0, 20.0)),
        ("lognormal(80, 0.1) GB", "B", "lognormal", (80e9, 0.1)),
        ("uniform(1, 2) kWh", "J", "uniform", (3.6e6, 7.2e6)),
        ("triangular(10, 20, 40) %", "1", "triangular", (0.1, 0.2, 0.4)),
        ("empirical(1, 3, 2) ms", "s", "empirical", (0.001, 0.003, 0.002)),
        ("normal(20, 2) degC", "K", "normal", (293.15, 2.0)),
        ("uniform(-1, 1)", "1", "uniform", (-1.0, 1.0)),
        ("450 .. 550 W", "W", "lognormal", (math.sqrt(450 * 550), math.log(550 / 450) / 2 / Z90)),
        ("0.45 to 0.55 kW", "W", "lognormal", (math.sqrt(450 * 550), math.log(550 / 450) / 2 / Z90)),
        ("-1..3", "1", "normal", (1.0, 2 / Z90)),
        ("10..20 %", "1", "lognormal", (math.sqrt(0.02), math.log(2) / 2 / Z90)),
        ("10%..20%", "1", "lognormal", (math.sqrt(0.02), math.log(2) / 2 / Z90)),
        ("450 W..0.55 kW", "W", "lognormal", (math.sqrt(450 * 550), math.log(550 / 450) / 2 / Z90)),
        ("1mW to 2mW", "W", "lognormal", (math.sqrt(2e-6), math.log(2) / 2 / Z90)),
        ("-5..5 degC", "K", "lognormal", (math.sqrt(268.15 * 278.15), math.log(278.15 / 268.15) / 2 / Z90)),
    ],
)  # fmt: skip
def test_texts_are_converted_from_their_unit(
    text: str, unit: str, kind: str, parameters: tuple[Any, ...]
) -> None:
    found = parse_given("x", text, parse_unit(unit))
    assert isinstance(found, Distribution)
    assert found.kind == kind
    assert found.parameters == pytest.approx(parameters, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("gamma(1, 2) W", InputError, 'unknown distribution "gamma" for x'),
        ("normal(1) W", InputError, "expected 2 parameters (mean, standard deviation), got 1"),
        ("normal(1, -2) W", InputError, "parameters out of order or negative spread"),
        ("uniform(2, 1) W", InputError, "parameters out of order"),
        ("triangular(1, 4, 3) W", InputError, "parameters out of order"),
        ("lognormal(0, 1) W", InputError, "parameters out of order"),
        ("normal(a, b) W", InputError, "malformed distribution"),
        ("normal(inf, 1) W", InputError, "expected finite parameters"),
        ("empirical() W", InputError, "malformed distribution"),
        ("normal(1, 2) J", UnitError, "expected W, got J"),
        ("normal(1, 2)", UnitError, "x has no unit"),
        ("550..450 W", InputError, "the lower end lies above the upper"),
        ("450..550 J", UnitError, "expected W, got J"),
        ("450 J..550 W", UnitError, "expected W, got J"),
        ("450 W..550", UnitError, "x has no unit"),
    ],
)
def test_malformed_texts_are_refused(text: str, error: type[AssayError], message: str) -> None:
    with pytest.raises(error) as refused:
        parse_given("x", text, parse_unit("W"))
    assert message in refused.value.message


@pytest.mark.parametrize(("kind", "parameters", "oracle"), ORACLES)
def test_truncated_quantiles_are_conditional(
    kind: str, parameters: tuple[Any, ...], oracle: Any
) -> None:
    lower, upper = (float(oracle.ppf(p)) for p in (0.2, 0.7))
    values, outside = truncated_quantile_of(
        Distribution(kind, parameters), PROBABILITIES, lower, upper
    )
    np.testing.assert_allclose(values, oracle.ppf(0.2 + 0.5 * PROBABILITIES), rtol=1e-9)
    # A bound is a rounded number, which tells beside a spread as small as 1e-12 of the mean.
    assert outside == pytest.approx(0.5, rel=1e-5)


def test_a_normal_within_bounds_is_scipys_truncated_normal() -> None:
    values, outside = truncated_quantile_of(
        Distribution("normal", (1.0, 2.0)), PROBABILITIES, 0.0, 5.0
    )
    oracle = stats.truncnorm((0 - 1) / 2, (5 - 1) / 2, loc=1.0, scale=2.0)
    # 1 + 2 z is rounded to 2e-16 where it is near zero.
    np.testing.assert_allclose(values, oracle.ppf(PROBABILITIES), rtol=1e-9, atol=5e-16)
    assert outside == pytest.approx(1 - (stats.norm.cdf(2) - stats.norm.cdf(-0.5)), rel=1e-12)


@pytest.mark.parametrize(
    ("sample", "lower", "upper", "first", "last"),
    [
        # Quantiles interpolate between neighbors, so a bound may cut between two of them.
        ((0.0, 1.0, 2.0, 3.0), 0.5, 2.5, 0.5 / 3, 2.5 / 3),
        ((0.0, 1.0, 1.0, 3.0), 1.0, 9.0, 1 / 3, 1.0),
        ((0.0, 1.0, 1.0, 3.0), -9.0, 1.0, 0.0, 2 / 3),
        ((3.0, 0.0), 0.0, 3.0, 0.0, 1.0),
    ],
)
def test_an_empirical_draw_within_bounds(
    sample: Any, lower: float, upper: float, first: float, last: float
) -> None:
    values, outside = truncated_quantile_of(
        Distribution("empirical", sample), PROBABILITIES, lower, upper
    )
    expected = np.quantile(sample, first + (last - first) * PROBABILITIES)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert outside == pytest.approx(1 - (last - first), abs=1e-12)


@given(
    st.sampled_from(ORACLES),
    st.floats(0, 1),
    st.floats(0, 1),
    st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5),
)
def test_truncated_quantiles_stay_within_bounds_and_are_monotone(
    oracle: Any, a: float, b: float, shares: list[float]
) -> None:
    kind, parameters, scipy_own = oracle
    lower, upper = sorted((float(scipy_own.ppf(a)), float(scipy_own.ppf(b))))
    values, _ = truncated_quantile_of(Distribution(kind, parameters), np.sort(shares), lower, upper)
    kept = values[~np.isnan(values)]
    assert ((kept >= lower) & (kept <= upper)).all()
    assert (np.diff(kept) >= 0).all()


def test_invalid_parameters_give_nan_at_their_points_only() -> None:
    parameters = (np.array([1.0, 1.0, np.nan, 1.0]), np.array([1.0, -1.0, 1.0, 1e-9]))
    values, _ = truncated_quantile("normal", np.full(4, 0.5), parameters, -math.inf, math.inf)
    assert list(np.isnan(values)) == [False, True, True, False]
    # Next to nothing of the last one lies above 2.
    values, outside = truncated_quantile("normal", np.full(4, 0.5), parameters, 2.0, math.inf)
    assert list(np.isnan(values)) == [False, True, True, True]
    assert values[0] == pytest.approx(float(stats.truncnorm(1, np.inf, loc=1).ppf(0.5)), rel=1e-9)
    assert outside[0] == pytest.approx(float(stats.norm.cdf(1)), rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("normal", ([0.0, 0.0], [1.0, -1.0]), [True, False]),
        ("lognormal", ([1.0, 0.0, 1.0], [1.0, 1.0, -1.0]), [True, False, False]),
        ("uniform", ([0.0, 2.0], [1.0, 1.0]), [True, False]),
        ("triangular", ([0.0, 0.0, 2.0], [1.0, 3.0, 1.0], [2.0, 2.0, 2.0]), [True, False, False]),
    ],
)
def test_parameters_are_validated_alike_as_numbers_and_arrays(
    kind: str, parameters: tuple[Any, ...], expected: list[bool]
) -> None:
    assert list(are_valid_parameters(kind, tuple(map(np.array, parameters)))) == expected
    for point, valid in zip(zip(*parameters, strict=True), expected, strict=True):
        if valid:
            Distribution(kind, point)
        else:
            with pytest.raises(InputError):
                Distribution(kind, point)
