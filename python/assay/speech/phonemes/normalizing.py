"""Numbers, dates, money, units and abbreviations of a text as the words that are said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from assay.speech.phonemes.number_words import cardinal, decimal, digits, ordinal, year

_NUMBER: Final = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_SCALES: Final = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion", "bn": "billion"}
_CURRENCIES: Final = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
}
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_MONTH_NAMES: Final = {
    **{month: month for month in _MONTHS},
    **{month[:3]: month for month in _MONTHS},
    "Sept": "September",
}
_TITLES: Final = {
    "Mr": "mister",
    "Mrs": "missus",
    "Ms": "miz",
    "Dr": "doctor",
    "Prof": "professor",
    "Gen": "general",
    "Col": "colonel",
    "Capt": "captain",
    "Lt": "lieutenant",
    "Sgt": "sergeant",
    "Rev": "reverend",
    "Hon": "honorable",
    "Sen": "senator",
    "Rep": "representative",
    "Gov": "governor",
    "Pres": "president",
    "Jr": "junior",
    "Sr": "senior",
    "Mt": "mount",
    "Ft": "fort",
    "Ave": "avenue",
    "Blvd": "boulevard",
    "Rd": "road",
    "Inc": "incorporated",
    "Ltd": "limited",
    "Corp": "corporation",
    "Co": "company",
    "Dept": "department",
    "approx": "approximately",
    "est": "established",
    "vs": "versus",
    "etc": "et cetera",
    "Fig": "figure",
    "Eq": "equation",
    "Sec": "section",
    "Vol": "volume",
    "min": "minutes",
    "max": "maximum",
}
"""What is said for an abbreviation before a full stop."""
_UNITS: Final = {
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "mph": ("mile per hour", "miles per hour"),
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "ms": ("millisecond", "milliseconds"),
    "s": ("second", "seconds"),
    "h": ("hour", "hours"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"),
    "KB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
}
_SYMBOLS: Final = {
    "%": " percent",
    "&": " and ",
    "+": " plus ",
    "=": " equals ",
    "@": " at ",
    "#": " number ",
    "×": " times ",
    "÷": " divided by ",
    "±": " plus or minus ",
    "≈": " about ",
    "≤": " at most ",
    "≥": " at least ",
    "<": " less than ",
    ">": " greater than ",
    "→": " to ",
    "_": " ",
    "*": " ",
    "/": " slash ",
    "\\": " backslash ",
    "~": " about ",
    "^": " to the power ",
    "|": " ",
}
_DENOMINATORS: Final = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_UNIT_NAMES: Final = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_MONTH_PATTERN: Final = "|".join(sorted(_MONTH_NAMES, key=len, reverse=True))
_TITLE_PATTERN: Final = "|".join(sorted(_TITLES, key=len, reverse=True))

Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def normalized(text: str, *, british: bool = False) -> str:
    """A text as words and punctuation only."""
    text = text.translate(_LETTERS)
    text = _SLASHED.sub(_british_date if british else _american_date, text)
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    for symbol, said in _SYMBOLS.items():
        text = text.replace(symbol, said)
    return " ".join(text.split())


_LETTERS: Final = str.maketrans(
    {"‘": "'", "’": "'", "ʼ": "'", "–": "-", "−": "-", "\u00a0": " ", "\u2009": " ", "½": " 1/2"}
    | {"¼": " 1/4", "¾": " 3/4", "⁄": "/", "…": "...", "«": '"', "»": '"', "[": "(", "]": ")"}
    | {"{": "(", "}": ")"}
)
"""Letters and marks that mean the same as others."""


def _money(match: re.Match[str]) -> str:
    sign, number, scale = match.groups()
    one, many, cent, cents = _CURRENCIES[sign]
    if scale:
        return f"{decimal(number)} {_SCALES.get(scale, scale)} {many}"
    whole, _, fraction = number.replace(",", "").partition(".")
    if len(fraction) not in (0, 2) or not cent:
        return f"{decimal(number)} {many}"
    units, parts = int(whole), int(fraction or 0)
    said = []
    if units or not parts:
        said.append(f"{cardinal(units)} {one if units == 1 else many}")
    if parts:
        said.append(f"{cardinal(parts)} {cent if parts == 1 else cents}")
    return " and ".join(said)


def _time(match: re.Match[str]) -> str:
    hour, minute, half = match.groups()
    said = cardinal(int(hour))
    if int(minute):
        said += f" {'oh ' if int(minute) < 10 else ''}{cardinal(int(minute))}"
    elif not half:
        said += " o'clock" if 1 <= int(hour) <= 12 else " hundred hours"
    return f"{said} {_half_of_day(half)}".rstrip()


def _hour(match: re.Match[str]) -> str:
    return f"{cardinal(int(match[1]))} {_half_of_day(match[2])}"


def _half_of_day(half: str | None) -> str:
    return " ".join(half.replace(".", "").upper()) if half else ""


def _full_date(match: re.Match[str]) -> str:
    written_year, month, day = (int(part) for part in match.groups())
    return _date(month, day, written_year, match[0])


def _american_date(match: re.Match[str]) -> str:
    month, day, written_year = (int(part) for part in match.groups())
    return _date(month, day, written_year, match[0])


def _british_date(match: re.Match[str]) -> str:
    day, month, written_year = (int(part) for part in match.groups())
    return _date(month, day, written_year, match[0])


def _date(month: int, day: int, written_year: int, text: str) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return text
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(written_year)}"


def _month_and_day(match: re.Match[str]) -> str:
    month, day, written_year = match.groups()
    said = f"{_MONTH_NAMES[month]} {ordinal(int(day))}"
    return f"{said}, {year(int(written_year))}" if written_year else said


def _day_and_month(match: re.Match[str]) -> str:
    day, month, written_year = match.groups()
    said = f"the {ordinal(int(day))} of {_MONTH_NAMES[month]}"
    return f"{said}, {year(int(written_year))}" if written_year else said


def _fraction(match: re.Match[str]) -> str:
    whole, above, below = (match[1], int(match[2]), int(match[3]))
    if below < 2 or below > 100 or above >= below:
        return f"{match[1] or ''}{cardinal(above)} over {cardinal(below)}"
    one, many = _DENOMINATORS.get(below, (ordinal(below), f"{ordinal(below)}s"))
    if whole:
        said = "a" if above == 1 else cardinal(above)
        return f"{cardinal(int(whole))} and {said} {one if above == 1 else many}"
    return f"{cardinal(above)} {one if above == 1 else many}"


def _decade(match: re.Match[str]) -> str:
    words = year(int(match[1])) if len(match[1]) == 4 else cardinal(int(match[1]))
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def _quantity(match: re.Match[str]) -> str:
    one, many = _UNITS[match[2]]
    return f"{decimal(match[1])} {one if match[1] == '1' else many}"


def _plain_number(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) > 1 and text[0] == "0" and "." not in text:
        return digits(text)
    if len(text) == 4 and text.isdecimal():
        return year(int(text))
    if len(text) > 15 and text.isdecimal():
        return digits(text)
    return decimal(text)


def _power(match: re.Match[str]) -> str:
    power = unicodedata.normalize("NFKC", match[1])
    return {"2": " squared", "3": " cubed"}.get(power, f" to the power {power}")


def _initials(match: re.Match[str]) -> str:
    return match[0].replace(".", " ").rstrip()


def _saint_or_street(match: re.Match[str]) -> str:
    return "Saint " if match[1] else "street"


_SLASHED: Final = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
_RULES: Final[list[Rule]] = [
    (re.compile(r"\be\.g\.", re.IGNORECASE), lambda match: "for example"),
    (re.compile(r"\bi\.e\.", re.IGNORECASE), lambda match: "that is"),
    (
        re.compile(r"\b([A-Z]{1,4})&([A-Z]{1,4})\b"),
        lambda match: f"{' '.join(match[1])} and {' '.join(match[2])}",
    ),
    (re.compile(r"https?://(?:www\.)?"), lambda match: ""),
    (re.compile(r"(?<=[A-Za-z])\.(?=(?:com|org|net|io|ai|dev|gov|edu)\b)"), lambda match: " dot "),
    (re.compile(r"\bNo\.\s?(?=\d)"), lambda match: "number "),
    (re.compile(r"\bSt\.\s(?=([A-Z])?)"), lambda match: _saint_or_street(match) + " "),
    (
        re.compile(
            rf"([$£€¥])\s?({_NUMBER})(?:\s?(hundred|thousand|million|billion|trillion|bn|[kKMB])\b)?"
        ),
        _money,
    ),
    (
        re.compile(rf"(?<![\d.,])({_NUMBER})\s?(¢|₹)|₹\s?({_NUMBER})"),
        lambda match: f"{decimal(match[1] or match[3])} {'cents' if match[2] == '¢' else 'rupees'}",
    ),
    (re.compile(r"(?<=[\w)])([⁰¹²³⁴-⁹]+)"), _power),
    (re.compile(r"(?<=\d)\s\*\s(?=\d)"), lambda match: " times "),
    (re.compile(r"(?<![\w.])\.(?=\d)"), lambda match: "0."),
    (re.compile(r"(?m)^#+\s+"), lambda match: ""),
    (re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b"), _full_date),
    (
        re.compile(rf"\b({_MONTH_PATTERN})\.?\s(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(\d{{4}})\b)?"),
        _month_and_day,
    ),
    (
        re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s({_MONTH_PATTERN})\b\.?(?:,?\s(\d{{4}})\b)?"),
        _day_and_month,
    ),
    (re.compile(r"\b(\d{1,2}):(\d{2})(?:\s?([ap]\.?m\b\.?)|\b)", re.IGNORECASE), _time),
    (re.compile(r"\b(\d{1,2})\s?([ap]\.?m\b\.?)", re.IGNORECASE), _hour),
    (re.compile(r"\b(\d+)(?:st|nd|rd|th)\b"), lambda match: ordinal(int(match[1][:15]))),
    (re.compile(r"'?\b(\d{4}|\d0)'?s\b"), _decade),
    (re.compile(rf"\b({_TITLE_PATTERN})\."), lambda match: _TITLES[match[1]]),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}"), _initials),
    (re.compile(rf"(?<!\w)(?:({_NUMBER})\s)?(\d{{1,3}})/(\d{{1,3}})\b(?!/)"), _fraction),
    (re.compile(r"(?<=\d)\s?-\s?(?=\d)"), lambda match: " to "),
    (re.compile(r"(?<![\w.])-(?=\d)"), lambda match: "minus "),
    (re.compile(rf"(?<![\w.,])({_NUMBER})\s?({_UNIT_NAMES})(?![\w°])"), _quantity),
    (re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])"), lambda match: " "),
    (
        re.compile(r"\b\d+(?:\.\d+){2,}\b"),
        lambda match: " point ".join(map(digits, match[0].split("."))),
    ),
    (re.compile(_NUMBER), _plain_number),
]
