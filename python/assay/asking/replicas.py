"""How many replicas, GPUs or nodes serve a rate of requests or of tokens."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from assay.asking.amounts import amount
from assay.asking.case import GPUS_OF_A_NODE
from assay.asking.cases import (
    ANSWER,
    SHORT,
    accelerator_of,
    gpus_of,
    model_of,
    serving_case,
    unsaid_limits,
    unsaid_workload,
)
from assay.asking.layouts import within_a_node
from assay.asking.outcome import Outcome
from assay.asking.periods import HOURS_OF_A_DAY, SECONDS_OF
from assay.asking.predictions import Plan, Servers
from assay.asking.reading import Reading
from assay.asking.splitting import FEWEST, ONE_INSTANCE
from assay.asking.text import MASKS
from assay.errors import AssayError, EvaluationError, InfeasibleError, InputError
from assay.plurals import count

if TYPE_CHECKING:
    from assay.planner.capacity.option import Option

_HOW_MANY: Final = re.compile(r"(?:how many|number of) " + MASKS["accelerator"])
_OF_EACH: Final = re.compile(
    r"\beach\b|\bper (?:user|customer|client|person)\b|\bevery (?:user|customer)"
)
_RANDOM: Final = "random (Poisson) arrivals; at most 10 % risk that the limits are missed"
TENSORS: Final = (1, 2, 4, 8)
_TTFT: Final = 1.0
_TPOT: Final = 0.05
"""Limits in seconds that `unsaid_limits` says."""
_PROMPT: Final = 1024
_OUTPUT: Final = 128
"""Tokens of a request that `SHORT` says."""
OF_TRAFFIC: Final = (
    "rate", "prompt", "output", "context", "ttft_limit", "tpot_limit", "percentile", "prefix_hits",
)  # fmt: skip


def _fewest(reading: Reading) -> tuple[Plan, Option, tuple[str, ...]]:
    """The plan of the fewest GPUs for a rate, and what it was made of.

    Narrow replicas first: where wider ones take no fewer GPUs together, still wider ones do not either.
    """
    empty = reading.with_values(dict.fromkeys(OF_TRAFFIC))
    case = serving_case(empty, lone=True)
    given = reading.get("tensor") or gpus_of(reading)
    if given is not None and given > GPUS_OF_A_NODE:
        raise InputError(
            f"replicas of {given:,} GPUs: plans have up to {GPUS_OF_A_NODE} of a replica in a node",
            "leave the GPUs out",
        )
    best: tuple[Plan, Option] | None = None
    refusal: AssayError = InputError("no replica serves a request in time")
    for tensor in [int(given)] if given else TENSORS:
        if given is None and tensor < case.layout[0]:
            continue
        command = _command(reading, tensor)
        if best is not None and tensor >= best[1].gpus:
            break
        try:
            option = command.option()
        except (InfeasibleError, EvaluationError) as error:
            refusal = error
            continue
        if best is not None and option.gpus >= best[1].gpus:
            break
        best = command, option
    if best is None:
        raise refusal
    said = tuple(line for line in case.assumed if FEWEST not in line and ONE_INSTANCE not in line)
    return *best, said


def _command(reading: Reading, tensor: int) -> Plan:
    """The plan of replicas of so many GPUs, with what the question says."""
    return Plan(servers_of(reading, tensor), float(reading.get("rate")))


def servers_of(reading: Reading, tensor: int) -> Servers:
    """Replicas of so many GPUs, and the requests and limits of the question."""
    prompt, output = _lengths(reading)
    share = int(str(reading.get("percentile", "p99"))[1:]) / 100
    limits = (
        float(reading.get("ttft_limit", _TTFT)),
        float(reading.get("tpot_limit", _TPOT)),
        share,
    )
    names = (("format", "dtype"), ("kv_format", "kv_dtype"), ("engine", "engine"))
    options = tuple((name, str(reading.get(slot))) for slot, name in names if slot in reading.slots)
    return Servers(
        model_of(reading), accelerator_of(reading), prompt, output, limits, tensor, options,
        float(reading.get("prefix_hits", 0.0)),
    )  # fmt: skip


def _lengths(reading: Reading) -> tuple[int, int]:
    """Tokens of a request, in and out."""
    output = reading.get("output")
    if (context := reading.get("context")) is not None:
        if "prompt" in reading.slots:
            raise InputError("a prompt and a context, which holds the prompt", "say one of them")
        output = int(output or ANSWER)
        return max(1, int(context) - output), output
    return int(reading.get("prompt", _PROMPT)), int(output or _OUTPUT)


def unsaid_plan(reading: Reading) -> tuple[str, ...]:
    """What the plan takes by itself."""
    said = list(unsaid_limits(reading))
    if not reading.slots & {"prompt", "output", "context"}:
        said.append(SHORT)
    elif "context" in reading.slots and "output" not in reading.slots:
        said.append(f"{ANSWER} tokens out")
    elif "prompt" not in reading.slots and "context" not in reading.slots:
        said.append(f"{_PROMPT:,} tokens in")
    elif "output" not in reading.slots:
        said.append(f"{_OUTPUT} tokens out")
    if "percentile" not in reading.slots:
        said.append("99 % of requests within the limits")
    return (*said, _RANDOM)


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
    command, option, said = _fewest(reading)
    instances, each, gpus = option.replicas, option.replica_gpus, option.gpus
    nodes = math.ceil(gpus / GPUS_OF_A_NODE)
    likely = math.ceil(instances / (1 + option.headroom))
    unit, value = "replica", instances
    if "node" in reading.rest:
        unit, value = "node", nodes
    elif "gpu" in reading.rest or "card" in reading.rest or _HOW_MANY.search(reading.rest):
        unit, value = "GPU", gpus
    text = (
        f"{count(instances, 'replica')} of {count(each, 'GPU')}: {count(gpus, 'GPU')}, "
        f"{count(nodes, 'node')} of {GPUS_OF_A_NODE}; {100 * option.risk:.2g} % risk that the limits are "
        f"missed ({count(each * likely, 'GPU')} at the likely step times)"
    )
    result = command.result_of(option)
    return Outcome(
        text, result, assumed=(*unsaid_plan(reading), *said), value=value, unit=unit
    ), gpus


def rate_cost(reading: Reading) -> Outcome:
    """What the GPUs that serve a rate of requests cost, by the hour or for some time."""
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    money = ("place", "site", "provider", "offer", "finance", "electricity_price", "rent", "gpu_price",
             "pue", "load", "days", "per_time")  # fmt: skip
    outcome, gpus = _replicas(reading.with_values(dict.fromkeys(money)))
    paid = reading.with_values({"rate": None, "ttft_limit": None, "tpot_limit": None, "days": None,
                                "per_time": None, "load": 1.0})  # fmt: skip
    case = serving_case(paid, lone=True)
    result = case.resolve("econ.serving.rate", intervals=False).run()
    each = (result.value or math.nan) / HOURS_OF_A_DAY / math.prod(case.layout)
    days = reading.get("days", reading.get("per_time", 1 / 24))
    period = "hour" if days == 1 / 24 else f"{days:g} days"
    whole = gpus * HOURS_OF_A_DAY * days * each
    text = f"{amount(whole, 'USD')} per {period}: {outcome.text}; ${each:,.4g} per GPU-hour"
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
    speed = float(reading.get("token_rate")) / SECONDS_OF["day"]
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
