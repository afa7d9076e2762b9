"""Random traces for the tests of importers and exporters."""

import json
import math
from typing import Any

import polars as pl
from hypothesis import strategies as st

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
HOSTILE = [
    "", "'", "''", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r\n", "a,b\"c\"", "\\n",
    "\\", "\x00", "\x1b[2J", "<script>alert(1)</script>", '","args":{"x":1}}', "\u2028\u2029\x85",
    "\ufeff", "\U0001f680", "\uff1d1", "NULL", "NaN", "# assay", "x" * 5000, '{"ph":"X"}', "a\u0301",
]  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(
        ["ampere_bf16_s16816gemm", "void at::native::copy<int, 4>(int*)", "ncclKernel"]
    ),
)
VALUES = st.one_of(
    st.none(), st.booleans(), INT64, st.floats(allow_nan=False, allow_infinity=False), NAMES
)
JSON = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
ARGS = st.one_of(
    st.none(),
    st.dictionaries(NAMES, JSON, max_size=4).map(json.dumps),
    st.dictionaries(NAMES, JSON, max_size=2).map(lambda d: json.dumps(d, ensure_ascii=False)),
    st.dictionaries(NAMES, JSON, max_size=2).map(lambda d: json.dumps(d, indent=1)),
    # What no tool should have written, and a damaged store may hold.
    st.sampled_from(
        [
            "",
            "{",
            "}",
            "[1]",
            '"x"',
            '{"a":1',
            '{"a":NaN}',
            '{"a":Infinity}',
            '{"a":1e999}',
            "{} ",
            "null",
        ]
    ),
    NAMES,
)
# Most traces are near each other in time; a few are at the ends of the range.
TIMES = st.one_of(st.integers(0, 60), st.integers(1_700_000_000_000_000_000, 2**61), INT64)
DIMENSIONS = st.none() | st.lists(INT32, min_size=3, max_size=3)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


EVENTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(schema.KINDS),
        "name": NAMES,
        "category": _maybe(NAMES),
        "start_ns": TIMES,
        "dur_ns": st.one_of(st.integers(0, 30), INT64),
        "rank": _maybe(st.integers(0, 2) | INT32),
        "device": _maybe(st.integers(0, 2) | INT32),
        "stream": _maybe(st.integers(0, 2) | INT64),
        "pid": _maybe(st.integers(0, 2) | INT64),
        "tid": _maybe(st.integers(0, 2) | INT64),
        "correlation": _maybe(st.integers(0, 4) | INT64),
        "external": _maybe(INT64),
        "graph": _maybe(INT64),
        "node": _maybe(INT64),
        "step": _maybe(INT64),
        "phase": _maybe(st.sampled_from(schema.PHASES)),
        "layer": _maybe(INT32),
        "op": _maybe(st.sampled_from(["qkv_proj", "input_norm+qkv_proj", "all_reduce"]) | NAMES),
        "bytes": _maybe(INT64),
        "flops": _maybe(st.floats()),
        "grid": DIMENSIONS,
        "block": DIMENSIONS,
        "args": ARGS,
    }
)
STEPS = st.fixed_dictionaries(
    {
        "step": _maybe(INT64),
        "rank": _maybe(INT32),
        "phase": _maybe(st.sampled_from(schema.PHASES)),
        "start_ns": TIMES,
        "dur_ns": INT64,
        "device_ns": _maybe(INT64),
        "batch": _maybe(INT64),
        "prefill_tokens": _maybe(INT64),
        "context": _maybe(INT64),
        "requests": _maybe(INT64),
        "source": _maybe(st.sampled_from(["engine", "annotation", "periodicity"]) | NAMES),
    }
)
HEADERS = st.builds(
    TraceHeader,
    run=_maybe(NAMES),
    source=NAMES,
    engine=_maybe(NAMES),
    model=_maybe(NAMES),
    versions=st.dictionaries(NAMES, NAMES, max_size=2),
    hardware=st.dictionaries(NAMES, JSON, max_size=2),
    clock=st.sampled_from(["realtime", "monotonic", "boottime", "unknown"]),
    processes=st.dictionaries(st.sampled_from(["1", "1/2", "0", "0/1", "2/stream 7"]), NAMES, max_size=3),
    dropped=st.integers(0, 2**63),
    overhead=st.dictionaries(NAMES, st.floats(0, 1), max_size=1),
    repairs=st.dictionaries(NAMES, st.integers(0, 2**40), max_size=2),
    degradations=st.lists(NAMES, max_size=2),
    metadata=st.dictionaries(NAMES, JSON, max_size=2),
)  # fmt: skip


@st.composite
def traces(draw: st.DrawFn, max_events: int = 12) -> Trace:
    """A trace with every kind of event, nulls, hostile names and extreme numbers."""
    return Trace(
        draw(HEADERS),
        pl.DataFrame(draw(st.lists(EVENTS, max_size=max_events)), schema=schema.event_columns()),
        pl.DataFrame(draw(st.lists(STEPS, max_size=3)), schema=schema.step_columns()),
    )


def assert_same(left: Trace, right: Trace) -> None:
    """Two traces have the same header, events and steps, in the same order."""
    assert left.header == right.header, (left.header, right.header)
    for one, other in ((left.events, right.events), (left.steps, right.steps)):
        assert one.schema == other.schema
        for name in one.columns:
            assert _exact(one[name]) == _exact(other[name]), name


def _exact(column: pl.Series) -> list[Any]:
    """Values that compare as they are: NaN is itself, and zero has its sign."""
    if column.dtype == pl.Float64:
        return [
            None if x is None else (x, math.copysign(1, x)) if x == x else "nan" for x in column
        ]
    return column.to_list()
