"""Medians and their confidence intervals, against SciPy and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from assay.bench.harness.statistics import median_interval, quantile, ratio_interval


@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.5, 0.9, 1.0])
def test_quantiles_match_numpy(share: float) -> None:
    values = np.random.default_rng(3).exponential(size=29)
    assert quantile(values.tolist(), share) == pytest.approx(np.quantile(values, share), rel=1e-12)


@pytest.mark.parametrize("count", range(1, 60))
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.975])
def test_median_interval_matches_binomial_quantiles(count: int, confidence: float) -> None:
    interval = median_interval([float(i) for i in range(count)], confidence)
    cuts = [
        k for k in range(count // 2 + 1) if 2 * stats.binom.cdf(k, count, 0.5) <= 1 - confidence
    ]
    if not cuts:
        assert interval is None
    else:
        assert interval == (float(max(cuts)), float(count - 1 - max(cuts)))


def test_median_interval_has_its_nominal_coverage() -> None:
    source = np.random.default_rng(11)
    covered = 0
    for _ in range(2000):
        low, high = median_interval(source.exponential(size=21).tolist()) or (0.0, 0.0)
        covered += low <= math.log(2) <= high
    assert covered / 2000 >= 0.94


def test_ratio_interval_has_its_nominal_coverage() -> None:
    source = np.random.default_rng(12)
    covered = 0
    for _ in range(1000):
        over = source.lognormal(math.log(3.0), 0.2, size=25).tolist()
        under = source.lognormal(0.0, 0.1, size=25).tolist()
        low, high = ratio_interval(over, under) or (0.0, 0.0)
        covered += low <= 3.0 <= high
    assert covered / 1000 >= 0.95


def test_too_few_values_have_no_interval() -> None:
    assert ratio_interval([1.0] * 7, [1.0] * 5) is None
    assert ratio_interval([1.0] * 9, [0.0] * 9) is None
