"""Figures: digits that the interval supports, in a unit people use."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, strategies as st

from assay.model.language.figures import figure, figure_column, figure_range
from assay.model.language.units import parse_unit

UNITS = (
    "us", "ms", "s", "day", "W", "kW", "GB", "GiB/GPU", "TFLOP/(s*GPU)", "USD", "USD/token",
    "USD/(h*GPU)", "J/token", "token/s", "%", "1", "kg/kWh", "t", "Gbit/s", "byte",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "interval", "text"),
    [
        (
            6.03e-8,
            "USD/token",
            (5.09e-8, 7.56e-8),
            "$0.060 per million tokens (90 %: 0.051 to 0.076)",
        ),
        (3.000078e-6, "USD/token", (), "$3.00 per million tokens"),
        (1.11955708, "1", (1.10380405, 1.14296853), "1.120 (90 %: 1.104 to 1.143)"),
        (0.4123, "%", (0.38, 0.45), "41.2 % (90 %: 38.0 to 45.0)"),
        (123_456.0, "token/s", (110_000.0, 140_000.0), "123000 token/s (90 %: 110000 to 140000)"),
        (0.025, "us", (), "25 ms"),
        (114_800.0, "W", (), "114.8 kW"),
        (327.870765 * 2**30, "GiB/GPU", (), "327.9 GiB/GPU"),
        (2.35 / 3600, "USD/(h*GPU)", (), "$2.35 per GPU-hour"),
        (12_345_678.0, "USD", (), "$12.35 million"),
        (8.0, "GPU", (), "8 GPU"),
        (293.15, "degC", (), "20 degC"),
        (0.0, "W", (), "0 W"),
        (1e-12, "1", (), "1e-12"),
        (1.5e13, "token", (), "1.5e13 token"),
        (450.0, "W", (5.0, 5000.0), "450 W (90 %: 5 to 5000)"),
        (1.5, "s", (1.5, 1.5), "1.5 s"),
        (4 * 31_557_600.0, "year", (), "4 year"),
    ],
)
def test_figures(value: float, unit: str, interval: tuple[float, ...], text: str) -> None:
    found = figure(value, parse_unit(unit), *interval)
    assert f"{found.text}{found.interval}" == text


def read(text: str, unit: str, sign: str, suffix: str) -> float:
    """Read a figure back to base units."""
    number = float(text)
    if sign:
        factor = {" million": 1e6, " billion": 1e9, " trillion": 1e12, " per million tokens": 1e-6}
        return parse_unit(unit).to_coherent(number * factor.get(suffix, 1.0))
    return parse_unit(suffix.strip() or "1").to_coherent(number)


@given(
    st.sampled_from(UNITS), st.floats(1e-6, 1e12), st.floats(1.0001, 50.0), st.floats(0.01, 0.99)
)
def test_a_figure_is_within_a_twentieth_of_the_interval(
    unit: str, lower: float, ratio: float, share: float
) -> None:
    upper = lower * ratio
    value = lower + share * (upper - lower)
    found = figure(value, parse_unit(unit), lower, upper)
    width = upper - lower
    for text, exact in ((found.value, value), (found.lower, lower), (found.upper, upper)):
        shown = read(text, unit, found.sign, found.unit)
        assert abs(shown - exact) <= 0.051 * width + 1e-9 * abs(exact)
        # No more than two digits of the width, and one of the smallest number.
        digits = re.sub(r"e.*", "", text).replace("-", "").replace(".", "").strip("0")
        assert len(digits) <= 1 + max(math.log10(upper / width) + 3.01, math.log10(ratio) + 2.01)


@given(st.sampled_from(UNITS), st.floats(1e-9, 1e15))
def test_a_figure_without_interval_has_four_digits(unit: str, value: float) -> None:
    found = figure(value, parse_unit(unit))
    half_a_cent = read("0.0051", unit, found.sign, found.unit) if found.sign else 0.0
    shown = read(found.value, unit, found.sign, found.unit)
    assert shown == pytest.approx(value, rel=6e-4, abs=half_a_cent)


def test_a_column_tells_different_values_apart() -> None:
    unit, texts = figure_column([1.00001, 1.00002, math.nan], parse_unit("s"))
    assert unit == "s"
    assert texts == ["1.00001", "1.00002", "-"]
    assert figure_column([2500.0, 0.5], parse_unit("W")) == ("W", ["2500", "0.5"])
    # Two points without a value are alike and ask for no further digits.
    assert figure_column([1 / 3, math.nan, math.nan], parse_unit("s")) == (
        "s",
        ["0.3333", "-", "-"],
    )


@given(st.sampled_from(UNITS), st.floats(1e-6, 1e12), st.floats(1.00001, 1e3))
def test_a_range_is_in_one_unit_and_tells_its_ends_apart(
    unit: str, first: float, ratio: float
) -> None:
    text = figure_range(first, first * ratio, parse_unit(unit))
    low, high = text.split(" to ")
    assert low != high.split(" ")[0]
    sign = "$" if unit.startswith("USD") else ""
    number, _, suffix = high.removeprefix(sign).partition(" ")
    for shown, exact in ((low.removeprefix(sign), first), (number, first * ratio)):
        assert read(shown, unit, sign, f" {suffix}") == pytest.approx(exact, rel=6e-4)
