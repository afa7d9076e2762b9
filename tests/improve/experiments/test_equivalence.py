"""TOST beside statsmodels."""

from __future__ import annotations

import math
import random

import pytest

from assay.errors import InputError
from assay.improve.experiments.equivalence import equivalent

weightstats = pytest.importorskip("statsmodels.stats.weightstats")


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.02, 0.05, -0.04])
@pytest.mark.parametrize("spread", [0.002, 0.02])
def test_p_values_equal_those_of_statsmodels(shift: float, spread: float) -> None:
    numbers = random.Random(round(1e4 * (shift + spread)))
    before = [100.0 * math.exp(numbers.gauss(0.0, spread)) for _ in range(12)]
    after = [100.0 * math.exp(numbers.gauss(shift, 2 * spread)) for _ in range(9)]
    found = equivalent(before, after, margin=0.03)
    bound = math.log(1.03)
    expected = weightstats.ttost_ind(
        [math.log(value) for value in after],
        [math.log(value) for value in before],
        -bound,
        bound,
        usevar="unequal",
    )[0]
    assert found.p_value == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert found.equivalent == (expected < 0.05)
    # The interval of two one-sided tests lies within the margin exactly where both reject.
    inside = found.ratio.lo > 1 / 1.03 and found.ratio.hi < 1.03
    assert inside == found.equivalent


def test_too_little_is_refused() -> None:
    with pytest.raises(InputError, match="two values or more"):
        equivalent([1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="above 0"):
        equivalent([1.0, 0.0], [1.0, 2.0])
