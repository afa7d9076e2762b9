"""Any table of events that has the schema can be drawn, in the terminal and as a page."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.escaping import one_line
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.timeline.lanes import layout
from assay.observe.timeline.page import write_page
from assay.observe.timeline.terminal import Style, chart, host_keys, legend_keys
from assay.observe.timeline.usage import BY
from assay.observe.timeline.view import view
from assay.observe.timeline.window import time_window
from assay.observe.trace import Trace

TEXT = st.one_of(
    st.none(),
    st.sampled_from(["gemm", "attention", "\x1b[2J", "</script>", "", "a+b", "\u202e\u0000"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
SMALL = st.one_of(st.none(), st.integers(0, 3))
TIME = st.one_of(st.none(), st.integers(-50, 300), st.integers(-(2**61), 2**61))
THREE = st.one_of(st.none(), st.lists(st.integers(0, 2**31 - 1), min_size=3, max_size=3))
FLOAT = st.one_of(st.none(), st.floats())


def values_of(name: str, kind: Any) -> st.SearchStrategy[Any]:
    if name == "kind":
        return st.one_of(st.none(), st.sampled_from(schema.KINDS), TEXT)
    if name in ("start_ns", "dur_ns"):
        return TIME
    if isinstance(kind, pl.Array):
        return THREE
    if kind in (pl.String, pl.Categorical()):
        return TEXT
    return FLOAT if kind == pl.Float64 else SMALL


ROW = st.fixed_dictionaries(
    {name: values_of(name, kind) for name, kind in schema.event_columns().items()}
)
STEP = st.fixed_dictionaries(
    {name: values_of(name, kind) for name, kind in schema.step_columns().items()}
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(ROW, min_size=1, max_size=8), st.lists(STEP, max_size=3), TEXT, st.booleans())
def test_any_table_is_drawn(
    rows: list[dict[str, Any]], steps: list[dict[str, Any]], word: str | None, is_unicode: bool
) -> None:
    rows[0]["start_ns"] = rows[0]["start_ns"] or 0
    header = TraceHeader(model=word, processes={"1": word or "", "1/2": word or ""})
    trace = Trace(
        header,
        pl.DataFrame(rows, schema=schema.event_columns()),
        pl.DataFrame(steps, schema=schema.step_columns()),
    )
    drawn = layout(trace)
    assert sum(lane.count for lane in drawn.lanes) == sum(
        row["start_ns"] is not None for row in rows
    )
    window = time_window(drawn.origin_ns, drawn.end_ns, None, None)
    for by in BY:
        shown = view(trace, drawn, window, by, 30)
        style = Style(80, is_unicode, False)
        lines = [*chart(shown, style, 0), *host_keys(shown, style, legend_keys(shown))]
        for line in lines:
            parts = (line,) if isinstance(line, str) else line
            text = "".join(part if isinstance(part, str) else part[0] for part in parts)
            assert len(one_line(text)) <= 80 + 14
        assert shown.device_ns >= 0
    with tempfile.TemporaryDirectory() as folder:
        nbytes, left_out = write_page(trace, drawn, Path(folder) / "page.html", name=word or "")
        assert nbytes > 10_000
        assert left_out == []
