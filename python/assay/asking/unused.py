"""What of a question an intent does not use: names, numbers and words, each a reason for refusal."""

from __future__ import annotations

import re
from typing import Final

from assay.asking.choosing import asks_for_best, chosen_kinds, comparatives, superlatives
from assay.asking.comparing import driver, is_driver
from assay.asking.dividing import not_divided
from assay.asking.intents.intent import Intent
from assay.asking.intents.table import has_cue
from assay.asking.reading import COMMON, EXPLAINING, FILLER, Reading
from assay.asking.text import MASKS, word_set, words
from assay.asking.units import asked_unit

_WORKLOAD_WORDS: Final = word_set(
    """train trains trained training pretrain pretrained pretraining pre serving inference finetune
    finetuning tune tuning fine run epoch scratch"""
)
_CHANGE_WORDS: Final = word_set(
    """what if happens happen effect impact change changes changed goes go rises falls drops
    becomes were electricity power energy price prices cost costs bill tariff rent rental
    utilization utilisation load hardware capex kwh pue"""
)
_COMPARING_WORDS: Final = word_set(
    """which better best faster cheaper cheapest fastest compare compared between choose pick
    prefer higher highest lower lowest more less change changes grow
    grows much ahead wins win winner dearer slower slowest country state region place
    or instead card one expensive worse speedup speed"""
)
_ELECTRICITY_WORDS: Final = word_set("electricity power energy price pay")
_NODE_WORDS: Final = word_set("node nodes server servers machine machines box boxes")
_MONEY_WORDS: Final = word_set("dollar dollars usd buck bucks")
"""What is no figure's but one of money."""
_VENDOR: Final = re.compile(
    r"\b(?:nvidia|amd|google|intel|aws|amazon)\s+(?=" + MASKS["accelerator"] + ")"
)
"""A vendor before the name of its accelerator says nothing more."""


def unused(reading: Reading, intent: Intent, slots: frozenset[str], changes: bool) -> list[str]:
    """Names, numbers and words of the question that the intent does not use."""
    used = intent.slots | slots | ({"factor"} if changes else set())
    if changes and (changed := driver(reading)) is not None:
        used |= {changed[0], "finance"}
    best = asks_for_best(reading, intent)
    if best:
        used |= {"finance"}
    left = [part.words for part in reading.mentions if part.slot not in used]
    # Two values where one is meant, and no comparison over them.
    for several in {part.slot for part in reading.mentions}:
        values = reading.values(several)
        if len(values) > 1 and several not in slots and intent.name != "equivalent":
            left += [part.words for part in reading.mentions if part.slot == several][1:]
    left += not_divided(reading, intent)
    left += chosen_kinds(reading, intent)
    if not slots:
        left += superlatives(reading, intent)
    if not (slots or changes or best):
        left += comparatives(reading)
    known = _known(reading, intent, bool(slots) or best, changes)
    left += [
        word
        for word in words(_VENDOR.sub("", reading.rest))
        if word not in known and not has_cue(intent, word) and not (changes and is_driver(word))
    ]
    return list(dict.fromkeys(left))


def _is_of_money(intent: Intent) -> bool:
    """Whether dollars say nothing beyond what an intent is about."""
    paid = {
        "budget",
        "rent",
        "gpu_price",
        "electricity_price",
        "rent_limit",
        "cost_limit",
        "finance",
    }
    return bool(paid & intent.slots) or any(has_cue(intent, word) for word in _MONEY_WORDS)


def _known(reading: Reading, intent: Intent, compares: bool, changes: bool) -> frozenset[str]:
    """Words that say nothing beyond what was read, or that the intent understands."""
    known = FILLER | COMMON | intent.words | _WORKLOAD_WORDS
    if compares:
        known |= _COMPARING_WORDS
    if intent.workload == "serving":
        known |= EXPLAINING
    if not _is_of_money(intent):
        known -= _MONEY_WORDS
    if "electricity_price" in reading.slots:
        known |= _ELECTRICITY_WORDS
    if "nodes" in reading.slots:
        known |= _NODE_WORDS
    if unit := asked_unit(reading):
        known |= {unit, f"{unit}s", *unit.split("/")}
    if "gpus" in reading.slots:
        # A node of so many GPUs.
        known |= {"node", "server", "machine", "box"}
    if "format" in reading.slots:
        known |= {"weights"}
    return known | _CHANGE_WORDS if changes else known
