"""`assay trace show` in the terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_traces import synthetic_trace

from assay.cli.output import Canvas
from assay.cli.trace_show import trace_show_command
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

HOSTILE = "evil\x1b]0;title\x07\x1b[2J\x9b31m\r\n\u202eelif<script>alert(1)</script>"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(synthetic_trace(3_000).save(tmp_path_factory.mktemp("traces") / "decoder"))


def test_text_has_axis_lanes_legend_and_kernels(cli: Any, stored: str) -> None:
    outcome = cli("trace", "show", stored, "--step", "1")
    assert outcome.code == 0, outcome.err
    assert outcome.out.isascii()
    assert "step 1, decode, batch 64" in outcome.out
    [lane] = [line for line in outcome.out.splitlines() if line.startswith("  stream 7")]
    # The largest operation is "a", capital where the stream is busy; before it the device waits.
    assert re.match(r"  stream 7 +[A-Za-z]*A", lane)
    assert re.search(r"^a +\S+ \S+ +\d+\.\d% +32  gate_up_proj$", outcome.out, re.MULTILINE)
    assert "nvjet_tst_192x128_64x4_2x1_v_bz_coopA_TNT" in outcome.out
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


def test_json_has_lanes_and_sums(cli: Any, stored: str) -> None:
    data = cli("trace", "show", stored, "--json").data
    assert list(data) == [
        "source", "events", "start_ns", "dur_ns", "window", "by", "device_ns", "lanes", "sums",
        "kernels", "steps", "degradations",
    ]  # fmt: skip
    assert list(data["window"]) == ["from_ns", "to_ns", "step"]
    assert list(data["lanes"][0]) == [
        "name", "group", "kind", "rank", "device", "stream", "pid", "tid", "events", "busy_ns",
        "busy_share", "spans",
    ]  # fmt: skip
    assert list(data["lanes"][0]["spans"][0]) == ["start_ns", "dur_ns", "busy_ns", "label"]
    assert list(data["sums"][0]) == ["name", "op", "count", "ns", "share"]
    assert data["sums"][0]["name"] == "gate_up_proj"
    assert data["device_ns"] == sum(one["ns"] for one in data["sums"])
    few = cli("trace", "show", stored, "--json", "--limit", "1").data
    assert [len(few[key]) for key in ("lanes", "sums", "kernels")] == [1, 1, 1]
    assert few["device_ns"] == data["device_ns"]


def test_a_window_clips(cli: Any, stored: str) -> None:
    whole = cli("trace", "show", stored, "--json").data
    part = cli("trace", "show", stored, "--json", "--from", "1ms", "--to", "1500 us").data
    assert part["window"]["to_ns"] - part["window"]["from_ns"] == 500_000
    assert part["window"]["from_ns"] - whole["start_ns"] == 1_000_000
    assert 0 < part["lanes"][0]["busy_ns"] <= 500_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--step", "9999"), "step 9999: expected a step from 0 to"),
        (("--step", "1", "--from", "1ms"), "expected --step, or --from and --to"),
        (("--from", "3 GB"), "expected"),
        (("--from", "100 s"), "from: expected a time from 0 to"),
        (("--by", "color"), 'unknown label "color"'),
        (("--limit", "-1"), "limit: expected 0 or more"),
        (("--width", "3"), "width: expected 40 to 1000"),
    ],
)
def test_bad_options_are_named(cli: Any, stored: str, words: tuple[str, ...], message: str) -> None:
    outcome = cli("trace", "show", stored, *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_a_missing_trace_is_named(cli: Any, tmp_path: Path) -> None:
    outcome = cli("trace", "show", str(tmp_path / "none"))
    assert outcome.code == 2
    assert "none" in outcome.err


def hostile_trace() -> Trace:
    rows = [
        {"kind": "kernel", "name": HOSTILE, "op": HOSTILE, "start_ns": 0, "dur_ns": 9, "stream": 1},
        {"kind": "kernel", "name": "x" * 300_000, "start_ns": 9, "dur_ns": 9, "stream": 1},
        {"kind": "host", "name": HOSTILE, "start_ns": 0, "dur_ns": 9, "pid": 5, "tid": 6},
    ]
    events = pl.DataFrame(rows, schema=schema.event_columns())
    steps = pl.DataFrame(
        [{"step": 0, "phase": HOSTILE, "start_ns": 0, "dur_ns": 18}], schema=schema.step_columns()
    )
    header = TraceHeader(
        source=HOSTILE, model=HOSTILE, processes={"5": HOSTILE, "5/6": HOSTILE},
        degradations=[HOSTILE],
    )  # fmt: skip
    return Trace(header, events, steps)


@pytest.mark.parametrize("by", ["op", "kernel", "phase"])
@pytest.mark.parametrize("color", ["", "1"])
def test_no_control_character_of_a_name_is_printed(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, color: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", color)
    folder = hostile_trace().save(tmp_path / "hostile")
    outcome = cli("trace", "show", str(folder), "--by", by)
    assert outcome.code == 0, outcome.err
    # Rich writes styles as ESC [ ... m; nothing else may start with an escape.
    text = re.sub(r"\x1b\[[0-9;]*m", "", outcome.out) if color else outcome.out
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\x1b" in text
    assert len(text) < 6_000


def test_blocks_in_a_unicode_terminal(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    report = trace_show_command(stored, step=1, width=100)
    unicode = Canvas(100, "\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ")
    lines = list(report.text(unicode))
    at = next(row for row, line in enumerate(lines) if line and "stream 7" in line[0])
    drawn = "".join(part if isinstance(part, str) else part[0] for part in lines[at])
    letters = "".join(lines[at + 1])
    # The device waits at the start of a step: a gap in the blocks and in the letters below them.
    assert "\u2588" in drawn
    assert drawn[24] == letters[24] == " "
    assert re.search("[\u2581-\u2588] ", drawn)
    assert "a" in letters


def test_a_trace_without_operations_is_colored_by_kernel(cli: Any, tmp_path: Path) -> None:
    rows = [
        {"kind": "kernel", "name": f"k{at % 2}", "start_ns": at * 10, "dur_ns": 9, "stream": 1}
        for at in range(9)
    ]
    trace = Trace(TraceHeader(), pl.DataFrame(rows, schema=schema.event_columns()))
    folder = trace.save(tmp_path / "bare")
    outcome = cli("trace", "show", str(folder))
    assert outcome.code == 0
    assert "spans are colored by kernel" in outcome.err
    data = cli("trace", "show", str(folder), "--json").data
    assert data["by"] == "kernel"
    assert data["degradations"] == ["no step was recognized, so that no operation is known"]


def test_steps_and_operations_of_a_foreign_trace_are_recovered(cli: Any, tmp_path: Path) -> None:
    trace = synthetic_trace(4_000, mapped=False)
    folder = Trace(trace.header, trace.events).save(tmp_path / "foreign")
    tagged = synthetic_trace(4_000)
    data = cli("trace", "show", str(folder), "--step", "1", "--json").data
    assert data["by"] == "op"
    known = tagged.events.filter((pl.col("step") == 1) & (pl.col("op") == "gate_up_proj"))
    [found] = [one for one in data["sums"] if one["name"] == "gate_up_proj"]
    assert (found["count"], found["ns"]) == (known.height, known["dur_ns"].sum())
    assert any("no model given" in one for one in data["degradations"])
