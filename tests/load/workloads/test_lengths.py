"""Distributions of lengths against closed forms and SciPy."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
import scipy.stats

from assay.errors import InputError
from assay.load.workloads.lengths import (
    Empirical,
    Fixed,
    Lengths,
    LogNormal,
    Uniform,
    parse_lengths,
    read_lengths,
)

N = 20_000


def drawn(lengths: Lengths) -> np.ndarray:
    random = Random(5)
    return np.array([lengths.draw(random) for _ in range(N)])


def test_uniform_lengths_have_equal_shares_of_both_ends() -> None:
    counts = Counter(drawn(Uniform(3, 7)).tolist())
    assert sorted(counts) == [3, 4, 5, 6, 7]
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize(
    "lengths", [LogNormal(180, 0.8), LogNormal(48, 0.6, 8, 192), LogNormal(20, 1.5, 5, 60)]
)
def test_lognormal_lengths_are_scipys_between_the_bounds(lengths: LogNormal) -> None:
    found = drawn(lengths)
    assert found.min() >= lengths.least
    assert found.max() <= lengths.most
    whole = scipy.stats.lognorm(lengths.sigma, scale=lengths.median)
    low, high = whole.cdf([lengths.least - 0.5, lengths.most + 0.5])
    values = np.arange(lengths.least, min(lengths.most, found.max()) + 1)
    expected = (whole.cdf(values + 0.5) - low) / (high - low)
    seen = np.searchsorted(np.sort(found), values, side="right") / N
    # Kolmogorov's bound at a probability of 0.1 %.
    assert np.abs(seen - expected).max() < 1.95 / np.sqrt(N)


def test_bounds_far_from_the_median_give_the_nearest_bound() -> None:
    assert set(drawn(LogNormal(10, 0.05, 5000, 6000))[:10].tolist()) <= {5000}
    assert set(drawn(LogNormal(5000, 0.05, 1, 10))[:10].tolist()) <= {10}


def test_empirical_lengths_are_drawn_by_frequency(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("10, 20\n20 30\n")
    lengths = read_lengths(path)
    assert lengths == Empirical((10, 20, 20, 30), "lengths.txt")
    counts = Counter(drawn(lengths).tolist())
    assert counts[20] / N == pytest.approx(0.5, abs=0.02)
    assert parse_lengths("x", str(path)) == lengths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128", Fixed(128)),
        (64, Fixed(64)),
        ("64-256", Uniform(64, 256)),
        ("lognormal:180,0.8", LogNormal(180, 0.8)),
        ("lognormal:180,0.8,16-2048", LogNormal(180, 0.8, 16, 2048)),
    ],
)
def test_lengths_as_they_are_written(text: str | int, expected: Lengths) -> None:
    assert parse_lengths("--input-tokens", text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "1e3", "9999999999", "256-64", "0-4", "lognormal:0,1", "lognormal:5,0",
     "lognormal:5", "normal:5,1", "nan", "/dev/null/x", "64-", "\x00", "12 34"],
)  # fmt: skip
def test_what_is_no_length_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=r"^--input-tokens: expected"):
        parse_lengths("--input-tokens", text)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    for content, message in [("", "got 0"), ("12 twelve", "'twelve'"), ("0", "from 1 to")]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            read_lengths(path)


def test_scaling_multiplies_lengths_and_bounds() -> None:
    assert Fixed(16).scaled(4) == Fixed(64)
    assert Uniform(3, 5).scaled(0.1) == Uniform(1, 1)
    assert LogNormal(48, 0.6, 8, 192).scaled(4) == LogNormal(192, 0.6, 32, 768)
    assert Empirical((2, 4), "x").scaled(2) == Empirical((4, 8), "x")
