"""Faults at every step of a run: the engine ends in the recorded safe configuration.

Every case starts real processes: a controller, its watchdog, a server. `make test-slow` runs all of
them, the default tests a sample.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from injection import Aftermath, Case, check, clean_up, run_case

from assay.improve.journal.records import KINDS

JOURNAL_PARTS = ("before", "torn", "unacknowledged", "after")
NOT_IN_DRIVER = {"torn", "recovered", "resumed", "degradation", "failed"}
"""Kinds that only appear after a fault."""
CALLS = ("settings", "configure", "revert", "measure", "probe", "capture")
FILES = ("configuration.json", "plan.json", "experiments.parquet", "marker")
POINTS = (
    *(f"journal.{kind}.{part}" for kind in KINDS if kind not in NOT_IN_DRIVER for part in JOURNAL_PARTS),
    *(f"engine.{call}.{part}" for call in CALLS for part in ("before", "after")),
    "engine.server_started",
    *(f"write.{name}.{part}" for name in FILES for part in ("before", "unnamed", "after")),
    "watchdog.started",
)  # fmt: skip
"""Every point that a run passes; `test_no_point_is_forgotten` holds it to the code."""
LATER = {
    "journal.intend": 3, "journal.applied": 3, "journal.block": 4, "journal.reverting": 2,
    "journal.reverted": 2, "journal.engine": 4, "engine.configure": 3, "engine.measure": 4,
    "engine.revert": 2, "engine.server_started": 5, "journal.safe": 2, "write.configuration.json": 2,
}  # fmt: skip
"""Points that a run passes several times: also hit with a kept change in force."""


def later(point: str) -> int | None:
    return next((number for start, number in LATER.items() if point.startswith(start)), None)


def kills() -> list[Case]:
    return [
        Case(f"kill -9 at {point}@{number}", f"{point}=kill@{number}")
        for point in POINTS
        for number in (1, later(point))
        if number
    ]


CHANGING = [point for point in POINTS if later(point)]
FAULTS = ("crash", "oom", "hang-start", "slow-start", "crash-later", "hang-later", "wrong")
KNOBS = {"threads": "2", "batch": "16", "cache": "q8_0"}

CASES = [
    *kills(),
    *(
        Case(f"kill -9 of controller and watchdog at {point}", f"{point}=kill@{later(point)}", both=True)
        for point in CHANGING
    ),
    *(
        Case(f"kill -9 at {point}, server of the run", f"{point}=kill@{later(point)}", found=False)
        for point in CHANGING[::3]
    ),
    *(
        Case(f"hang at {point}", f"{point}=hang", silence_s=6.0)
        for point in POINTS
        if point.startswith("engine.") and not point.startswith("engine.server")
    ),
    *(
        Case(f"disk full at {point}", f"{point}=full")
        for point in POINTS
        if point.endswith((".before", ".torn", ".unnamed")) and point.startswith(("journal.", "write."))
        # Before the first change there is nothing to lose: the run does not begin.
        and not point.startswith(("journal.started", "journal.engine", "write.marker"))
    ),
    *(
        Case(f"server {fault} with {knob}={value}", server={knob: {value: fault}})
        for fault in FAULTS
        for knob, value in KNOBS.items()
    ),
    *(Case(f"watchdog killed after {records} records", watchdog_at=records) for records in range(2, 42, 4)),
    *(
        Case(f"clock jumps by {jump:g} s, {points or 'no fault'}", points, jump_s=jump)
        for jump in (1e9, -1e9, 7200.0)
        for points in ("", "journal.block.torn=kill@3", "engine.configure.after=kill@2")
    ),
]  # fmt: skip
SAMPLE = [
    "kill -9 at journal.intend.after@3",
    "kill -9 at journal.applied.torn@1",
    "kill -9 at engine.server_started@5",
    "kill -9 of controller and watchdog at engine.configure.after",
    "disk full at journal.intend.torn",
    "server crash-later with batch=16",
    "watchdog killed after 22 records",
]


def outcome(case: Case, folder: Path) -> Aftermath:
    left = run_case(case, folder)
    try:
        check(case, left)
    finally:
        clean_up(left)
    return left


def test_there_are_cases_enough() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 200
    assert set(SAMPLE) < set(names)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_ends_in_the_safe_state(name: str, tmp_path: Path) -> None:
    (case,) = [one for one in CASES if one.name == name]
    outcome(case, tmp_path)


def test_no_point_is_forgotten(tmp_path: Path) -> None:
    left = outcome(Case("no fault", "none=kill"), tmp_path)
    assert left.code == 0
    passed = Counter(json.loads(left.output.splitlines()[-1]))
    assert set(passed) == set(POINTS)
    for point in POINTS:
        assert passed[point] >= (later(point) or 1), point


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_fault_ends_in_the_safe_state(case: Case, tmp_path: Path) -> None:
    outcome(case, tmp_path)
