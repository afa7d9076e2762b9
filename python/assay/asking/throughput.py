"""Answers about output tokens per second: of a deployment, of its replicas, or of each of its GPUs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount, rounded
from assay.asking.cases import gpus_of, serving_case
from assay.asking.outcome import Outcome
from assay.asking.periods import SECONDS_OF
from assay.asking.reading import Reading
from assay.asking.serving import SATURATED, figure
from assay.asking.spreading import MOST_OF_ONE, of_each, spread
from assay.errors import InputError
from assay.plurals import count

_IN_TIME: Final = re.compile(
    r"\btokens? (?:per|an?|each|every|in an?|/) ?(minute|hour|day|week|month|year)\b"
)
_BY_SECOND: Final = re.compile(r"/s\b|per sec|\btps\b|a second")
_MOST: Final = re.compile(r"\b(?:max(?:imum|imal)?|peak|highest|most|saturat(?:ed|ion))\b")


def throughput(reading: Reading) -> Outcome:
    """Output tokens per second, of the deployment or of each of its GPUs; or in a longer time."""
    saturated: tuple[str, ...] = ()
    if _MOST.search(reading.rest) and "concurrency" not in reading.slots:
        reading, saturated = reading.with_values({"concurrency": 256}), (SATURATED,)
    of_one = spread(reading, shares=not saturated)
    gpus = gpus_of(reading)
    several = gpus is not None and gpus > MOST_OF_ONE and "tensor" not in reading.slots
    if several and of_one.replicas == 1:
        raise InputError(f"{gpus:,} GPUs: no replica of 1, 2, 4, 8, 16 or 32 of them runs it")
    outcome = figure(of_one.reading, "serving.throughput")
    if gpus is None:
        gpus = math.prod(serving_case(of_one.reading).layout)
    whole = of_one.replicas * (outcome.result.value or math.nan)
    text, value = outcome.text, None
    if of_one.replicas > 1:
        machine = f"{of_one.replicas:,} replicas of {count(gpus // of_one.replicas, 'GPU')}"
        text = f"{rounded(whole)} token/s: {machine}, each with {outcome.result.text}"
        value = whole
    if "per_gpu" in reading.slots:
        value = whole / gpus
        text = f"{rounded(value)} token/s per GPU: {rounded(whole)} token/s of {count(gpus, 'GPU')}"
    said = tuple(line for line in of_one.said if line not in text)
    outcome = replace(outcome, assumed=(*saturated, *said, *of_each(of_one, outcome.assumed)))
    if (days := reading.get("days")) is not None:
        if _BY_SECOND.search(reading.rest):
            raise InputError(f"tokens per second, or in {days:g} days?", "say one of them")
        whole *= days * SECONDS_OF["day"]
        text = f"{float(f'{whole:.4g}'):,.0f} tokens in {days:g} days: {text.rpartition(': ')[2]}"
        return replace(outcome, text=text, value=whole, unit="token", scales=True)
    if (match := _IN_TIME.search(reading.rest)) is not None:
        whole *= SECONDS_OF[match[1]]
        text = f"{float(f'{whole:.4g}'):,.0f} tokens per {match[1]}: {text.rpartition(': ')[2]}"
        return replace(outcome, text=text, value=whole, unit="token", scales=True)
    if value is None:
        return replace(outcome, text=text)
    return replace(outcome, text=text, value=value, unit="token/s", scales=True)


def generation_time(reading: Reading) -> Outcome:
    """How long the GPUs take for so many output tokens."""
    tokens = float(reading.get("tokens"))
    outcome = throughput(reading.with_values({"tokens": None}))
    speed = outcome.number[0] or math.nan
    hours = tokens / speed / SECONDS_OF["hour"]
    text = f"{amount(hours, 'h')}: {tokens:,.0f} output tokens at {amount(speed, 'token/s')}"
    return replace(outcome, text=text, value=hours, unit="h", scales=False)
