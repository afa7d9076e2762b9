"""Invariants of answers on random scenarios, and that each finds the bug that is planted for it."""

from __future__ import annotations

import shlex

import draws
import pytest
import run_properties
import tally
from invariants import ALL
from property_harness import Answers, Draw, Invariant, RefusedError, Violation, shrunk, violation_of

COUNT = 300
TRIES = 200


def test_invariants_hold_for_random_scenarios() -> None:
    done = run_properties.check("tests", range(COUNT))
    assert not done.violations, "\n\n".join(done.violations.values())
    assert done.refused_share <= tally.MOST_REFUSED, done.reasons
    assert set(done.checks) == {invariant.name for invariant in ALL}


def first_violation(invariant: Invariant, answers: Answers) -> tuple[Draw, Violation] | None:
    for index in range(TRIES):
        draw = draws.of_kind(invariant.kind, "planted", index)
        try:
            violation = violation_of(invariant, draw, answers)
        except RefusedError:
            continue
        if violation is not None:
            return draw, violation
    return None


@pytest.mark.parametrize("invariant", ALL, ids=lambda invariant: invariant.name)
def test_an_invariant_fails_on_its_planted_bug(invariant: Invariant) -> None:
    assert first_violation(invariant, Answers(ALL, invariant.bug)) is not None


def test_names_of_invariants_differ() -> None:
    names = [invariant.name for invariant in ALL]
    assert len(set(names)) == len(names)


def test_a_violation_is_shrunk_to_a_command_that_shows_it() -> None:
    little = ALL[0]

    def bug(draw: Draw, name: str, number: float) -> float:
        # Wrong from 100 concurrent requests on, whatever else is asked.
        wrong = name == "serving.request_rate" and draw.given("serving.concurrency") >= 100
        return 2 * number if wrong else number

    answers = Answers(ALL, bug)
    found = first_violation(little, answers)
    assert found is not None
    smallest = shrunk(little, found[1], found[0], answers)
    (command,) = (shlex.split(draw.command(smallest.what)) for draw in smallest.draws)
    assert command[:3] == ["assay", "resolve", "serving.request_rate"]
    assert len(command) == 7, command
    name, _, value = command[-1].partition("=")
    assert name == "serving.concurrency"
    assert 100 <= float(value.split()[0]) < 200
