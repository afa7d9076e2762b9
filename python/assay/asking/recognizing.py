"""Which intent a question has: by its words, or by what it names where no word says it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from assay.asking.cases import with_node_as_gpus
from assay.asking.comparing import alternatives, driver
from assay.asking.intents.intent import Intent
from assay.asking.intents.table import INTENTS, applies, by_name
from assay.asking.reading import Reading

_TRAINS: Final = re.compile(
    r"\b(?:pre[ -]?)?train(?:s|ed|ing|able)?\b|\bfine[ -]?tun|\bepochs?\b|\bmfu\b|\boptimizer\b|gradient"
)
_SERVES: Final = re.compile(
    r"\bserv(?:e|es|ed|ing)\b|inference|\b(?:output|input|cached|generated) tokens?\b|\bdecod|\bgenerat|\bproduc"
)
_FEWEST_TRAINED: Final = 1e11
"""Tokens from which a question that says no more means a training run."""
_CHANGES: Final = re.compile(
    r"what if|(?:what )?happens?|effect|impact|change[sd]?\b"
    r"|\bif\b.*\b(?:goes?|rises?|falls?|drops?|becomes?|were|increases?)\b"
)
_BY_TIME: Final = re.compile(
    r"\b(?:cost|price|charge|pay)s?\b.*\b(?:hour|hourly)\b|\bhourly (?:cost|price)"
)
"""A price by the hour is that of what is rented."""
_OF_GPUS: Final = re.compile(r"\b(?:memory|vram|hbm|[tp]?flops?|bandwidth)\b")
"""What a node has as much of as its GPUs together."""
_ASKS: Final = re.compile(r"\b(?:how|what|which|when|where|why|who|whose)\b")
_DRIVEN: Final = ("electricity", "pue", "rent", "gpu-price", "gpu-hour", "power", "energy")
"""Intents whose words may be those of what changes."""


def workload_of(reading: Reading) -> str:
    """Training where a word says so; of tokens alone, where they are as many as of a run."""
    if _TRAINS.search(reading.rest) or "tuning" in reading.slots:
        return "training"
    trained = reading.get("tokens", 0) >= _FEWEST_TRAINED and not _SERVES.search(reading.rest)
    return "training" if trained else "serving"


def recognized(reading: Reading, workload: str = "") -> tuple[Reading, Intent | None, str]:
    """The intent of a question and its workload; the reading says what no word of it asks for.

    A part of a question has the workload of the whole, which is given.
    """
    rented = bool(reading.slots & {"rent", "offer", "provider", "finance"})
    rented = rented or _BY_TIME.search(reading.rest) is not None
    if rented and "node" in reading.slots and reading.values("finance") != ["buy"]:
        # Clouds rent out nodes by their GPUs.
        reading = with_node_as_gpus(reading)
    if "node" in reading.slots and _OF_GPUS.search(reading.rest):
        reading = with_node_as_gpus(reading)
    workload = workload or workload_of(reading)
    intent = _by_words(reading, workload)
    if intent is not None:
        return reading, intent, workload
    unsaid = _by_slots(reading, workload)
    if unsaid is None:
        return reading, None, workload
    name, asked = unsaid
    said = (*reading.said, f"the question is {asked}")
    return replace(reading, said=said), by_name(name, workload), workload


def _by_slots(reading: Reading, workload: str) -> tuple[str, str] | None:
    """The name of the intent that names and numbers alone stand for, and its question."""
    slots = reading.slots
    if workload == "training":
        if "tokens" in slots:
            paid = slots & {"rent", "provider", "offer", "electricity_price"}
            if paid:
                return "train-cost", "what it costs"
            return ("duration", "how long it takes") if slots & {"gpus", "nodes"} else None
        return ("train-fit", "whether it fits") if slots >= {"model", "accelerator"} else None
    if "model" not in slots:
        return None
    if "rate" in slots:
        return "load", "what the latency is"
    if slots & {"rent", "provider", "electricity_price"}:
        return "cost", "what it costs"
    if slots & {"tpot_limit", "ttft_limit", "speed"} and slots >= {"concurrency", "accelerator"}:
        return "users", "whether it serves them"
    if _ASKS.search(reading.rest):
        # Something else is asked for, in words that are not understood.
        return None
    return ("fit", "whether it fits") if slots & {"accelerator", "memory", "node"} else None


def _by_words(reading: Reading, workload: str) -> Intent | None:
    """The first intent that applies; what compares or changes without a word for it is about cost."""
    changes = is_change(reading)
    slots = reading.slots
    chosen = next(
        (
            intent
            for intent in INTENTS
            # A driver's words, such as the price of electricity, are what changes, not what is asked.
            if not (changes and intent.name in _DRIVEN)
            and not (intent.name == "rent" and reading.values("finance") == ["buy"])
            and applies(intent, reading, workload)
        ),
        None,
    )
    if chosen is None or chosen.name == "cost":
        rented = slots & {"offer", "provider", "finance"} and reading.values("finance") in (
            [],
            ["rent"],
        )
        others = {"model", "tokens", "concurrency", "load"}
        if (
            rented
            and "accelerator" in slots
            and not (changes or slots & others or alternatives(reading)[0])
        ):
            # A GPU alone with a way to rent it: its rent.
            return by_name("rent", workload)
    if chosen is not None and chosen.name == "cost" and "requests" in slots:
        return by_name("request-cost", workload)
    if chosen is not None:
        return chosen
    if changes or "finance" in reading.slots or "offer" in reading.slots:
        return by_name("train-cost" if workload == "training" else "cost", workload)
    if alternatives(reading)[0]:
        run = "duration" if "tokens" in slots else "training-throughput"
        return by_name(run if workload == "training" else "throughput", workload)
    if workload == "training" and reading.slots >= {"tokens", "days"}:
        return by_name("gpus", workload)
    return None


def is_change(reading: Reading) -> bool:
    """Whether a question asks what a change does."""
    if "factor" in reading.slots:
        return True
    return (
        driver(reading) is not None
        and _CHANGES.search(reading.rest) is not None
        and bool(reading.slots & {"load", "rent", "electricity_price", "gpu_price", "pue"})
    )
