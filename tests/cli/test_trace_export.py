"""`assay trace export`: every format, and what it refuses."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assay.observe import schema
from assay.observe.exporters.formats import FORMATS
from assay.observe.header import TraceHeader
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    rows = [
        {"kind": "kernel", "name": "=gemm\n", "start_ns": 5, "dur_ns": 7, "device": 0, "stream": 7},
        {"kind": "kernel", "name": "norm", "start_ns": 9, "dur_ns": 7, "device": 0, "stream": 7},
        {"kind": "host", "name": "schedule", "start_ns": 1, "dur_ns": 2, "args": '{"a": 1}'},
    ]
    trace = Trace(TraceHeader(run="r1"), pl.DataFrame(rows, schema=schema.event_columns()))
    trace.save(tmp_path / "scratch" / "traces" / "mine")
    return trace


@pytest.mark.parametrize("form", FORMATS)
def test_every_format(cli: Any, stored: Trace, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    outcome = cli("trace", "export", "mine", "--format", form, "--out", str(out), "--json")
    assert outcome.code == 0
    assert outcome.data == {
        "trace": "mine",
        "format": form,
        "path": str(out),
        "bytes": out.stat().st_size,
        "events": 3,
        "steps": 0,
    }
    assert open_trace(out).events.equals(stored.events)


def test_refusals_leave_nothing_behind(cli: Any, stored: Trace, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    for words, error in (
        (("mine", "--out", "x", "--format", "otf2"), 'unknown format "otf2"'),
        (("mine", "--out", str(tmp_path / "there")), f"{tmp_path / 'there'}: exists already"),
        (("nothing", "--out", str(tmp_path / "new")), "nothing: expected a trace, got nothing"),
        ((str(tmp_path / "there"), "--out", str(tmp_path / "new")), "expected a trace, got text"),
    ):
        outcome = cli("trace", "export", *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert error in outcome.err
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "new").exists()
    outcome = cli("trace", "export", "mine", "--out", str(tmp_path / "there"), "--force")
    assert outcome.code == 0
    assert open_trace(tmp_path / "there").events.equals(stored.events)
