"""False alarms and power over planted series, and a second opinion on the test itself."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import gate_series
import generate_gate_reference as reference
from assay.improve.experiments.confidence_sequence import ALPHA, ConfidenceSequence, Design


@pytest.mark.parametrize("name", gate_series.FAMILIES)
def test_five_percent_hold_at_any_length(name: str) -> None:
    equal = reference.equal_sides(gate_series.FAMILIES[name], 500)
    assert max(equal.alarms.values()) <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("name", gate_series.FAMILIES)
def test_ten_thousand_runs_hold_five_percent(name: str, root: Path) -> None:
    """The same figures as on the page."""
    equal = reference.equal_sides(gate_series.FAMILIES[name], reference.EQUAL_RUNS)
    assert max(equal.alarms.values()) <= ALPHA
    page = (root / "docs/reference/gate.md").read_text("utf-8")
    row = re.search(rf"^\| {re.escape(name)} \| (.*) \|$", page, re.MULTILINE)
    assert row is not None
    shown = [f"{100 * equal.alarms[length]:.1f} %" for length in reference.LENGTHS]
    assert row[1].split(" | ")[: len(shown)] == shown


def test_two_pairs_or_clipping_would_not_hold_for_starts_in_two_modes() -> None:
    """Why four pairs are needed, and why nothing is clipped."""
    equal = reference.equal_sides(gate_series.two_modes, 1000)
    assert equal.after_two > 2 * ALPHA
    ratios, _ = gate_series.log_ratios(gate_series.two_modes, 0.0, 1000, 40, seed=0)
    alarms = {}
    for clips in (False, True):
        excluded = 0
        for series in ratios.tolist():
            sequence = ConfidenceSequence(ALPHA, Design(clips=clips))
            looks = [sequence.add(value) for value in series]
            excluded += any(not look.lo <= 0.0 <= look.hi for look in looks[3:])
        alarms[clips] = excluded / len(ratios)
    assert alarms[False] <= ALPHA < alarms[True]


def test_five_percent_are_found_in_nine_of_ten_runs_where_the_page_says(root: Path) -> None:
    """Starts that differ by 1 %: other series than the page's, the pairs that it states."""
    page = (root / "docs/reference/gate.md").read_text("utf-8")
    row = re.search(r"^\| 1\.0 % \| 5\.0 % \| (\d+) \| \d+ min \|", page, re.MULTILINE)
    assert row is not None
    done = reference.planted(gate_series.normal(0.01), -0.05, 500, 0.05, seed=77)
    assert done.found(int(row[1])) >= 0.9 - 2 * math.sqrt(0.09 / 500)
    assert done.improved == 0.0


def robbins(mean: float, count: int, sd: float, rho: float = 8.0) -> bool:
    """Whether Robbins' normal mixture with known variance excludes 0 (Howard et al. 2021, eq. 14).

    The mean of n values lies within sd sqrt((n + rho) / n^2 log((n + rho) / (rho alpha^2))) of
    the truth, for all n together, with a chance of 1 - alpha.
    """
    radius = sd * math.sqrt((count + rho) * math.log((count + rho) / (rho * ALPHA**2))) / count
    return abs(mean) > radius


def test_a_published_closed_form_agrees() -> None:
    """A second opinion that knows the variance: it may be quicker, and never contradicts."""
    sd = math.sqrt(2.0) * 0.02
    ratios, _ = gate_series.log_ratios(gate_series.normal(0.02), -0.05, 400, 40, seed=5)
    ours, theirs = [], []
    for series in ratios.tolist():
        sequence, first = ConfidenceSequence(ALPHA, Design(clips=False)), {}
        for count, value in enumerate(series, 1):
            interval = sequence.add(value)
            mean = sum(series[:count]) / count
            if count >= 4 and not interval.lo <= 0.0 <= interval.hi:
                first.setdefault("ours", (count, interval.value < 0.0))
            if count >= 4 and robbins(mean, count, sd):
                first.setdefault("theirs", (count, mean < 0.0))
        assert {is_slower for _, is_slower in first.values()} == {True}
        ours.append(first.get("ours", (math.inf,))[0])
        theirs.append(first.get("theirs", (math.inf,))[0])
    assert np.median(theirs) <= np.median(ours) <= 2.0 * np.median(theirs)


@pytest.mark.slow
def test_the_page_is_what_its_script_writes() -> None:
    assert reference.write_or_check(reference.write_page(), reference.COMMAND, ["--check"]) == 0
