"""A minute of the soak that `run_soak.py` runs for as long as one likes."""

import random

import pytest
from run_soak import drawn, soak


def test_drawn_cases_differ_and_are_those_of_their_seed() -> None:
    first, second = (
        [drawn(generator) for _ in range(200)] for generator in (random.Random(7), random.Random(7))
    )
    assert first == second
    assert len({(case.points, case.jump_s, str(case.server)) for case in first}) > 150
    # A watchdog is ended when the journal has so many records: a controller that dies first has fewer.
    assert not any(case.points and case.watchdog_at is not None for case in first)


@pytest.mark.slow
def test_runs_under_faults_end_safe() -> None:
    counts = soak(60.0, seed=1)
    assert counts["runs"] > 0
