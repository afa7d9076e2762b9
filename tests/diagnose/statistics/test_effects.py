from __future__ import annotations

import numpy as np
import pytest
import simulated_effects as simulated

from assay.diagnose.statistics.aipw import binary_effect
from assay.diagnose.statistics.claim import make_claim
from assay.diagnose.statistics.dose import dose_effect
from assay.diagnose.statistics.effect import NotIdentifiedError
from assay.diagnose.statistics.folds import block_length, time_folds
from assay.diagnose.statistics.nuisance import Basis, logistic_ridge, ridge
from assay.errors import InputError
from assay.long_run import long_run_interval


def test_without_covariates_it_is_the_difference_of_means():
    ratios = []
    for run in range(20):
        random = np.random.default_rng([run, 2])
        a = (random.random(400) < 0.4).astype(float)
        y = 2.0 * a + random.standard_normal(400)
        found = binary_effect(y, a)
        assert found.value == pytest.approx(y[a == 1].mean() - y[a == 0].mean(), abs=0.05)
        # The two-sample standard error, in closed form.
        plain = np.hypot(y[a == 1].std() / a.sum() ** 0.5, y[a == 0].std() / (1 - a).sum() ** 0.5)
        ratios.append(found.standard_error / plain)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def test_it_agrees_with_statsmodels_on_a_linear_case():
    from statsmodels.discrete.discrete_model import Logit
    from statsmodels.regression.linear_model import OLS
    from statsmodels.treatment.treatment_effects import TreatmentEffect

    y, a, x, _ = simulated.linear(np.random.default_rng(1), 3000)
    design = np.column_stack([np.ones(len(y)), x])
    select = Logit(a, design).fit(disp=False)
    theirs = TreatmentEffect(OLS(y, design), a, results_select=select).aipw(return_results=False)
    found = binary_effect(y, a, x)
    assert found.value == pytest.approx(float(theirs[0]), abs=0.35 * found.standard_error)


@pytest.mark.parametrize("right", ["outcome", "propensity"])
def test_one_right_model_is_enough(right, monkeypatch):
    """Doubly robust: with either model replaced by a constant, the other carries the estimate."""
    from assay.diagnose.statistics import aipw

    def flat(columns, values):
        mean = float(values.mean())
        return lambda rows: np.full(len(rows), mean)

    monkeypatch.setattr(aipw, "ridge" if right == "propensity" else "logistic_ridge", flat)
    values = [
        binary_effect(*simulated.linear(np.random.default_rng([run, 5]))[:3]).value
        for run in range(8)
    ]
    assert np.mean(values) == pytest.approx(1.0, abs=0.08)


def test_both_models_wrong_is_biased(monkeypatch):
    from assay.diagnose.statistics import aipw

    def flat(columns, values):
        mean = float(values.mean())
        return lambda rows: np.full(len(rows), mean)

    monkeypatch.setattr(aipw, "ridge", flat)
    monkeypatch.setattr(aipw, "logistic_ridge", flat)
    y, a, x, _ = simulated.heteroscedastic(np.random.default_rng(2))
    assert binary_effect(y, a, x).value > 1.4


@pytest.mark.parametrize("name", simulated.BINARY)
def test_confounded_effects_are_near_the_truth(name):
    errors, unadjusted = [], []
    for run in range(4):
        y, a, x, truth = simulated.BINARY[name](np.random.default_rng([run, 9]))
        found = binary_effect(y, a, x)
        errors.append((found.value - truth) / found.standard_error)
        unadjusted.append(abs(found.unadjusted - truth))
    # Four independent estimates: their mean is within three standard errors of it.
    assert abs(np.mean(errors)) * 2.0 < 3.0
    assert np.mean(unadjusted) > 0.1


@pytest.mark.parametrize("name", simulated.DOSE)
def test_doses_are_near_the_truth(name):
    errors = []
    for run in range(4):
        y, d, x, truth = simulated.DOSE[name](np.random.default_rng([run, 9]))
        found = dose_effect(y, d, x)
        errors.append((found.value - truth) / found.standard_error)
    assert abs(np.mean(errors)) * 2.0 < 3.0


def test_the_unit_of_a_dose_scales_its_effect():
    y, d, x, _ = simulated.linear_dose(np.random.default_rng(4), 600)
    one, thousand = dose_effect(y, d, x), dose_effect(y, d * 1000.0, x)
    assert thousand.value * 1000.0 == pytest.approx(one.value, rel=1e-6)


def test_the_attributable_part_is_the_effect_of_the_treated_times_their_share():
    random = np.random.default_rng(6)
    x = random.standard_normal(4000)
    a = simulated.treated(random, simulated.chance(x - 1.0))
    # The effect on the treated in closed form: their mean of 1 + x.
    y = (1.0 + x) * a + x + 0.5 * random.standard_normal(4000)
    found = binary_effect(y, a, x)
    truth = float(np.mean(a * (1.0 + x)))
    assert found.attributable_lo is not None
    assert found.attributable_hi is not None
    assert found.attributable == pytest.approx(truth, abs=0.05)
    assert found.attributable_lo < truth < found.attributable_hi


