"""Units: parsing, exact scales, conversion, printing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from assay.errors import InputError, UnitError
from assay.model.language.quantity import check_dimension, format_quantity, parse_quantity
from assay.model.language.unit_table import BASE_UNITS
from assay.model.language.units import DIMENSIONLESS, parse_unit

# Scales from the SI Brochure (9th ed., tables 5 to 8), IEC 80000-13 and the definitions of the
# units themselves.
EXACT_SCALES = {
    "bit": Fraction(1, 8),
    "kbit": Fraction(125),
    "GB": Fraction(10**9),
    "GiB": Fraction(2**30),
    "TiB": Fraction(2**40),
    "Gbit": Fraction(10**9, 8),
    "Gibit": Fraction(2**30, 8),
    "kWh": Fraction(3_600_000),
    "MWh": Fraction(3_600_000_000),
    "W*h": Fraction(3600),
    "min": Fraction(60),
    "day": Fraction(86400),
    "year": Fraction(31557600),
    "month": Fraction(31557600, 12),
    "TFLOP": Fraction(10**12),
    "Mtoken": Fraction(10**6),
    "%": Fraction(1, 100),
    "ppm": Fraction(1, 10**6),
    "L": Fraction(1, 1000),
    "g": Fraction(1, 1000),
    "t": Fraction(1000),
    "eV": Fraction("1.602176634e-19"),
    "bar": Fraction(100_000),
    "atm": Fraction(101325),
    "us": Fraction(1, 10**6),
    "USD/kWh": Fraction(1, 3_600_000),
    "USD/(GPU*h)": Fraction(1, 3600),
    "kW/m^2": Fraction(1000),
}


@pytest.mark.parametrize(("text", "scale"), EXACT_SCALES.items())
def test_scale_is_exact(text: str, scale: Fraction) -> None:
    assert parse_unit(text).scale == scale


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("J", "kg*m^2/s^2"),
        ("W", "V*A"),
        ("ohm", "V/A"),
        ("F", "A*s/V"),
        ("Hz", "1/s"),
        ("N*m", "J"),
        ("T", "V*s/m^2"),
        ("FLOP/s/GPU", "FLOP/(s*GPU)"),
        ("m**2", "m^2"),
        ("B s^-1", "B/s"),
    ],
)
def test_equal_units(one: str, other: str) -> None:
    assert parse_unit(one) == parse_unit(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bit", "B"),
        ("W*h", "J"),
        ("GB", "GiB"),
        ("GPU*h", "h"),
        ("USD/s", "FLOP/s"),
        ("token", "1"),
        ("degC", "K"),
    ],
)
def test_different_units(one: str, other: str) -> None:
    assert parse_unit(one) != parse_unit(other)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("TFLOPS", "write TFLOP/s"),
        ("Gbps", "write Gbit/s"),
        ("hours", "write hour"),
        ("GPUs", "write GPU"),
        ("EUR", "write USD"),
        ("furlong", "units are SI"),
    ],
)
def test_unknown_unit_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_unit(text)
    assert text in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text", ["/", "W//s", "W/", "(W", "W)", "^2", "W^", "W^x", "2 W", "W @ s", "*", "m^(1/"]
)
def test_malformed_unit(text: str) -> None:
    with pytest.raises(UnitError):
        parse_unit(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80 GB", 80e9),
        ("80GB", 80e9),
        ("80 GiB", 80 * 2**30),
        ("0.08 USD/kWh", 0.08 / 3.6e6),
        ("1_000_000 token", 1e6),
        ("6.4 Gbit/s", 0.8e9),
        (".5 h", 1800.0),
        ("-40 degC", 233.15),
        ("25 degC", 298.15),
        ("1e3", 1000.0),
        ("50 %", 0.5),
    ],
)
def test_parse_quantity(text: str, value: float) -> None:
    assert parse_quantity(text).value == value


@pytest.mark.parametrize(
    "text",
    ["", "GB", "nan", "inf GB", "-inf", "1,000 W", "1e999 W", "--3 W", "one W", "0x10 B", "1e400"],
)
def test_bad_quantity_is_refused(text: str) -> None:
    with pytest.raises((InputError, UnitError)):
        parse_quantity(text)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200))
def test_conversion_rounds_once(value: float) -> None:
    unit = parse_unit("kWh")
    there = unit.to_coherent(value)
    assert there == float(Fraction(value) * 3_600_000)
    back = unit.from_coherent(there)
    assert back == pytest.approx(value, rel=1e-15)


_names = st.sampled_from([*BASE_UNITS, "J", "W", "kWh", "bit", "GiB", "h", "%", "V"])


@given(_names, _names, _names)
def test_algebra_of_units(a: str, b: str, c: str) -> None:
    x, y, z = parse_unit(a), parse_unit(b), parse_unit(c)
    assert (x * y) * z == x * (y * z)
    assert x * y == y * x
    assert x / x == DIMENSIONLESS
    assert (x * y) / y == x
    assert (x**2) ** Fraction(1, 2) == x
    assert parse_unit(f"{a}*{b}/{c}") == x * y / z


def test_missing_counted_unit_is_suggested() -> None:
    with pytest.raises(UnitError) as caught:
        check_dimension("gpu.power", parse_unit("W"), parse_unit("W/GPU"))
    assert caught.value.message == "unit mismatch in gpu.power: expected W/GPU, got W"
    assert caught.value.hint == "gpu.power is per GPU: write W/GPU"


def test_printing() -> None:
    assert format_quantity(3.6e6, parse_unit("kWh")) == "1 kWh"
    assert format_quantity(0.25, parse_unit("%")) == "25 %"
    assert format_quantity(1e7 / 1.5, parse_unit("token/s")) == "6666666.67 token/s"
    assert format_quantity(298.15, parse_unit("degC")) == "25 degC"
    assert format_quantity(7.0, DIMENSIONLESS) == "7"
