"""Matching, blocks and smallest conflicting sets, against SciPy and by exhaustion."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from assay.model.graphs.digraph import strongly_connected_components
from assay.model.solving.structure import Matching


@st.composite
def incidences(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    equations, unknowns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    columns = st.lists(st.integers(0, unknowns - 1), unique=True, max_size=3)
    table = {row: tuple(draw(columns)) for row in range(equations)}
    return table, list(range(unknowns))


def as_matrix(table: dict[int, tuple[int, ...]], unknowns: list[int]) -> csr_matrix:
    dense = np.zeros((len(table), len(unknowns)), dtype=int)
    for row, columns in table.items():
        dense[row, list(columns)] = 1
    return csr_matrix(dense)


def can_all_be_matched(table: dict[int, tuple[int, ...]], rows: tuple[int, ...]) -> bool:
    """Hall's condition, checked on every subset."""
    return all(
        len(set().union(*(table[row] for row in subset))) >= len(subset)
        for size in range(1, len(rows) + 1)
        for subset in combinations(rows, size)
    )


@given(incidences())
def test_matching_is_as_large_as_scipys(case: tuple[dict[int, tuple[int, ...]], list[int]]) -> None:
    table, unknowns = case
    matching = Matching(table, unknowns)
    theirs = maximum_bipartite_matching(as_matrix(table, unknowns), perm_type="column")
    assert len(matching.solved_for) == np.count_nonzero(theirs >= 0)
    assert all(unknown in table[equation] for equation, unknown in matching.solved_for.items())
    assert len(set(matching.solved_for.values())) == len(matching.solved_for)
    assert len(matching.surplus_equations) == len(table) - len(matching.solved_for)
    assert len(matching.free_unknowns) == len(unknowns) - len(matching.solved_for)


@given(incidences())
def test_overdetermined_set_is_minimal(case: tuple[dict[int, tuple[int, ...]], list[int]]) -> None:
    table, unknowns = case
    matching = Matching(table, unknowns)
    for surplus in matching.surplus_equations:
        equations, variables = matching.overdetermined_set(surplus)
        assert set(variables) == set().union(*(table[equation] for equation in equations))
        assert len(equations) == len(variables) + 1
        for left_out in equations:
            assert can_all_be_matched(table, tuple(e for e in equations if e != left_out))


@given(incidences())
def test_underdetermined_set_is_minimal(case: tuple[dict[int, tuple[int, ...]], list[int]]) -> None:
    table, unknowns = case
    matching = Matching(table, unknowns)
    transposed = {u: tuple(e for e, columns in table.items() if u in columns) for u in unknowns}
    for free in matching.free_unknowns:
        variables, equations = matching.underdetermined_set(free)
        assert set(equations) == set().union(*(transposed[variable] for variable in variables))
        assert len(variables) == len(equations) + 1
        for left_out in variables:
            assert can_all_be_matched(transposed, tuple(v for v in variables if v != left_out))


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_components_are_scipys_and_in_order(edges: list[tuple[int, int]]) -> None:
    needs: dict[int, list[int]] = {node: [] for node in range(8)}
    dense = np.zeros((8, 8), dtype=int)
    for node, needed in edges:
        needs[node].append(needed)
        dense[node, needed] = 1
    ours = strongly_connected_components(needs)
    _, labels = connected_components(csr_matrix(dense), connection="strong")
    theirs = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels)}
    assert {frozenset(component) for component in ours} == theirs
    place = {node: position for position, component in enumerate(ours) for node in component}
    assert all(place[needed] <= place[node] for node, needed in edges)


def test_a_chain_of_ten_thousand_needs_no_recursion() -> None:
    chain = {node: [node + 1] for node in range(10_000)} | {10_000: []}
    assert len(strongly_connected_components(chain)) == 10_001
    table = {node: (node, node + 1) for node in range(10_000)}
    # Started at the wrong end, every match has to move for the last equation to get one.
    shifted = {node: node + 1 for node in range(9_999)}
    matching = Matching(table | {10_000: (10_000,)}, range(10_001), shifted)
    assert not matching.surplus_equations
