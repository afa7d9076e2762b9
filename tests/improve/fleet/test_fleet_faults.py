"""Faults in a promotion: every replica ends at its start, or with the change where it was proven."""

from pathlib import Path

import pytest
from fleet_fault_cases import CASES, SAMPLE
from fleet_faults import FleetCase, check, run_case
from fleet_processes import CHANGED


def test_there_are_cases_enough() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 200
    assert len(SAMPLE) == 3


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_a_fault_ends_in_the_start_or_the_proven_state(case: FleetCase, tmp_path: Path) -> None:
    check(run_case(case, tmp_path))


@pytest.mark.slow
def test_without_a_fault_the_change_is_promoted(tmp_path: Path) -> None:
    left = run_case(FleetCase("no fault"), tmp_path)
    assert left.code == 0, left.output
    assert left.settings == [CHANGED, CHANGED]
    check(left)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_fault_ends_in_the_start_or_the_proven_state(case: FleetCase, tmp_path: Path) -> None:
    check(run_case(case, tmp_path))
