"""Faults at every step of a run: the engine ends in the recorded safe configuration.

Every case starts real processes: a controller, its watchdog, a server. `make test-slow` injects all of
them into the loop, the default tests a sample into a small controller.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from cases import CASES, POINTS, SAMPLE, number
from injection import Aftermath, Case, check, clean_up, run_case

from assay.improve.journal import journal


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
