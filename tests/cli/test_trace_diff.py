"""`assay trace diff` on stored traces whose events carry operations."""

from pathlib import Path
from typing import Any

import polars as pl

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

ROW = {
    "count_before", "count_after", "ns_before", "ns_after", "delta_ns", "share",
    "p25_ns_before", "median_ns_before", "p75_ns_before",
    "p25_ns_after", "median_ns_after", "p75_ns_after",
}  # fmt: skip


def store(path: Path, attention_ns: int) -> str:
    rows = [
        {"kind": "kernel", "name": name, "op": op, "start_ns": 10_000 * step + start,
         "dur_ns": length, "step": step, "phase": "decode", "layer": 0, "device": 0, "stream": 7}
        for step in range(4)
        for name, op, start, length in (
            ("gemm", "qkv_proj", 0, 2000), ("flash\x1b[2J", "attention", 3000, attention_ns),
        )
    ]  # fmt: skip
    steps = [
        {"step": step, "phase": "decode", "start_ns": 10_000 * step, "dur_ns": 9000, "batch": 1}
        for step in range(4)
    ]
    trace = Trace(
        TraceHeader(),
        pl.DataFrame(rows, schema=schema.event_columns()),
        pl.DataFrame(steps, schema=schema.step_columns()),
    )
    return str(trace.save(path))


def test_text_and_keys(cli: Any, tmp_path: Path) -> None:
    paths = store(tmp_path / "a", 4000), store(tmp_path / "b", 4500)
    outcome = cli("trace", "diff", *paths)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "decode, mean step: 9.0 us to 9.0 us (+0.0%)"
    assert any(line.split()[:4] == ["+0.5", "-", "4.0", "4.5"] for line in lines)
    data = cli("trace", "diff", *paths, "--json").data
    assert list(data) == ["before", "after", "phases", "degradations"]
    (phase,) = data["phases"]
    assert list(phase) == [
        "phase", "steps_before", "steps_after", "step_ns_before", "step_ns_after", "delta_ns",
        "median_ns_before", "median_ns_after", "gap", "operations",
    ]  # fmt: skip
    assert {row["name"]: row["delta_ns"] for row in phase["operations"]} == {
        "attention": 500, "qkv_proj": 0,
    }  # fmt: skip
    assert phase["gap"]["delta_ns"] == -500
    assert set(phase["operations"][0]) == ROW | {"name", "mapped"}
    assert set(phase["gap"]) == ROW - {"count_before", "count_after"}


def test_refusals(cli: Any, tmp_path: Path) -> None:
    path = store(tmp_path / "a", 4000)
    outcome = cli("trace", "diff", path, str(tmp_path / "none"))
    assert (outcome.code, outcome.out) == (2, "")
    assert "expected a trace, got nothing of that name" in outcome.err
    assert cli("trace", "diff", path, path, "--limit", "-1").code == 2
