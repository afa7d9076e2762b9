"""How many replicas, GPUs or nodes serve a rate of requests or of tokens."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount
from assay.asking.cases import (
    CONCURRENCIES,
    SHORT,
    Case,
    gpus_of,
    serving_case,
    unsaid_limits,
    unsaid_workload,
)
from assay.asking.commands import Minimize, Result
from assay.asking.layouts import within_a_node
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.asking.text import MASKS
from assay.errors import AssayError, InputError
from assay.plurals import count

_HOW_MANY: Final = re.compile(r"(?:how many|number of) " + MASKS["accelerator"])
_SECONDS_OF_A_DAY: Final = 86400.0
_OF_EACH: Final = re.compile(
    r"\beach\b|\bper (?:user|customer|client|person)\b|\bevery (?:user|customer)"
)
_EVEN: Final = "requests arrive evenly: for random arrivals and percentiles, assay plan --rate"


def most_within_limits(reading: Reading, case: Case) -> Result:
    """The goodput of an instance at the best number of requests within its service level."""
    if not reading.slots & {"prompt", "output", "context"}:
        case = case.given(serving__prompt="1024 token", serving__output="128 token")
    command = Minimize(
        "serving.goodput", (f"serving.concurrency={CONCURRENCIES} request",), case.preset,
        case.includes, case.assign, case.variant, case.offer, maximize=True,
    )  # fmt: skip
    return command.run()


def _fewest_replicas(reading: Reading) -> tuple[Case, Result, int]:
    """Replicas for a rate, in the layout in which they take the fewest GPUs together.

    The fewest GPUs that hold a model leave its KV cache little room; wider replicas may do more than
    as many narrow ones.
    """
    rate = float(reading.get("rate"))
    choices: list[tuple[int, Case, Result, int]] = []
    refusals: list[AssayError] = []
    for case in within_a_node(serving_case(reading), reading):
        try:
            result = most_within_limits(reading, case)
        except AssayError as error:
            refusals.append(error)
            continue
        if result.value:
            instances = math.ceil(rate / result.value)
            choices.append((instances * math.prod(case.layout), case, result, instances))
    if not choices:
        raise refusals[0] if refusals else InputError("no replica serves a request in time")
    return min(choices, key=lambda choice: choice[0])[1:]


def replicas(reading: Reading) -> Outcome:
    """Replicas, GPUs or nodes for a rate of requests within a service level."""
    return _replicas(reading)[0]


def _replicas(reading: Reading) -> tuple[Outcome, int]:
    """The answer, and the GPUs that it takes."""
    if (users := reading.get("concurrency")) is not None:
        if not _OF_EACH.search(reading.rest):
            raise InputError(
                f"{users:,} users and a rate of requests", 'say whose: "2 requests per minute each"'
            )
        rate = float(reading.get("rate")) * users
        reading = reading.with_values({"concurrency": None, "rate": rate})
    limits = list(unsaid_limits(reading))
    case, result, instances = _fewest_replicas(reading)
    if not reading.slots & {"prompt", "output", "context"}:
        limits.append(SHORT)
    tensor, pipeline = case.layout
    gpus = instances * tensor * pipeline
    nodes = math.ceil(gpus / 8)
    unit, value = "replica", instances
    if "node" in reading.rest:
        unit, value = "node", nodes
    elif "gpu" in reading.rest or "card" in reading.rest or _HOW_MANY.search(reading.rest):
        unit, value = "GPU", gpus
    text = (
        f"{count(instances, 'replica')} of {count(tensor * pipeline, 'GPU')}: {count(gpus, 'GPU')}, "
        f"{count(nodes, 'node')} of 8; each does {result.text} within the limits"
    )
    assumed = (*limits, *case.assumed, _EVEN)
    return Outcome(text, result, assumed=assumed, value=value, unit=unit), gpus


def rate_cost(reading: Reading) -> Outcome:
    """What the GPUs that serve a rate of requests cost, by the hour or for some time."""
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    money = ("place", "site", "provider", "offer", "finance", "electricity_price", "rent", "gpu_price",
             "pue", "load", "days", "per_time")  # fmt: skip
    outcome, gpus = _replicas(reading.with_values(dict.fromkeys(money)))
    paid = reading.with_values({"rate": None, "ttft_limit": None, "tpot_limit": None, "days": None,
                                "per_time": None, "load": 1.0})  # fmt: skip
    result = serving_case(paid).resolve("econ.gpu.rate", intervals=False).run()
    days = reading.get("days", reading.get("per_time", 1 / 24))
    period = "hour" if days == 1 / 24 else f"{days:g} days"
    whole = gpus * 24 * days * (result.value or math.nan)
    text = f"{amount(whole, 'USD')} per {period}: {outcome.text}; {result.text}"
    owned = () if reading.slots & {"finance", "rent", "provider", "offer"} else ("owned GPUs",)
    commands = (outcome.result.command, result.command)
    return Outcome(text, result, commands, (*owned, *outcome.assumed), value=whole, unit="USD")


def serves_rate(reading: Reading) -> Outcome:
    """Whether the GPUs of the question serve a rate of requests within a service level."""
    given = gpus_of(reading) or 1
    outcome, needed = _replicas(reading.with_values({"gpus": None, "nodes": None}))
    verdict = "yes" if needed <= given else "no"
    text = f"{verdict}: it takes {outcome.text}; {count(given, 'GPU')} given"
    return replace(outcome, text=text, value=None, verdict=verdict)


def token_rate_gpus(reading: Reading) -> Outcome:
    """GPUs for a number of output tokens by the day."""
    speed = float(reading.get("token_rate")) / _SECONDS_OF_A_DAY
    outcome = speed_gpus(reading.with_values({"token_rate": None, "speed": speed}))
    return replace(outcome, text=f"{outcome.text}; {amount(speed, 'token/s')} asked for")


def speed_gpus(reading: Reading) -> Outcome:
    """GPUs for a number of output tokens per second."""
    choices = []
    for case in within_a_node(serving_case(reading), reading):
        result = case.resolve("serving.throughput").run()
        instances = math.ceil(float(reading.get("speed")) / (result.value or math.nan))
        choices.append((instances * math.prod(case.layout), case, result, instances))
    gpus, case, result, instances = min(choices, key=lambda choice: choice[0])
    text = f"{count(gpus, 'GPU')}: {count(instances, 'replica')}, each with {result.text}"
    return Outcome(
        text, result, assumed=(*unsaid_workload(reading), *case.assumed), value=gpus, unit="GPU"
    )
