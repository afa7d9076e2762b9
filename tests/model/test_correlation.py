"""Correlated inputs against closed forms: sums of normals, products of lognormals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from assay.errors import InputError, UnknownNameError
from assay.model import ANY_SIGN, Registry, Scope
from assay.model.inputs import read_inputs
from assay.model.uncertainty.correlation import (
    Correlations,
    cholesky,
    correlated_blocks,
    joined_labels,
    read_correlation,
)
from assay.model.uncertainty.grouped_shares import shares_by_group
from assay.model.uncertainty.propagate import propagate, variance_shares

NORMAL = {"t.a": "normal(3, 0.2)", "t.b": "normal(2, 0.1)", "t.c": "normal(1, 0.3)"}
LOGNORMAL = {"t.a": "lognormal(3, 0.2)", "t.b": "lognormal(2, 0.1)", "t.c": "lognormal(1, 0.3)"}
SPREADS = np.array([0.2, 0.1, 0.3])


@pytest.fixture(scope="module")
def registry() -> Registry:
    scope = Scope("t", "arithmetic of correlated numbers")
    a, b, c = (
        scope.variable(name, name, "1", name, boundary="scenario", bounds=ANY_SIGN)
        for name in "abc"
    )
    for name, value in {"sum": a + b + c, "product": a * b * c, "difference": a - b}.items():
        scope.variable(name, name, "1", name, equals=value, bounds=ANY_SIGN)
    return Registry.from_scopes([scope])


def matrix_of(correlations: Correlations) -> np.ndarray:
    names = ("t.a", "t.b", "t.c")
    matrix = np.eye(3)
    for (one, other), value in correlations.items():
        i, j = names.index(one), names.index(other)
        matrix[i, j] = matrix[j, i] = value
    return matrix


@pytest.mark.parametrize("ab", [-0.9, -0.3, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("bc", [-0.2, 0.25])
def test_sum_of_correlated_normals(registry: Registry, ab: float, bc: float) -> None:
    correlations = {("t.a", "t.b"): ab, ("t.b", "t.c"): bc}
    inputs = read_inputs(registry, NORMAL, correlations)
    sample = propagate(registry, "t.sum", inputs, replicates=1)
    spread = math.sqrt(SPREADS @ matrix_of(correlations) @ SPREADS)
    assert sample.mean[0] == pytest.approx(6, rel=1e-3)
    assert sample.std[0] == pytest.approx(spread, rel=0.01)


def test_quantiles_of_a_product_of_correlated_lognormals(registry: Registry) -> None:
    correlations = {("t.a", "t.b"): 0.8, ("t.a", "t.c"): -0.4}
    inputs = read_inputs(registry, LOGNORMAL, correlations)
    found = registry.resolve("t.product", inputs)
    spread = math.sqrt(SPREADS @ matrix_of(correlations) @ SPREADS)
    expected = [6 * math.exp(sign * stats.norm.ppf(0.95) * spread) for sign in (-1, 1)]
    assert found.value == pytest.approx(6)
    assert [found.lower, found.upper] == pytest.approx(expected, rel=0.01)


@settings(max_examples=30, deadline=None)
@given(ab=st.floats(-0.99, 0.99), kinds=st.permutations(["normal", "uniform", "triangular"]))
def test_marginals_do_not_change(registry: Registry, ab: float, kinds: list[str]) -> None:
    texts = {
        "normal": "normal(3, 0.2)",
        "uniform": "uniform(1, 2)",
        "triangular": "triangular(1, 2, 5)",
    }
    given_values = {f"t.{name}": texts[kind] for name, kind in zip("abc", kinds, strict=True)}
    pair = {("t.a", "t.b"): ab}
    names = ["t.a", "t.b", "t.c"]
    alone = propagate(registry, names, read_inputs(registry, given_values), replicates=1)
    together = propagate(registry, names, read_inputs(registry, given_values, pair), replicates=1)
    tails = (0.05, 0.5, 0.95)
    assert together.quantiles(tails) == pytest.approx(alone.quantiles(tails), rel=0.02)
    rank = stats.spearmanr(together.samples[0], together.samples[1]).statistic
    # Pearson 1907: the rank correlation of a Gaussian copula.
    assert rank == pytest.approx(6 / math.pi * math.asin(ab / 2), abs=0.02)


def test_difference_of_inputs_that_move_together_is_narrow(registry: Registry) -> None:
    pair = {("t.a", "t.b"): 0.999}
    same = {**NORMAL, "t.b": "normal(2, 0.2)"}
    apart = registry.resolve("t.difference", read_inputs(registry, same))
    together = registry.resolve("t.difference", read_inputs(registry, same, pair))
    assert apart.upper - apart.lower > 15 * (together.upper - together.lower)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=16, max_size=16))
def test_cholesky_factor_gives_the_matrix_back(values: list[float]) -> None:
    half = np.array(values).reshape(4, 4)
    covariance = half @ half.T + 0.05 * np.eye(4)
    scale = np.sqrt(np.diag(covariance))
    matrix = covariance / np.outer(scale, scale)
    factor = cholesky(matrix.tolist())
    assert factor is not None
    assert np.array(factor) @ np.array(factor).T == pytest.approx(matrix, abs=1e-9)
    assert np.array(factor) == pytest.approx(np.linalg.cholesky(matrix), abs=1e-7)


def test_impossible_correlations_are_refused(registry: Registry) -> None:
    pairs = {("t.a", "t.b"): 0.9, ("t.b", "t.c"): 0.9, ("t.a", "t.c"): -0.9}
    with pytest.raises(InputError, match=r"t\.a, t\.b, t\.c contradict each other.*positive"):
        read_inputs(registry, NORMAL, pairs)


def test_inputs_without_a_distribution_are_refused(registry: Registry) -> None:
    with pytest.raises(InputError, match=r"t\.b is not given as a distribution"):
        read_inputs(registry, {**NORMAL, "t.b": 2.0}, {("t.a", "t.b"): 0.5})
    with pytest.raises(UnknownNameError):
        read_inputs(registry, NORMAL, {("t.a", "t.x"): 0.5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b", "expected two variables and a number"),
        ("a=0.5", "expected two variables"),
        ("a,b,c=0.5", "expected two variables"),
        ("a,b=x", "and a number"),
        ("a,b=nan", "and a number"),
        ("a,a=0.5", "cannot be correlated with itself"),
        ("a,b=1", "between -1 and 1, got 1"),
        ("a,b=-1.5", "between -1 and 1, got -1.5"),
    ],
)
def test_malformed_correlations(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_correlation(text)


def test_either_order_of_names_is_one_pair() -> None:
    assert read_correlation("x,y=0.5") == read_correlation(" y , x = 0.5 ")


def test_correlated_inputs_have_one_share_together(registry: Registry) -> None:
    inputs = read_inputs(registry, NORMAL, {("t.a", "t.b"): 0.8})
    shares = variance_shares(registry, "t.sum", inputs)
    pair = 0.2**2 + 0.1**2 + 2 * 0.8 * 0.2 * 0.1
    found = {share.name: share.total_order for share in shares}
    assert found == pytest.approx(
        {"t.a + t.b": pair / (pair + 0.09), "t.c": 0.09 / (pair + 0.09)}, abs=0.03
    )
    assert shares.members == {"t.a + t.b": ("t.a", "t.b"), "t.c": ("t.c",)}
    groups = shares_by_group(registry, ["t.sum"], inputs, {}, {"t.a": "x", "t.b": "x", "t.c": "y"})
    assert groups["t.sum"] == pytest.approx(
        {"x": pair / (pair + 0.09), "y": 0.09 / (pair + 0.09)}, abs=0.03
    )


def test_blocks_are_found_through_chains() -> None:
    pairs = {("a", "c"): 0.5, ("c", "e"): 0.5, ("b", "d"): 0.1, ("a", "z"): 0.9}
    blocks = correlated_blocks(["a", "b", "c", "d", "e"], pairs)
    assert [block.positions for block in blocks] == [(0, 2, 4), (1, 3)]
    assert joined_labels(["x", "y", "x", "y", "w"], blocks) == ["x + w", "y", "x + w", "y", "x + w"]
