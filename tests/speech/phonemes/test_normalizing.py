"""Numbers, dates, money and abbreviations as words."""

import pytest

from assay.speech.phonemes.normalizing import normalized
from assay.speech.phonemes.number_words import cardinal, ordinal, year


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$12.50", "twelve dollars and fifty cents"),
        ("$1", "one dollar"),
        ("£0.01", "one penny"),
        ("$3.5 million", "three point five million dollars"),
        ("€2bn", "two billion euros"),
        ("at 5:30 p.m.", "at five thirty P M"),
        ("at 7:05", "at seven oh five"),
        ("March 3, 2021", "March third, twenty twenty-one"),
        ("3rd of May", "third of May"),
        ("2024-02-29", "February twenty-ninth, twenty twenty-four"),
        ("the 1990s", "the nineteen nineties"),
        ("in 1905", "in nineteen oh five"),
        ("in 2005", "in two thousand five"),
        ("1,234,567", "one million two hundred thirty-four thousand five hundred sixty-seven"),
        ("3.14", "three point one four"),
        ("-5", "minus five"),
        ("10-20", "ten to twenty"),
        ("99.9%", "ninety-nine point nine percent"),
        ("3/4", "three quarters"),
        ("x² and 10⁶", "x squared and ten to the power six"),
        ("5 * 3", "five times three"),
        ("*bold*", "bold"),
        (".5", "zero point five"),
        ("99¢ or ₹300", "ninety-nine cents or three hundred rupees"),
        ("# Heading, #1", "Heading, number one"),
        ("2 1/2 cups", "two and a half cups"),
        ("25 mph", "twenty-five miles per hour"),
        ("1 kg", "one kilogram"),
        ("20°C", "twenty degrees Celsius"),
        ("007", "zero zero seven"),
        ("H200", "H two hundred"),
        ("v1.2.3", "v one point two point three"),
        ("Dr. Smith", "doctor Smith"),
        ("St. James St. is", "Saint James street is"),
        ("No. 5", "number five"),
        ("e.g. this", "for example this"),
        ("the U.S. and", "the U S and"),
        ("example.com", "example dot com"),
        ("a & b", "a and b"),
        ("1st, 2nd, 23rd", "first, second, twenty-third"),
    ],
)
def test_what_is_said(text: str, said: str) -> None:
    assert normalized(text) == said


def test_dates_with_slashes_are_read_as_in_the_country() -> None:
    assert normalized("3/4/2021") == "March fourth, twenty twenty-one"
    assert normalized("3/4/2021", british=True) == "April third, twenty twenty-one"


def test_numbers_as_words() -> None:
    # Of num2words 0.5.14, without its "and" and commas.
    assert cardinal(0) == "zero"
    assert cardinal(1_000_000_000_001) == "one trillion one"
    assert cardinal(10**30) == "one" + 30 * " zero"
    assert [ordinal(number) for number in (12, 20, 101, 40_003)] == [
        "twelfth",
        "twentieth",
        "one hundred first",
        "forty thousand third",
    ]
    assert [year(number) for number in (1900, 2000, 1066, 2100)] == [
        "nineteen hundred",
        "two thousand",
        "one thousand sixty-six",
        "two thousand one hundred",
    ]


@pytest.mark.parametrize(
    "text", ["1" * 5000, "$" * 5000, "1." * 2500, "a." * 2500, "1/" * 2500, "x²" + "²" * 5000]
)
def test_long_texts_take_no_long_time(text: str) -> None:
    assert normalized(text) is not None
