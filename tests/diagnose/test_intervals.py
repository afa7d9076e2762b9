"""Disjoint intervals against a count of every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from assay.diagnose.itemizing import intervals

SPAN = 40
SPANS = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, 12)), max_size=12)
Spans = list[tuple[int, int]]


def arrays(spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([one[0] for one in spans], np.int64)
    return start, start + np.array([one[1] for one in spans], np.int64)


def first_owner(spans: Spans, moment: int) -> int:
    """The interval over a moment that began first; of several, the one that ends first."""
    over = [
        (start, start + length, index)
        for index, (start, length) in enumerate(spans)
        if start <= moment < start + length
    ]
    return min(over)[2] if over else -1


@given(SPANS)
def test_owned_pieces_give_each_moment_to_the_first(spans: Spans) -> None:
    owner = [-1] * (SPAN + 12)
    for index, start, end in zip(*intervals.owned_pieces(*arrays(spans)), strict=True):
        assert start < end
        for moment in range(start, end):
            assert owner[moment] == -1
            owner[moment] = int(index)
    assert owner == [first_owner(spans, moment) for moment in range(SPAN + 12)]


@given(st.lists(SPANS, min_size=1, max_size=3), st.sets(st.integers(0, SPAN), min_size=2))
def test_owners_cover_the_windows_once(levels: list[Spans], cuts: set[int]) -> None:
    edges = np.array(sorted(cuts), np.int64)
    offset = np.cumsum([0, *(len(one) for one in levels)])
    given_levels = [
        (*arrays(one), np.arange(len(one), dtype=np.int64) + first)
        for one, first in zip(levels, offset, strict=False)
    ]
    start, end, owner = intervals.owners(given_levels, edges)
    assert start[0] == edges[0]
    assert end[-1] == edges[-1]
    assert (start[1:] == end[:-1]).all()
    assert (start < end).all()
    for first, last, found in zip(start, end, owner, strict=True):
        assert not [edge for edge in edges if first < edge < last]
        for moment in range(first, last):
            expected = [first_owner(one, moment) for one in levels]
            level = next((at for at, one in enumerate(expected) if one >= 0), None)
            assert found == (-1 if level is None else expected[level] + offset[level])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20),
    st.lists(st.integers(0, 30), min_size=4, max_size=4),
)
def test_budgets_are_spent_in_order(rows: list[tuple[int, int]], budgets: list[int]) -> None:
    group = np.array([one[0] for one in rows], np.int64)
    duration = np.array([one[1] for one in rows], np.int64)
    paid = intervals.within_budget(group, duration, np.array(budgets, np.int64)[group])
    left = list(budgets)
    for (which, length), found in zip(rows, paid, strict=True):
        assert found == min(left[which], length)
        left[which] -= found


@given(SPANS, SPANS)
def test_overlap_counts_covered_nanoseconds(spans: Spans, busy: Spans) -> None:
    _, start, end = intervals.owned_pieces(*arrays(busy))
    covered = {moment for one, length in busy for moment in range(one, one + length)}
    found = intervals.overlap(*arrays(spans), start, end)
    assert found.tolist() == [len(covered & set(range(one, one + length))) for one, length in spans]
