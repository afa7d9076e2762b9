"""The error rates of estimates, screen and refuters, over many simulations; -s prints them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import simulated_effects as simulated

from assay.diagnose.statistics.aipw import binary_effect
from assay.diagnose.statistics.claim import make_claim
from assay.diagnose.statistics.dose import dose_effect
from assay.diagnose.statistics.lagged import lagged_screen

RUNS = 200


def _rates(case, estimate, runs):
    errors, covered = [], []
    for run in range(runs):
        y, a, x, truth = case(np.random.default_rng([run, 7]))
        found = estimate(y, a, x)
        errors.append((found.value - truth) / truth)
        covered.append(found.lo <= truth <= found.hi)
    return float(np.mean(errors)), float(np.mean(covered))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "dose"])
def test_effects_are_unbiased_and_intervals_cover(kind):
    cases = simulated.BINARY if kind == "binary" else simulated.DOSE
    estimate = binary_effect if kind == "binary" else dose_effect
    for name, case in cases.items():
        bias, coverage = _rates(case, estimate, RUNS)
        print(f"{kind:6} {name:16} bias {bias:+.1%}, 90 % intervals cover {coverage:.1%}")
        assert abs(bias) <= 0.05, name
        assert 0.85 <= coverage <= 0.95, name


@pytest.mark.slow
@pytest.mark.parametrize("kind", simulated.LAGGED)
def test_the_lagged_screen_finds_what_was_planted_and_little_else(kind):
    false, found, signs = [], [], []
    for run in range(RUNS):
        # Every fourth run has nothing to find: there each discovery is false.
        planted = 0 if run % 4 == 0 else 3
        table, links = simulated.lagged_series(
            np.random.default_rng([run, 3]), kind, planted=planted
        )
        got = {(one.series, one.lag): one.sign for one in lagged_screen(table, "y", 5)}
        false.append(len(got.keys() - links.keys()) / max(len(got), 1))
        found += [link in got for link in links]
        signs += [got[link] == sign for link, sign in links.items() if link in got]
    print(
        f"{kind:16} effect {simulated.EFFECT:g}: false discovery {np.mean(false):.1%}, "
        f"power {np.mean(found):.1%}, right sign {np.mean(signs):.1%}"
    )
    assert np.mean(false) <= 0.10
    assert np.mean(found) >= 0.80
    assert np.mean(signs) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "status", "least"),
    [
        (simulated.linear, "supported", 0.85),
        (simulated.autocorrelated, "supported", 0.80),
        (simulated.no_effect, "not shown", 0.85),
        (simulated.hidden_cause, "refuted", 0.90),
        (simulated.reverse_cause, "refuted", 0.90),
        (simulated.drifting_effect, "refuted", 0.90),
    ],
)
def test_refuters_keep_true_claims_and_reject_false_ones(case, status, least):
    statuses = Counter()
    for run in range(40):
        y, a, x, _ = case(np.random.default_rng([run, 11]), 1000)
        covariates = {f"x{number}": column for number, column in enumerate(x.T)}
        statuses[make_claim("a", "y", "ms", (y, a), covariates).status] += 1
    print(f"{case.__name__:16} {dict(statuses)}")
    assert statuses[status] >= least * 40
