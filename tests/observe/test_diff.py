"""Differences of two traces: every nanosecond of a step belongs to one operation or to the gap."""

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from assay.errors import InputError
from assay.observe import schema
from assay.observe.diff import compare
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

OPERATIONS = ("qkv_proj", "attention", None)
KERNELS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(-3, 18), st.integers(0, 12)), max_size=6
)


def trace(*steps: list[tuple[str | None, int, int]], phase: str = "decode") -> Trace:
    """Steps of 20 ns, 100 ns apart, with kernels at times of the step."""
    rows, table = [], []
    for number, kernels in enumerate(steps):
        table.append({"step": number, "phase": phase, "start_ns": 100 * number, "dur_ns": 20})
        rows += [
            {"kind": "kernel", "name": f"k_{operation}", "start_ns": 100 * number + start,
             "dur_ns": duration, "op": operation, "step": number, "device": 0}
            for operation, start, duration in kernels
        ]  # fmt: skip
    return Trace(
        TraceHeader(),
        pl.DataFrame(rows, schema=schema.event_columns()),
        pl.DataFrame(table, schema=schema.step_columns()),
    )


def by_the_instant(steps: list[list[tuple[str | None, int, int]]]) -> Counter[str]:
    """Nanoseconds of each name over all steps, one nanosecond after the other."""
    found: Counter[str] = Counter()
    for kernels in steps:
        # A kernel that began before the step begins with it; of two that begin at once the
        # shorter one comes first.
        placed = sorted(
            (max(start, 0), min(start + length, 20), place, operation)
            for place, (operation, start, length) in enumerate(kernels)
        )
        for instant in range(20):
            running = [one for one in placed if one[0] <= instant < one[1]]
            name = running[0][3] or "k_None" if running else "gap"
            found[name] += 1
    return found


def distinct(kernels: list[tuple[str | None, int, int]]) -> list[tuple[str | None, int, int]]:
    """Without kernels that begin at once: which of those comes first is left open."""
    begins = {max(start, 0): (operation, start, length) for operation, start, length in kernels}
    return list(begins.values())


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(KERNELS.map(distinct), min_size=1, max_size=3),
    after=st.lists(KERNELS.map(distinct), min_size=1, max_size=3),
)
def test_parts_are_those_counted_by_the_instant_and_add_up(before: Any, after: Any) -> None:
    # One operation in each, so that the two have something in common.
    before, after = [*before, [("attention", 0, 5)]], [*after, [("attention", 1, 9)]]
    (phase,) = compare(trace(*before), trace(*after))["phases"]
    parts = {one["name"]: one for one in phase["operations"]} | {"gap": phase["gap"]}
    for side, steps in (("before", before), ("after", after)):
        expected = by_the_instant(steps)
        for name, part in parts.items():
            assert part[f"ns_{side}"] == pytest.approx(expected[name] / len(steps))
        assert sum(part[f"ns_{side}"] for part in parts.values()) == pytest.approx(20)
    total = sum(part["delta_ns"] for part in parts.values())
    assert total == pytest.approx(phase["delta_ns"], abs=1e-9)


def test_a_planted_slowdown_is_found_with_its_size() -> None:
    normal = [("qkv_proj", 0, 4), ("attention", 4, 6)]
    slow = [("qkv_proj", 0, 4), ("attention", 4, 9), (None, 15, 1)]
    (phase,) = compare(trace(normal, normal, normal), trace(slow, slow))["phases"]
    rows = {row["name"]: row for row in phase["operations"]}
    assert phase["operations"][0]["name"] == "attention"
    assert rows["attention"]["delta_ns"] == 3
    assert rows["qkv_proj"]["delta_ns"] == 0
    assert (rows["k_None"]["delta_ns"], rows["k_None"]["mapped"]) == (1, False)
    assert phase["gap"]["delta_ns"] == -4
    assert (phase["steps_before"], phase["steps_after"]) == (3, 2)
    assert rows["attention"]["median_ns_after"] == 9
    assert rows["k_None"]["median_ns_before"] is None


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (trace([("qkv_proj", 0, 1)]), trace([("qkv_proj", 0, 1)], phase="prefill"),
         "no phase in common: A has decode, B has prefill"),
        (trace([("qkv_proj", 0, 1)]), trace([("attention", 0, 1)]),
         "no operation in common: A has qkv_proj, B has attention"),
        (trace(), trace([("attention", 0, 1)]), "A: expected kernels or copies"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_named(before: Trace, after: Trace, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(before, after)


def test_traces_without_steps_are_compared_as_a_whole() -> None:
    one, other = trace([("attention", 0, 5)]), trace([("attention", 0, 8)])
    bare = Trace(one.header, one.events), Trace(other.header, other.events)
    found = compare(*bare)
    assert found["degradations"] == ["no steps in A and B: whole traces are compared"]
    assert found["phases"][0]["operations"][0]["delta_ns"] == 3
