"""Every question that is understood, in the order in which intents are tried."""

from __future__ import annotations

from typing import Final

from assay.asking.intents import energy, facts, gaps, latency, memory, money, training
from assay.asking.intents.intent import Intent

INTENTS: Final = (
    *gaps.INTENTS, *facts.INTENTS, *training.INTENTS, *memory.INTENTS, *latency.INTENTS,
    *energy.INTENTS, *money.INTENTS,
)  # fmt: skip
"""Those of fewer meanings come first: "tokens per watt" has the words of speed, too."""


def by_name(name: str, workload: str) -> Intent:
    """An intent by its name."""
    return next(
        intent for intent in INTENTS if intent.name == name and intent.workload in ("", workload)
    )