def test_an_interval_of_autocorrelated_terms_covers():
    covered = 0
    for run in range(200):
        terms = simulated.slow(np.random.default_rng([run, 13]), 1000, 0.8)[:, 0]
        found = long_run_interval(terms)
        covered += found.lo <= 0.0 <= found.hi
    assert 165 <= covered <= 195


@pytest.mark.parametrize(
    ("outcome", "treatment", "covariates", "message"),
    [
        (np.zeros(100), np.zeros(100), None, "treatment: expected at least 30 samples, got 0"),
        (np.zeros(100), np.r_[np.zeros(90), np.ones(10)], None, "at least 30 samples, got 10"),
        (np.zeros(100), np.full(100, 0.5), None, "treatment: expected 0 and 1, got [0.5]"),
        (np.zeros(100), np.r_[np.zeros(50), np.ones(50)], np.ones(99), "expected 100 samples"),
        (np.full(100, np.nan), np.r_[np.zeros(50), np.ones(50)], None, "finite numbers, got 100"),
    ],
)
def test_what_cannot_be_estimated_is_refused(outcome, treatment, covariates, message):
    with pytest.raises((NotIdentifiedError, InputError)) as caught:
        binary_effect(outcome, treatment, covariates)
    assert message in caught.value.message


def test_covariates_that_decide_the_treatment_are_refused():
    random = np.random.default_rng(3)
    x = random.standard_normal(600)
    with pytest.raises(NotIdentifiedError, match="counterpart"):
        binary_effect(random.standard_normal(600), (x > 0).astype(float), x)
    with pytest.raises(NotIdentifiedError, match="leave at least 5% of its variance"):
        dose_effect(random.standard_normal(600), 3.0 * x, x)
    with pytest.raises(NotIdentifiedError, match="at least 5 levels"):
        dose_effect(random.standard_normal(600), (x > 0).astype(float), None)


def test_weak_overlap_is_flagged():
    y, a, x, _ = simulated.weak_overlap(np.random.default_rng(0))
    found = binary_effect(y, a, x)
    assert found.overlap is not None
    assert 0.5 < found.overlap.retained < 1.0
    assert found.samples == round(found.overlap.retained * len(y))
    assert "no counterpart" in found.flags[0]


def test_claims_say_what_they_stood_up_to_or_fell_to():
    y, a, x, _ = simulated.linear(np.random.default_rng(1), 500)
    held = make_claim("throttling", "step time", "ms", (y, a), {"batch": x[:, 0], "load": x[:, 1]})
    assert held.status == "supported"
    assert "ms of step time" in str(held)
    assert "observed, adjusted for batch, load" in str(held)
    assert "stood up to: placebo treatment, random common cause" in str(held)
    assert held.evidence().source == "telemetry"
    y, a, x, _ = simulated.hidden_cause(np.random.default_rng(1), 500)
    fell = make_claim("neighbor", "step time", "ms", (y, a), {"batch": x[:, 0]})
    assert fell.status == "refuted"
    assert "refuted by" in str(fell)
    assert "future treatment: the treatment" in str(fell)
    y, a, x, _ = simulated.no_effect(np.random.default_rng(3), 500)
    none = make_claim("steal", "step time", "ms", (y, a), {"b": x[:, 0], "c": x[:, 1]})
    assert none.status == "not shown"
    assert none.refutations == ()


@pytest.mark.parametrize("period", [2, 10, 40])
def test_a_periodic_treatment_is_not_its_own_placebo(period):
    random = np.random.default_rng(0)
    a = ((np.arange(600) // (period // 2)) % 2).astype(float)
    claim = make_claim("a", "y", "us", (40.0 * a + 5.0 * random.standard_normal(600), a), {})
    assert {one.name: one.passed for one in claim.refutations}["placebo treatment"]
    assert claim.status == "supported"


def test_folds_cover_every_sample_once_and_leave_a_gap():
    count = 1000
    length = block_length(count)
    seen = np.zeros(count, dtype=int)
    for train, test in time_folds(count):
        seen += test
        nearest = np.min(
            np.abs(np.flatnonzero(train)[:, None] - np.flatnonzero(test)[None]), axis=1
        )
        assert nearest.min() == length // 4 + 1
    assert (seen == 1).all()


def test_ridge_is_least_squares_where_there_is_signal():
    random = np.random.default_rng(0)
    x = random.standard_normal((500, 6))
    y = x @ np.arange(6.0) + 0.01 * random.standard_normal(500)
    design = np.column_stack([np.ones(500), x])
    theirs = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert ridge(x, y)(x) == pytest.approx(theirs, abs=0.01)


def test_logistic_regression_agrees_with_statsmodels():
    from statsmodels.discrete.discrete_model import Logit

    random = np.random.default_rng(0)
    x = random.standard_normal((4000, 3))
    a = simulated.treated(random, simulated.chance(x @ np.array([1.0, -0.5, 0.2]) - 1.0))
    theirs = Logit(a, np.column_stack([np.ones(4000), x])).fit(disp=False).predict()
    assert logistic_ridge(x, a)(x) == pytest.approx(theirs, abs=0.01)


def test_splines_are_straight_beyond_the_outermost_knots():
    basis = Basis.of(np.random.default_rng(0).standard_normal((500, 1)))
    far = basis(np.array([[10.0], [20.0], [30.0]]))
    assert far[2] - far[1] == pytest.approx(far[1] - far[0])
