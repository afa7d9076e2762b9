"""Answers about the cost of tokens, of requests and of deployments."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount
from assay.asking.case import Case
from assay.asking.cases import (
    CONCURRENCIES,
    accelerator_of,
    gpus_of,
    require_place,
    serving_case,
    unsaid_lengths,
    unsaid_limits,
)
from assay.asking.commands import SERVING, Minimize
from assay.asking.dividing import TOKENS_BY_DOLLAR
from assay.asking.dividing_users import Divided, divided
from assay.asking.layouts import requests_held
from assay.asking.outcome import Outcome
from assay.asking.periods import PERIODS, SECONDS_OF
from assay.asking.reading import Reading
from assay.asking.serving import FULL, figure
from assay.errors import InputError
from assay.plurals import count

_OF_TOKENS: Final = re.compile(r"tokens?\b|\bserv|inference|requests?\b|\bmodel\b|\bllm\b")
_OF_A_REQUEST: Final = re.compile(
    r"\b(?:per|each|an?|every|one|single) (?:average |single |chat )?"
    r"(?:request|query|prompt|answer|response|call|message|question)\b"
)

_ANSWER_OF: Final = re.compile(
    r"\b(?:an|one|each|per|every|single) (?:answer|response|reply) (?:of|with) \d"
)


def _paid(reading: Reading) -> tuple[str, ...]:
    """That the GPUs are owned, where the question does not say how they are paid for."""
    said = reading.slots & {"finance", "rent", "provider", "offer"}
    return () if said else ("owned GPUs",)


def cost(reading: Reading) -> Outcome:
    """Cost of an output token, of an input token, or of one that the prefix cache holds."""
    require_place(reading, "tariffs")
    if reading.slots & {"rent_limit", "cost_limit"}:
        raise InputError(
            "a limit of a price, not a price",
            "ask which GPU is cheapest within it, or whether one is",
        )
    if "token_rate" in reading.slots:
        return _of_token_rate(reading)
    words = reading.words()
    if {"input", "output"} <= set(words):
        raise InputError("this is more than one question", "ask for input and output tokens apart")
    of_tokens = reading.slots & {"model", "tokens", "per_tokens"} or _OF_TOKENS.search(reading.rest)
    if not of_tokens and reading.slots & {"place", "node", "site"}:
        raise InputError("the cost of what?", 'name a model: "... of Llama 3.1 8B"')
    timed = "hour" in words or "hourly" in words or reading.slots & {"per_time", "days"}
    if timed and "tokens" not in reading.slots:
        return _deployment(reading)
    kind = next((kind for kind in ("cached", "input") if kind in words), "output")
    if reading.slots & {"tpot_limit", "ttft_limit"} and "concurrency" not in reading.slots:
        outcome = _cheapest_within_slo(reading)
    elif (of_users := divided(reading)) is not None and "days" not in reading.slots:
        return _of_users(reading, of_users, kind)
    else:
        outcome = figure(reading, f"econ.cost.per_{kind}_token")
    assumed = (*_paid(reading), *outcome.assumed, *_other_tokens(reading, kind))
    outcome = replace(outcome, assumed=assumed)
    if "days" in reading.slots:
        raise InputError("tokens and a time of serving", "say one of them")
    if reading.slots & {"tokens", "per_tokens"}:
        return for_tokens(reading, outcome, 1.0, "USD", kind)
    if TOKENS_BY_DOLLAR.search(reading.rest):
        return _of_a_dollar(reading, outcome)
    return outcome


def _of_users(reading: Reading, of_users: Divided, kind: str) -> Outcome:
    """Cost of a token where the users are divided among replicas that keep the limits of latency."""
    outcome = cost(of_users.reading)
    if "tokens" in reading.slots:
        return replace(outcome, assumed=(of_users.said, *outcome.assumed))
    paid = serving_case(of_users.reading.with_values({"load": 1.0})).value("econ.serving.rate")
    whole = of_users.replicas * SECONDS_OF["hour"] * (paid or math.nan)
    gpus = of_users.replicas * of_users.gpus
    text = f"{outcome.text}; {gpus:,} x {accelerator_of(reading)} for all users, {amount(whole, 'USD')} per hour"
    return replace(outcome, text=text, assumed=(of_users.said, *outcome.assumed))


def _of_a_dollar(reading: Reading, outcome: Outcome) -> Outcome:
    """The tokens of a dollar, from what one costs; alternatives are told apart by that cost."""
    if reading.points_only:
        said = "the most tokens for a dollar are those of the lowest cost"
        return replace(outcome, assumed=(*outcome.assumed, said))
    millions = 1e6 if "Mtoken" in outcome.result.unit else 1.0
    number = millions / (outcome.result.value or math.nan)
    text = f"{float(f'{number:.3g}'):,.0f} tokens per dollar: {outcome.result.text}"
    return replace(outcome, text=text, value=number, unit="token/USD")


def affordable_tokens(reading: Reading) -> Outcome:
    """Output tokens that so many dollars pay for."""
    money = float(reading.get("budget"))
    outcome = cost(reading.with_values({"budget": None}))
    number = money / (outcome.result.value or math.nan)
    number *= 1e6 if "Mtoken" in outcome.result.unit else 1.0
    text = (
        f"{float(f'{number:.3g}'):,.0f} tokens for {amount(money, 'USD')}, at {outcome.result.text}"
    )
    return replace(outcome, text=text, value=number, unit="token")


def at_speed(reading: Reading) -> Outcome:
    """Cost of tokens at a rent and a speed that the question states."""
    gpus, speed, rent = (
        gpus_of(reading) or 1,
        float(reading.get("speed")),
        float(reading.get("rent")),
    )
    case = Case(SERVING, (f"accelerators/{accelerator_of(reading)}", "finance/rented"))
    case = case.given(econ__rent__price=f"{rent:.10g} USD/(h*GPU)")
    result = case.resolve("econ.rent.price", intervals=False).run()
    each = gpus * rent / 3600 / speed
    tokens = float(reading.get("tokens", reading.get("per_tokens", 1e6)))
    text = (
        f"{amount(tokens * each, 'USD')} for {tokens:,.0f} tokens: {count(gpus, 'GPU')} at {result.text}, "
        f"{speed:,.6g} tokens/s"
    )
    value, unit = (tokens * each, "USD") if "tokens" in reading.slots else (each, "USD/token")
    said = ("the speed of the question, all of the time",)
    return Outcome(text, result, assumed=said, value=value, unit=unit)


def _other_tokens(reading: Reading, kind: str) -> tuple[str, ...]:
    """What the other tokens cost, so that nobody adds up two prices of the same servers."""
    if kind == "output":
        return ("the whole cost is on output tokens: prompts cost nothing beside it",)
    if kind != "input" or reading.slots & {"tpot_limit", "ttft_limit"}:
        return ()
    result = figure(replace(reading, points_only=True), "econ.cost.per_generated_token").result
    return (f"beside output tokens at {result.text}, which do not carry the prompts",)


def _of_token_rate(reading: Reading) -> Outcome:
    """Cost of so many tokens by the day: of whole GPUs, where they keep at least one busy."""
    if "tokens" in reading.slots:
        raise InputError("tokens, and tokens by the day", "say one of them")
    rate = float(reading.get("token_rate"))
    said = next(part.words for part in reading.mentions if part.slot == "token_rate")
    own = next((days for days, name in PERIODS.items() if said.endswith(name)), 1.0)
    days = float(reading.get("days", reading.get("per_time", own)))
    given = {"token_rate": None, "days": None, "per_time": days, "tokens": rate * days}
    outcome = cost(reading.with_values(given))
    price = outcome.result.value or math.nan
    if reading.slots & {"gpus", "nodes", "ttft_limit", "tpot_limit"} or "input" in reading.words():
        return outcome
    one = reading.with_values({**given, "tokens": None, "per_time": None, "load": 1.0})
    case = serving_case(one)
    speed, paid = case.values("serving.throughput", "econ.serving.rate")
    each = math.prod(case.layout)
    busy = rate / SECONDS_OF["day"] / (speed or math.nan) * each
    if not busy >= each:
        used = f"{busy / each:.1%} of the time of {count(each, 'GPU')}"
        return replace(outcome, text=f"{outcome.text}; {used}")
    instances = math.ceil(busy / each)
    gpus, whole = instances * each, instances * days * SECONDS_OF["day"] * (paid or math.nan)
    period = PERIODS.get(days, "")
    text = (
        f"{amount(whole, 'USD')} {f'per {period}' if period else f'in {days:g} days'}: {gpus:,} x "
        f"{accelerator_of(reading)} all of the time; {busy:,.3g} are busy, {amount(rate * days * price, 'USD')} "
        f"by their tokens at {outcome.result.text}"
    )
    beside = (
        case.needed_by(target).resolve(target, intervals=False).run().command
        for target in ("serving.throughput", "econ.serving.rate")
    )
    commands = (outcome.result.command, *beside)
    return replace(outcome, text=text, value=whole, scales=False, commands=commands)


def _deployment(reading: Reading) -> Outcome:
    """Cost of the deployment by the hour, or for a longer time."""
    if "model" not in reading.slots:
        raise InputError("a deployment of which model?", 'name one: "... of Llama 3.1 8B"')
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    instances, said = _instances(reading)
    if (of_users := divided(reading)) is not None:
        reading, instances, said = of_users.reading, of_users.replicas, (of_users.said,)
    outcome = figure(reading, "econ.serving.rate")
    outcome = replace(outcome, assumed=(*said, *outcome.assumed))
    days = reading.get("days", reading.get("per_time", 1 / 24))
    whole = instances * days * (outcome.result.value or math.nan)
    period, unit = f"for {days:g} days", "USD"
    if "days" not in reading.slots:
        period = f"per {PERIODS[days]}"
        unit = f"USD/{PERIODS[days]}" if days <= 1 else "USD"
    several = f"{instances} x " if instances > 1 else ""
    text = f"{amount(whole, 'USD')} {period}: {several}{outcome.text}"
    return replace(outcome, text=text, value=whole, unit=unit.replace("hour", "h"), scales=True,
                   assumed=(*_paid(reading), *outcome.assumed))  # fmt: skip


def _instances(reading: Reading) -> tuple[int, tuple[str, ...]]:
    """Instances that hold all requests of the question, where it does not say how many GPUs there are."""
    if gpus_of(reading) is not None or "tensor" in reading.slots:
        return 1, ()
    case = serving_case(reading)
    each = count(math.prod(case.layout), "GPU")
    held, requests = requests_held(case), reading.get("concurrency")
    if requests is None or requests <= held:
        return 1, (each,)
    instances = math.ceil(requests / max(held, 1))
    return instances, (
        f"{instances:,} instances of {each}: the KV cache of one holds {held:,} requests",
    )


def _ends(outcome: Outcome, whole: float) -> tuple[float, ...]:
    """The interval of a multiple of a figure: both are written with the digits that it leaves."""
    result = outcome.result
    if not result.value or result.lo is None or result.hi is None:
        return ()
    return whole / result.value * result.lo, whole / result.value * result.hi


def for_tokens(
    reading: Reading, outcome: Outcome, scale: float, unit: str, kind: str = "output"
) -> Outcome:
    """The figure of as many tokens as the question says, from that of one; `scale` gives the unit."""
    tokens = reading.get("tokens", reading.get("per_tokens"))
    of_one = _OF_A_REQUEST.search(reading.rest) or _ANSWER_OF.search(reading.text)
    if "requests" in reading.slots or of_one:
        if tokens is not None:
            raise InputError("tokens and requests", "say one of them")
        return _for_requests(reading, outcome, scale, unit)
    if tokens is None:
        return outcome
    whole = tokens * scale * (outcome.result.value or math.nan)
    period = ""
    if (days := reading.get("per_time")) is not None:
        period = f" per {PERIODS[days]}" if days in PERIODS else f" in {days:g} days"
    shown = amount(whole, unit, *_ends(outcome, whole))
    text = f"{shown}{period}: {tokens:,.0f} {kind} tokens at {outcome.result.text}"
    if "tokens" not in reading.slots:
        # By a thousand or a million tokens: another way to say the same figure.
        return replace(outcome, text=text, written=(tokens * scale, unit))
    return replace(outcome, text=text, value=whole, unit=unit, scales=True)


def _for_requests(reading: Reading, outcome: Outcome, scale: float, unit: str) -> Outcome:
    """The figure of requests, from that of an output token: it counts their prompts, too."""
    requests = float(reading.get("requests", 1))
    tokens = (
        serving_case(reading.with_values({"requests": None})).value("serving.output") or math.nan
    )
    whole = requests * tokens * scale * (outcome.result.value or math.nan)
    shown = amount(whole, unit, *_ends(outcome, whole))
    text = (
        f"{shown}: {count(round(requests), 'request')} of {tokens:,.0f} output tokens at "
        f"{outcome.result.text}"
    )
    return replace(outcome, text=text, value=whole, unit=unit, scales=True)


def _cheapest_within_slo(reading: Reading) -> Outcome:
    loaded = () if "load" in reading.slots else (FULL,)
    if loaded:
        reading = reading.with_values({"load": 1.0})
    case = serving_case(reading, fits=False)
    over = [f"serving.concurrency={CONCURRENCIES} request"]
    if gpus_of(reading) is None:
        over.append("serving.tensor=1,2,4,8")
    command = Minimize(
        "econ.cost.per_output_token", tuple(over), case.preset, case.includes,
        case.assign, case.variant, case.offer,
    )  # fmt: skip
    result = command.run()
    assumed = (
        *unsaid_limits(reading),
        *unsaid_lengths(reading),
        "the cheapest layout and number of requests within the limits",
        *loaded,
        *case.assumed,
    )
    return Outcome(
        f"{result.meaning}: {result.text}", result, assumed=assumed, notes=tuple(result.notes)
    )


def request_cost(reading: Reading) -> Outcome:
    """Cost of a request, or of as many as the question says."""
    outcome = figure(reading, "econ.cost.per_request")
    if (requests := reading.get("requests")) is None:
        return outcome
    whole = requests * (outcome.result.value or math.nan)
    shown = amount(whole, "USD", *_ends(outcome, whole))
    text = f"{shown}: {requests:,} requests at {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="USD", scales=True)
