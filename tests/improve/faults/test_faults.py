"""Faults at every step of a run: the engine ends in the recorded safe configuration.

Every case starts real processes: a controller, its watchdog, a server. `make test-slow` injects all of
them into the loop, the default tests a sample into a small controller.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from cases import CASES, POINTS, SAMPLE, at, number
from injection import (
    START,
    Aftermath,
    Case,
    check,
    clean_up,
    resume,
    run_case,
    run_command,
    stored_configuration,
)

from assay.improve.journal import block_table, journal
from assay.report.verify import verify


def outcome(case: Case, folder: Path) -> Aftermath:
    left = run_case(case, folder)
    try:
        check(case, left)
    finally:
        clean_up(left, folder)
    return left


def test_there_are_cases_enough() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 200


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_a_fault_ends_in_the_safe_state(case: Case, tmp_path: Path) -> None:
    outcome(case, tmp_path)


@pytest.mark.slow
def test_no_point_is_forgotten(tmp_path: Path) -> None:
    left = outcome(Case("no fault", "none=kill"), tmp_path)
    assert left.code == 0
    assert left.serving == {"threads": 2, "batch": 8, "cache": "f16"}
    passed = Counter(json.loads(left.output.splitlines()[-1]))
    assert set(passed) == set(POINTS)
    for point in POINTS:
        assert passed[point] >= number(point), point
    assert journal.verify(left.run.path).records[-1].kind == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_fault_ends_in_the_safe_state(case: Case, tmp_path: Path) -> None:
    outcome(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "journal.candidates.after",
        "journal.block.torn",
        "engine.configure.after",
        "write.report.md.before",
    ],
)
def test_a_run_that_was_cut_short_goes_on(point: str, tmp_path: Path) -> None:
    cut = run_case(Case(f"kill -9 at {point}", at(point, "kill")), tmp_path)
    before = block_table.blocks_in_journal(cut.run)
    left = resume(cut, tmp_path)
    try:
        assert left.code == 0, left.output
        assert "outcome improved" in left.output
        assert left.serving == {"threads": 2, "batch": 8, "cache": "f16"}
        assert len(left.servers) == 1
        assert journal.verify(left.run.path).is_finished
        assert block_table.blocks_in_journal(left.run)[: len(before)] == before
        assert verify(left.run.path).is_verified
    finally:
        clean_up(left, tmp_path)


@pytest.mark.slow
def test_a_finished_run_is_rolled_back(tmp_path: Path) -> None:
    left = run_case(Case("no fault"), tmp_path)
    try:
        assert left.serving == {"threads": 2, "batch": 8, "cache": "f16"}
        data = json.loads(run_command(tmp_path, "rollback", left.run.id, "--json"))
        assert data["action"] == "restarted"
        assert stored_configuration(tmp_path / "state") == data["settings"] == START
        assert data["journal_intact"]
        assert verify(left.run.path).is_verified, "the report is older than the rollback"
        again = json.loads(run_command(tmp_path, "rollback", left.run.id, "--json"))
        assert again["action"] == "nothing"
    finally:
        clean_up(left, tmp_path)
