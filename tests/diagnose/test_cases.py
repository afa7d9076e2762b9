"""Traces of a case: floors of counted operations by hand, causes, and what a floor does not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from assay.cli.app import run
from assay.diagnose.diagnosis import Diagnosis
from assay.diagnose.examination import examine
from assay.diagnose.request import Request
from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import CASE, TraceHeader
from assay.observe.structure.opening import open_recovered
from assay.observe.trace import Trace
from assay.planner.specs import Ceiling, HardwareSpec
from assay.workloads.registry import workload

CEILINGS = {"read": Ceiling(1e9, 1e9, 1e9, "byte/s", 1, {"operation": "read", "bytes": 1.0})}
HERE = HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", CEILINGS)
"""A nanosecond for each FLOP, and for each byte."""
CALL_NS = 2_000_000
OPERATIONS = {
    # name: bytes, FLOPs, nanoseconds
    "products": (10_000, 500_000.0, 800_000),
    "sums": (300_000, 1_000.0, 700_000),
    "flag": (1_000, 0.0, 4_000),
}


def case_trace(folder: Path, **case: Any) -> Path:
    """Three calls, their operations one after the other with 10 us of host code before each."""
    events: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for number in range(3):
        start = number * CALL_NS
        at = start
        whole = {"name": "program", "rank": 0, "start_ns": start, "dur_ns": CALL_NS}
        events.append({**whole, "kind": "host", "category": "engine", "step": number})
        for name, (nbytes, flops, took) in OPERATIONS.items():
            at += 10_000
            events.append(
                {
                    **{"kind": "kernel", "name": name, "op": name, "rank": 0, "device": 0},
                    **{"start_ns": at, "dur_ns": took, "stream": 0, "step": number},
                    **{"bytes": nbytes, "flops": flops, "correlation": None},
                }
            )
            at += took
        steps.append({"step": number, "rank": 0, "start_ns": start, "dur_ns": CALL_NS})

    def table(rows: list[dict[str, Any]], columns: dict[str, Any]) -> pl.DataFrame:
        return pl.DataFrame(
            {name: [row.get(name) for row in rows] for name in columns}, schema=columns
        )

    stated = {"name": "case, 3 units", "flops": 5e5, "bytes": 1e5, "serial_steps": 0.0}
    header = TraceHeader(metadata={CASE: {**stated, **case}})
    trace = Trace(
        header, table(events, schema.event_columns()), table(steps, schema.step_columns())
    )
    trace.save(folder / "trace")
    return folder / "trace"


def examined(path: Path, hardware: HardwareSpec | None = HERE) -> Diagnosis:
    return examine(open_recovered(path), Request(hardware=hardware), str(path))


def test_operations_are_split_at_the_floor_of_what_they_count(tmp_path: Path) -> None:
    diagnosis = examined(case_trace(tmp_path))
    data = diagnosis.to_json()
    terms = {term["name"]: term["ns"] for term in data["waterfall"] if term["ns"]}
    # The longer of bytes and FLOPs: 500 us, 300 us, and 1 us.
    assert data["floor_ns"] == pytest.approx(801_000)
    assert terms["floor"] == pytest.approx(801_000)
    assert terms["kernel_inefficiency"] == pytest.approx(300_000 + 400_000 + 3_000)
    # A call is 2 ms, of which operations are 1,504 us.
    assert terms["host_stalls"] == pytest.approx(496_000)
    assert sum(terms.values()) == pytest.approx(CALL_NS)
    causes = {cause["name"]: cause["ns_per_token"] for cause in data["causes"]}
    assert causes == pytest.approx(
        {
            "arithmetic below its peak": 300_000,
            "bytes below their bandwidth": 400_000,
            "short operations": 3_000,
            "host code between operations": 496_000,
        }
    )
    assert not data["violations"]
    # The work itself: 500,000 FLOPs take longer than 100,000 bytes.
    assert any("moved once, 500.0 us" in note for note in diagnosis.degradations)


def test_a_chain_is_a_cause_and_named_as_not_in_the_floor(tmp_path: Path) -> None:
    diagnosis = examined(case_trace(tmp_path, serial_steps=70_300.0))
    chain = next(cause for cause in diagnosis.causes if cause.name == "dependent steps")
    assert chain.ns_per_token == pytest.approx(703_000)
    assert any("70,300 steps of a call need the one before them: 10.00 ns each" in evidence.statement
               for evidence in chain.evidence)  # fmt: skip
    assert any("latency is not in the floor" in note for note in diagnosis.degradations)
    # Of a few layers one after the other latency is not the cause.
    few = examined(case_trace(tmp_path / "few", serial_steps=22.0))
    assert "dependent steps" not in {cause.name for cause in few.causes}
    assert any("22 steps of a call need" in note for note in few.degradations)


def test_times_below_a_floor_are_told(tmp_path: Path) -> None:
    slow = {"read": Ceiling(1e8, 1e8, 1e8, "byte/s", 1, {"operation": "read", "bytes": 1.0})}
    diagnosis = examined(
        case_trace(tmp_path), HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", slow)
    )
    (note,) = [note for note in diagnosis.degradations if "of its floor" in note]
    assert note.startswith("sums takes 0.23 of its floor")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"name": 3}, 'expected "case" of the header with a name'),
        ({"bytes": "many"}, 'expected "bytes" of its case as a number'),
        ({"serial_steps": -1.0}, 'expected "serial_steps" of its case as a number'),
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, case: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        examined(case_trace(tmp_path, **case))


def test_without_a_calibration_the_floor_is_missing_and_said(tmp_path: Path) -> None:
    diagnosis = examined(case_trace(tmp_path, serial_steps=5.0), None)
    assert diagnosis.to_json()["floor_ns"] is None
    assert any(
        "no floor: the machine of the trace is not" in note for note in diagnosis.degradations
    )
    assert any("5 steps of a call need" in note for note in diagnosis.degradations)


def test_a_profile_of_order_books_is_diagnosed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "trace")
    assert run(["bench", "profile", "order-book", "--quick", "--out", out, "--calls", "3"]) == 0
    capsys.readouterr()
    assert run(["diagnose", out, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["model"] == "order-book, 20,000 events"
    assert [row["operation"] for row in data["operations"]] == ["replay"]
    # Three accesses of each event of the busiest instrument; those of others do not wait for them.
    busiest = np.bincount(workload("order-book").generate(1, 20_000).arrays["instrument"]).max()
    chain = f"{3 * busiest:,} steps of a call need the one before"
    assert any(chain in note for note in data["degradations"])
    # Copying events in before a call is in no step.
    steps = Trace.open(tmp_path / "trace").steps
    ends = steps["start_ns"] + steps["dur_ns"]
    assert steps["start_ns"].to_list()[1:] == ends.to_list()[:-1]
