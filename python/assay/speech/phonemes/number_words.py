"""Numbers as English words."""

from __future__ import annotations

from typing import Final

_SMALL: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS: Final = (
    *("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
)
_GROUPS: Final = ("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion")
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def digits(text: str) -> str:
    """Each digit as a word."""
    return " ".join(_SMALL[int(digit)] for digit in text if digit.isdecimal())


def cardinal(number: int) -> str:
    """A whole number: 1205 is "one thousand two hundred five"."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < len(_SMALL):
        return _SMALL[number]
    groups: list[int] = []
    rest = number
    while rest:
        rest, group = divmod(rest, 1000)
        groups.append(group)
    if len(groups) > len(_GROUPS):
        return digits(str(number))
    words = [
        f"{_below_thousand(group)} {_GROUPS[place]}".rstrip()
        for place, group in reversed(list(enumerate(groups)))
        if group
    ]
    return " ".join(words)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [f"{_SMALL[hundreds]} hundred"] if hundreds else []
    if rest:
        tens, units = divmod(rest, 10)
        small = _SMALL[rest] if rest < len(_SMALL) else _TENS[tens]
        words.append(f"{small}-{_SMALL[units]}" if rest >= len(_SMALL) and units else small)
    return " ".join(words)


def ordinal(number: int) -> str:
    """A place in an order: 21 is "twenty-first"."""
    words = cardinal(number)
    at = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[at:]
    if last in _ORDINALS:
        changed = _ORDINALS[last]
    elif last.endswith("y"):
        changed = f"{last[:-1]}ieth"
    else:
        changed = f"{last}th"
    return words[:at] + changed


def year(number: int) -> str:
    """A year: 1905 is "nineteen oh five", 2024 "twenty twenty-four"."""
    century, rest = divmod(number, 100)
    if not 1100 <= number <= 2099 or (2000 <= number <= 2009):
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decimal(text: str) -> str:
    """A number with a fraction: "3.14" is "three point one four"; commas group thousands."""
    whole, _, fraction = text.replace(",", "").partition(".")
    if fraction:
        return f"{cardinal(int(whole or 0))} point {digits(fraction)}"
    return cardinal(int(whole))
