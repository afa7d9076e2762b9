"""Every question that is understood, in the order in which intents are tried."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from assay.asking.intents import (
    architecture,
    collectives,
    energy,
    facts,
    gaps,
    hardware,
    latency,
    memory,
    money,
    physics,
    silicon,
    training,
)
from assay.asking.intents.intent import Intent
from assay.asking.reading import Reading

INTENTS: Final = (
    *gaps.INTENTS, *collectives.INTENTS, *silicon.INTENTS, *physics.INTENTS, *architecture.INTENTS,
    *hardware.INTENTS, *facts.INTENTS, *training.INTENTS, *memory.INTENTS, *latency.INTENTS, *energy.INTENTS,
    *money.INTENTS,
)  # fmt: skip
"""Those of fewer meanings come first: "tokens per watt" has the words of speed, too."""


_CUES: Final = {intent.cue: re.compile(intent.cue) for intent in INTENTS}


def has_cue(asked: Intent, text: str) -> bool:
    """Whether a text has words that ask for an intent."""
    cue = asked.cue
    return _CUES[cue].search(text) is not None


@cache
def understood_words() -> frozenset[str]:
    """Words that some intent understands, and those of training."""
    own = frozenset(("train", "training", "latency", "throughput", "bandwidth"))
    return own.union(*(intent.words for intent in INTENTS))


def applies(asked: Intent, reading: Reading, workload: str) -> bool:
    """Whether a question asks for an intent."""
    if asked.workload not in ("", workload) or asked.lacks & reading.slots:
        return False
    for need in asked.needs:
        slot, _, value = need.partition("=")
        if not reading.slots & set(slot.split("|")) or (value and reading.values(slot) != [value]):
            return False
    return has_cue(asked, reading.rest)


def by_name(name: str, workload: str) -> Intent:
    """An intent by its name."""
    return next(
        intent for intent in INTENTS if intent.name == name and intent.workload in ("", workload)
    )
