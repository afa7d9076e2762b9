"""Damaged files of the formats that assay writes: an error that names the file, or a trace."""

import random
from pathlib import Path

import polars as pl
import pytest

from assay.errors import InputError
from assay.observe import schema
from assay.observe.exporters import formats
from assay.observe.header import TraceHeader
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace


def sample() -> Trace:
    rows = [
        {"kind": kind, "name": f"name {number}", "start_ns": 100 * number, "dur_ns": 50,
         "device": 0, "stream": 7, "pid": 1, "tid": 2, "correlation": number // 2, "flops": 1.5,
         "grid": [1, 2, 3], "args": '{"a": "b\\\\n", "c": [1, 2.5]}', "op": "attention"}
        for number, kind in enumerate(schema.KINDS)
    ]  # fmt: skip
    steps = [{"step": 1, "phase": "decode", "start_ns": 5, "dur_ns": 9}]
    return Trace(
        TraceHeader(processes={"1": "engine"}),
        pl.DataFrame(rows, schema=schema.event_columns()),
        pl.DataFrame(steps, schema=schema.step_columns()),
    )


@pytest.mark.parametrize("form", formats.FORMATS)
def test_damage(tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace"
    formats.write(sample(), path, form)
    whole = path.read_bytes()
    numbers = random.Random(11)
    outcomes = set()
    for attempt in range(120):
        data = bytearray(whole)
        # Most of the time inside the events, where the beginning still says what the file is.
        if attempt % 3 == 0:
            data = data[: numbers.randrange(len(data))]
        elif attempt % 3 == 1:
            place = numbers.randrange(len(data))
            data[place:place] = numbers.choice([b"\xff\xfe", b"\n", b'"', b"\x00", b"9" * 30, b"{"])
        for _ in range(numbers.randrange(3)):
            if data:
                data[numbers.randrange(len(data))] = numbers.randrange(256)
        path.write_bytes(data)
        try:
            open_trace(path)
            outcomes.add("read")
        except InputError as error:
            outcomes.add("named" if str(path) in error.message else error.message)
    assert outcomes <= {"named", "read"}
    assert "named" in outcomes


@pytest.mark.parametrize("form", formats.FORMATS)
def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace"
    path.write_text("mine")

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        formats.write(sample(), path, form, progress=stop)
    assert path.read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["trace"]


def test_formulas_and_newlines_in_csv(tmp_path: Path) -> None:
    import csv

    events = (
        sample()
        .events.head(4)
        .with_columns(pl.Series("name", ["=cmd()", "+1", "a\nb", "@x"], pl.Categorical))
    )
    path = tmp_path / "trace.csv"
    formats.write(Trace(TraceHeader(), events), path, "csv")
    text = path.read_text()
    assert text.count("\n") == 6
    names = [row["name"] for row in csv.DictReader(text.splitlines())]
    assert names == ["", "'=cmd()", "'+1", "a\\nb", "'@x"]
