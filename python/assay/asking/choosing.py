"""What a question asks to choose: among which kind of thing, the best or the worst of them."""

from __future__ import annotations

import re
from typing import Final

from assay.asking.intents.intent import Intent
from assay.asking.reading import Reading

_KINDS: Final = (
    ("model", r"models?|llms?"),
    ("accelerator", r"gpus?|cards?|accelerators?|chips?|hardware"),
    ("engine", r"engines?|frameworks?|backends?"),
    ("place", r"countr(?:y|ies)|places?|regions?|states?|grids?|locations?|cit(?:y|ies)"),
    ("provider", r"providers?|clouds?|vendors?"),
    ("format", r"formats?|precisions?|dtypes?|quantizations?"),
    ("concurrency", r"batch(?:es| sizes?)?|concurrency"),
    ("tensor", r"layouts?|parallelisms?"),
)
"""Slots whose entries a question may ask to choose among, and the words for them."""
_VERB: Final = r"(?:is|are|has|have|can|do|does|should|would|will|gives?|runs?|fits?|holds?|needs?|offers?|to|for)"
_CHOSEN: Final = {
    slot: re.compile(
        rf"\bwhich\s+(?:\w+\s+)?(?P<kind>{words})\b|\bwhat\s+(?P<other>{words})\s+{_VERB}\b"
        rf"|\b(?:best|cheapest|fastest|slowest)\s+(?P<best>{words})\b"
    )
    for slot, words in _KINDS
}
_ACCELERATOR: Final = re.compile(
    r"(?:what|which) (?:\w+ )?(?:gpu|card|accelerator)s?\b"
    r"|(?:fastest|cheapest|best|most (?:affordable|economical|cost[ -]?effective|efficient)|best value"
    r"|lowest[ -]cost) (?:(?:gpu|card|accelerator|chip)s?|way|option|hardware|config(?:uration)?|setup)\b"
)
_BEST_OF: Final = (
    "cost", "throughput", "ttft", "tpot", "latency", "efficiency", "energy", "capacity",
)  # fmt: skip
"""Intents that look for the best of the usual accelerators."""
_CHOOSING: Final = (
    ("provider", "rent"),
    ("provider", "offers"),
    ("accelerator", "which-fits"),
    ("accelerator", "hardware-best"),
    ("accelerator", "hardware-list"),
    ("concurrency", "users"),
)
"""Kinds that intents choose among by themselves."""
_SUPERLATIVE: Final = re.compile(
    r"\b(?:cheapest|fastest|slowest|dearest|lowest|highest|quickest|(?:most|least) (?:expensive|affordable"
    r"|economical|efficient|cost[ -]?effective))\b"
)
_COMPARATIVE: Final = re.compile(
    r"\b(?:fast|slow|cheap|quick|dear|bigg|larg|small|clean|green)er\b|\bbetter\b|\bworse\b"
)
_WITH_EXTREMES: Final = (
    "rent",
    "capacity",
    "throughput",
    "board-power",
    "users",
    "fewest",
    "longest-context",
    "hardware-best",
    "hardware-list",
    "offers",
)
"""Intents that are about the least or the most of something by themselves."""
_PRAISE: Final = re.compile(
    r"\b(?:more|most|better|best|higher|highest)[ -]+(?:(?:cost|energy|power|carbon|water|memory)[ -]?)?"
    r"(?:effective|efficien(?:t|cy)|economical|affordable"
    r"|value|tokens? per (?:dollar|watt|joule))"
)
_WORSE_IF_LESS: Final = re.compile(
    r"\b(?:slow(?:er|est)?|lower|lowest|less|least|fewer|fewest|small(?:er|est)|worse|worst)\b"
)
_WORSE_IF_MORE: Final = re.compile(
    r"\b(?:(?:more|most) expensive|dear(?:er|est)|pric(?:ier|iest)|costlier|(?:more|most)|higher|highest|longer|longest"
    r"|slow(?:er|est)|dirt(?:ier|iest)|worse|worst|larger|largest|bigger|biggest|less efficient|least efficient)\b"
)


def asks_for_best(reading: Reading, intent: Intent | None) -> bool:
    """Whether a question asks which accelerator is best, and names none."""
    return (
        intent is not None
        and intent.name in _BEST_OF
        and intent.workload == "serving"
        and "accelerator" not in reading.slots
        and _ACCELERATOR.search(reading.rest) is not None
        and not wants_worst(reading, intent.more_is_better)
    )


def chosen_kinds(reading: Reading, intent: Intent | None) -> list[str]:
    """Kinds that a question asks to choose among without naming at least two."""
    left = []
    for slot, expression in _CHOSEN.items():
        match = expression.search(reading.rest)
        if match is None or len(reading.values(slot)) > 1:
            continue
        if slot == "accelerator" and asks_for_best(reading, intent):
            continue
        if intent is not None and (slot, intent.name) in _CHOOSING:
            continue
        left.append(next(text for text in match.groups() if text))
    return left


def comparatives(reading: Reading) -> list[str]:
    """Words that compare, where there is nothing to compare with."""
    return [match[0] for match in _COMPARATIVE.finditer(reading.rest)]


def superlatives(reading: Reading, intent: Intent | None) -> list[str]:
    """Words that ask for the best of something, where nothing is compared."""
    if (intent is not None and intent.name in _WITH_EXTREMES) or asks_for_best(reading, intent):
        return []
    # The highest throughput is that of a saturated server.
    own = "highest" if intent is not None and intent.name == "throughput" else ""
    return [match[0] for match in _SUPERLATIVE.finditer(reading.rest) if match[0] != own]


def wants_worst(reading: Reading, more_is_better: bool) -> bool:
    """Whether a comparison asks for the worse one: the slower, the dearer, the dirtier."""
    text = _PRAISE.sub("", reading.rest)
    if more_is_better:
        return _WORSE_IF_LESS.search(text) is not None
    return _WORSE_IF_MORE.search(text) is not None
