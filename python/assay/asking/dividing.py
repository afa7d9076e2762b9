"""What a question wants a figure for each of: read as one figure by another, or named where it is not.

"FLOPs per dollar" without the dollar is another figure: whatever stands behind "per" is understood by
the intent that answers, or the question is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from assay.asking.figures import DIVISORS, FIGURES, PRICE, Figure
from assay.asking.intents.intent import Intent
from assay.asking.reading import Reading
from assay.asking.text import word_set
from assay.asking.units import asked_unit

SEPARATOR: Final = (
    r"(?:\bper\b|(?<=[\w$)])\s?/|\bfor (?:each|every|an?|one|the)\b|\b(?:by|to) the\b"
    r"|\b(?:an?|each|every|one)\b)\s*(?:(?:1|one|single|every)\s+)?"
)
"""Words between a figure and what it is for each of."""
_MONEY: Final = r"\bfor (?:the|its|their) (?:money|price|cost)\b"
BY: Final = "|".join(
    (*(rf"{SEPARATOR}(?:{figure.divisor})s?(?![\w/])" for figure in DIVISORS), _MONEY)
)
"""Words that divide by a figure of an accelerator, whichever it is."""
_BY: Final = tuple(
    (
        figure,
        re.compile(
            rf"{SEPARATOR}(?:{figure.divisor})s?(?![\w/])"
            + (rf"|{_MONEY}" if figure is PRICE else "")
        ),
    )
    for figure in DIVISORS
)
_ANY: Final = re.compile(BY)
_HOURLY: Final = re.compile(
    r"(?:\b(?:per|an?|each|every)|/)\s*(?:gpu[- ]?)?(?:hours?|hrs?|h)\b|\bhourly\b"
)
_AFTER: Final = re.compile(
    r"(?:\bper\b|(?<=[\w$)])\s?/|\bfor (?:each|every)\b)\s*(?:(?:1|one|single|every)\s+)?(?P<word>[a-z$][\w$]*)"
    r"|\b(?:by the|an?|each|every|one|for an?|for one)\s+"
    r"(?P<unit>dollars?|bucks?|usd|watts?|joules?|k?wh|gi?b|gigabytes?)\b"
    r"|(?<!\bof )(?<!\bin )(?<!\bfor )(?<!\bdoes )(?<!\bdo )(?<!\bis )(?<!\btakes )\b(?:an?|each|every)\s+"
    r"(?P<often>tokens?|requests?|hours?|seconds?)\b"
)
"""What a figure is for each of: any word behind "per", a unit behind an article."""
_TIME: Final = word_set("s sec second seconds minute minutes hour hours h hr day week month year")
_REQUEST: Final = word_set(
    "token tokens output input cached generated request query prompt answer response question message call chat "
    "conversation"
)
_UNDERSTOOD: Final[dict[str, frozenset[str]]] = {
    "capacity": _TIME, "load": _TIME, "serves-rate": _TIME, "replicas": _TIME, "rate-cost": _TIME,
    "throughput": _TIME, "training-throughput": _TIME, "generation-time": _TIME, "duration": _TIME,
    "speed-gpus": _TIME, "token-rate-gpus": _TIME, "in-time": _TIME, "users": _TIME,
    "bandwidth": _TIME, "link-bandwidth": _TIME, "peak": _TIME, "loading": _TIME, "failures": _TIME,
    "cost": _TIME | word_set("token tokens output input cached generated"),
    "cost-at-speed": _TIME | word_set("token tokens output input generated"),
    "affordable-tokens": _TIME, "budget-tokens": _TIME, "hours-bought": _TIME, "within-cost": _TIME,
    "train-cost": _TIME | word_set("token tokens training"),
    "request-cost": _REQUEST, "cached-tokens": _REQUEST,
    "rent": _TIME, "gpu-hour": _TIME, "gpu-hours": _TIME, "offers": _TIME, "hardware-list": _TIME,
    "which-fits": _TIME, "payback": _TIME, "break-even": _TIME, "buy-or-rent": _TIME,
    "efficiency": _TIME | word_set("watt joule kwh wh token tokens output w"),
    "energy": _REQUEST | word_set("k"), "emissions": _REQUEST, "water": _REQUEST,
    "electricity": word_set("kwh mwh"), "electricity-bill": _TIME | word_set("kwh mwh"),
    "carbon-intensity": word_set("kwh mwh"), "grid-emissions": word_set("kwh mwh"),
    "kv": word_set("token tokens request sequence user conversation"),
    "parameters": word_set("token"), "active-experts": word_set("token"),
    "tpot": _TIME | word_set("token tokens output user"), "ttft": word_set("request"),
    "latency": word_set("request query"), "ridge": word_set("byte"), "train-flops": word_set("token"),
    "shrink": _TIME | word_set("token tokens training"), "physical-change": _TIME | word_set("token tokens training"),
    "token-flops": word_set("token tokens"), "reached-mfu": _TIME | word_set("gpu"),
    "photons": word_set("square nm2 nm"), "swing": word_set("decade"), "access-energy": word_set("bit"),
    "heat-flux": word_set("cm2"), "density": word_set("mm2"),
    "wafer": word_set("wafer"), "droplets": word_set("token training gpu second"),
    "node-gpus": word_set("node server"), "node-price": word_set("node server"),
    "node-power": word_set("node server rack"), "layers": word_set("layer"),
}  # fmt: skip
"""What an intent's figure may be for each of: its answer says it, or is it by its nature."""
_ENERGY: Final = word_set("watt joule kwh wh w")
_TOKENS_OF: Final = re.compile(
    r"^(?!.*\b(?:users?|latency|ttft|energy|requests?)\b.*\bper (?:watt|joule|k?wh)\b)"
    r".*(?:\btok|\btps\b|throughput|perf|speed|fast|efficien)"
)
_DOLLAR: Final = word_set("dollar usd buck")
TOKENS_BY_DOLLAR: Final = re.compile(
    r"\btokens?\b[^,;]{0,16}?(?:\b(?:per|each|every|an?|one)\b|/)\s*(?:dollar|usd|buck)\b"
)
_DIVIDING: Final = ("hardware-best", "hardware-ratio", "hardware-price-by")


