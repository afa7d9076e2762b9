"""Units and quantities are read from input: none of it may hang, crash or fill memory."""

import pytest

from assay.errors import AssayError
from assay.model import parse_quantity, parse_unit

HOSTILE_UNITS = [
    "kW^99999999999",
    "((((kW^99)^99)^99)^99)^99",
    "W^(1/0)",
    "W^1e400",
    "(" * 5000,
    "(" * 100 + "W" + ")" * 99,
    "*".join(["kW"] * 30_000),
    "W^" + "9" * 5000,
    "W^-",
    "^",
    "1/",
    "\x00",
    "W\nW^",
]


@pytest.mark.parametrize("text", HOSTILE_UNITS, ids=lambda text: text[:20])
def test_hostile_units_are_refused_in_one_short_message(text: str) -> None:
    with pytest.raises(AssayError) as caught:
        parse_unit(text)
    assert len(caught.value.message) < 300


def test_long_but_sound_units_are_read() -> None:
    assert parse_unit("(" * 50 + "W" + ")" * 50) == parse_unit("W")
    assert parse_unit("s^-99").powers == parse_unit("1/s^99").powers


@pytest.mark.parametrize(
    "text", ["550_W", "1__0 W", "_1 W", "1_ W", "1e", "1e999 W", "nan W", "inf", "-inf W", "", " "]
)
def test_hostile_numbers_are_refused(text: str) -> None:
    with pytest.raises(AssayError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"), [("1_000.5 W", 1000.5), (".5 W", 0.5), ("5. W", 5.0), ("-2e3W", -2000.0)]
)
def test_unusual_but_sound_numbers_are_read(text: str, value: float) -> None:
    assert parse_quantity(text).value == value