@dataclass(frozen=True)
class Division:
    """One figure of an accelerator by another; of a price whether it is that of an hour."""

    figure: Figure
    by: Figure
    hourly: bool


def division(rest: str) -> Division | None:
    """The division that a masked text asks for; None where it has none, or more than one."""
    match = next(
        ((figure, match) for figure, words in _BY if (match := words.search(rest)) is not None),
        None,
    )
    if match is None:
        return None
    by, place = match
    left = f"{rest[: place.start()]} ; {rest[place.end() :]}"
    hourly = _HOURLY.search(left) is not None
    left = _HOURLY.sub(" ; ", left)
    if _ANY.search(left):
        return None
    named = []
    for figure in FIGURES:
        if figure.words.search(left):
            named.append(figure)
            left = figure.words.sub(" ; ", left)
    if by is PRICE and len(named) > 1:
        # A dollar of its price, or a cheaper one by the dollar.
        named = [figure for figure in named if figure is not PRICE]
    if len(named) != 1 or named[0] is by:
        return None
    if hourly and PRICE not in (named[0], by):
        return None
    return Division(named[0], by, hourly)


def no_division(rest: str) -> bool:
    """Whether a text divides by a figure all the same."""
    return _ANY.search(rest) is not None


def not_divided(reading: Reading, intent: Intent | None) -> list[str]:
    """What a figure is wanted for each of, and the intent does not divide by."""
    rest = reading.rest
    if intent is not None and intent.name in _DIVIDING and division(rest) is not None:
        rest = _HOURLY.sub(" ", _ANY.sub(" ; ", rest))
        for figure in FIGURES:
            rest = figure.words.sub(" ", rest)
    known = frozenset[str]() if intent is None else _UNDERSTOOD.get(intent.name, frozenset())
    if intent is not None and intent.name == "efficiency" and not _TOKENS_OF.search(rest):
        # Of energy tokens are wanted: those of users or of a latency are another figure.
        known -= _ENERGY
    if intent is not None and intent.name == "cost" and TOKENS_BY_DOLLAR.search(rest):
        known |= _DOLLAR
    if unit := asked_unit(reading):
        known |= frozenset(unit.split("/"))
    left = []
    for match in _AFTER.finditer(rest):
        word = match["word"] or match["unit"] or match["often"]
        if word not in known:
            left.append(match[0].strip(" ") if match["word"] is None else f"per {word}")
    return left
