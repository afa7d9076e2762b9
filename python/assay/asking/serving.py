"""Answers about serving: latency, throughput, load, cost and energy of tokens."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import replace
from typing import Any, Final

from assay.asking.cases import (
    CONCURRENCIES,
    SHORT,
    accelerator_of,
    assumptions,
    gpus_of,
    is_held,
    memory,
    model_of,
    require_place,
    serving_case,
    unsaid_lengths,
    unsaid_limits,
    unsaid_workload,
)
from assay.asking.commands import Minimize, Result
from assay.asking.layouts import requests_held
from assay.asking.memory import fewest_gpus, fit
from assay.asking.outcome import Outcome
from assay.asking.predictions import Predict, PredictLoad
from assay.asking.reading import Reading
from assay.asking.replicas import most_within_limits
from assay.errors import AssayError, InputError
from assay.plurals import count

_OF_TOKENS: Final = re.compile(r"tokens?\b|\bserv|inference|requests?\b|\bmodel\b|\bllm\b")
_SECONDS_OF: Final = {
    "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2592000.0,
    "year": 31536000.0,
}  # fmt: skip
_IN_TIME: Final = re.compile(
    r"\btokens? (?:per|an?|each|every|in an?|/) ?(minute|hour|day|week|month|year)\b"
)
_MOST: Final = re.compile(r"\b(?:max(?:imum|imal)?|peak|highest|most|saturat(?:ed|ion))\b")
_MOST_OF_ONE: Final = 16
"""GPUs beyond which a question is of several replicas."""
_PERCENTILES: Final = ("p50", "p90", "p99")
_OF_A_REQUEST: Final = re.compile(
    r"\b(?:per|each|an?|every|one|single) (?:average |single |chat )?"
    r"(?:request|query|prompt|answer|response|call|message|question)\b"
)
_SATURATED: Final = "256 requests at once: saturated"
_PERIODS: Final = {1 / 24: "hour", 1.0: "day", 7.0: "week", 30.0: "month", 365.0: "year"}
_FULL: Final = "servers busy all of the time (100 % load)"
_BY_LOAD: Final = frozenset((
    "econ.cost.per_output_token", "econ.cost.per_input_token", "econ.cost.per_cached_token",
    "econ.cost.per_request", "econ.energy.per_output_token", "carbon.per_output_token",
    "carbon.water.per_output_token", "econ.serving.dc_power", "econ.serving.rate",
))  # fmt: skip
"""Figures that follow from how busy the servers are."""
_IMPOSSIBLE: Final = ("serving.fits_memory", "serving.heads_divide", "serving.layers_divide")
"""Limits without which there is no server to ask about."""
_PER_TOKEN: Final = _BY_LOAD - {"econ.serving.dc_power", "econ.serving.rate"}
"""Those of them that do not grow with replicas."""
LONE_RATE: Final = 0.1
"""Requests per second at which a server is idle but for one request."""


def refuse_misfit(reading: Reading, result: Result) -> None:
    """Refuse a figure of GPUs that do not hold the model, or that it cannot be divided over."""
    broken = [meaning for name, meaning in result.violated if name in _IMPOSSIBLE]
    if not broken:
        return
    sizes = ("model", "accelerator", "gpus", "nodes", "tensor", "format", "kv_format")
    only = reading.with_values({slot: None for slot in reading.slots if slot not in sizes})
    verdict = fit(only)
    if verdict.verdict != "no":
        raise InputError(f"one instance over these GPUs: {broken[0]}: does not hold")
    hint = "fewer weights, by a smaller format"
    with contextlib.suppress(AssayError):
        hint = f"it takes {fewest_gpus(only.with_values({'tensor': None})).text}"
    raise InputError(verdict.text.removeprefix("no: "), hint)


def figure(reading: Reading, target: str, **defaults: Any) -> Outcome:
    """One variable of the serving scenario."""
    lone = "concurrency" in defaults and "concurrency" not in reading.slots
    reading = reading.with_values(
        {slot: value for slot, value in defaults.items() if slot not in reading.slots}
    )
    loaded: tuple[str, ...] = ("one request at a time",) if lone else ()
    if target in _BY_LOAD and "load" not in reading.slots:
        # As `assay predict` prices: the scenario's own load would double what a reader can check.
        reading, loaded = reading.with_values({"load": 1.0}), (*loaded, _FULL)
    gpus = gpus_of(reading)
    if target in _PER_TOKEN and gpus is not None and gpus > _MOST_OF_ONE and gpus % 8 == 0:
        # A token of many replicas is a token of one.
        one = reading.with_values({"gpus": 8, "nodes": None})
        if is_held(memory(serving_case(one))):
            reading, loaded = one, (*loaded, f"{gpus // 8:,} replicas of 8 GPUs")
    case = serving_case(reading)
    command = case.resolve(target, intervals=not reading.points_only)
    result = replace(command, explains=reading.explains).run()
    refuse_misfit(reading, result)
    return _outcome(result, (*unsaid_workload(reading), *loaded, *case.assumed))


def _outcome(result: Result, assumed: tuple[str, ...]) -> Outcome:
    if result.value is None:
        paths = [path for path in result.command.includes if path.startswith("accelerators/")]
        of = f" of {paths[0].partition('/')[2]}" if paths else ""
        raise InputError(
            f"{result.target}{of} needs {count(len(result.missing), 'more input')}: "
            f"{', '.join(result.missing[:4])}"
        )
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)


def _paid(reading: Reading) -> tuple[str, ...]:
    """That the GPUs are owned, where the question does not say how they are paid for."""
    said = reading.slots & {"finance", "rent", "provider", "offer"}
    return () if said else ("owned GPUs",)


def throughput(reading: Reading) -> Outcome:
    """Output tokens per second, of the deployment or of each of its GPUs; or in a longer time."""
    saturated: tuple[str, ...] = ()
    if _MOST.search(reading.rest) and "concurrency" not in reading.slots:
        reading, saturated = reading.with_values({"concurrency": 256}), (_SATURATED,)
    gpus = gpus_of(reading)
    if gpus is not None and gpus > _MOST_OF_ONE and "tensor" not in reading.slots:
        return _of_replicas(reading, gpus, saturated)
    outcome = figure(reading, "serving.throughput")
    outcome = replace(outcome, assumed=(*saturated, *outcome.assumed))
    speed = outcome.result.value or math.nan
    if "per_gpu" in reading.slots:
        tensor, pipeline = serving_case(reading).layout
        each = speed / (tensor * pipeline)
        of_all = f"{outcome.result.text} of {count(tensor * pipeline, 'GPU')}"
        text = f"{each:,.4g} token/s per GPU: {of_all}"
        return replace(outcome, text=text, value=each, unit="token/s")
    if (match := _IN_TIME.search(reading.rest)) is None:
        return outcome
    whole = speed * _SECONDS_OF[match[1]]
    text = f"{float(f'{whole:.4g}'):,.0f} tokens per {match[1]}: {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="token")


def _of_replicas(reading: Reading, gpus: int, saturated: tuple[str, ...]) -> Outcome:
    """The throughput of more GPUs than one instance takes: of replicas that share the requests."""
    for each in (size for size in (8, 4, 2, 1, 16, 32) if gpus % size == 0):
        replicas = gpus // each
        given: dict[str, Any] = {"gpus": each, "nodes": None, "per_gpu": None}
        if not saturated and (requests := reading.get("concurrency")) is not None:
            given["concurrency"] = max(1, round(requests / replicas))
        try:
            outcome = figure(reading.with_values(given), "serving.throughput")
        except InputError:
            continue
        whole = replicas * (outcome.result.value or math.nan)
        value, of = (whole / gpus, " per GPU") if "per_gpu" in reading.slots else (whole, "")
        shown = f"{float(f'{value:.4g}'):,.10g} token/s{of}"
        machine = f"{count(replicas, 'replica')} of {count(each, 'GPU')}"
        text = f"{shown}: {machine}, each with {outcome.result.text}"
        said = (
            (*saturated, "the requests are those of each replica")
            if "concurrency" not in given
            else ()
        )
        return replace(
            outcome, text=text, value=value, unit="token/s", assumed=(*said, *outcome.assumed)
        )
    raise InputError(f"{gpus:,} GPUs: no replica of 1, 2, 4, 8, 16 or 32 of them runs it")


def tpot(reading: Reading) -> Outcome:
    """Time per output token, and what a user sees of it."""
    outcome = figure(reading, "serving.time_per_output_token")
    if "user" not in reading.words():
        return outcome
    speed = 1e3 / (outcome.result.value or math.nan)
    return replace(outcome, text=f"{speed:.3g} tokens/s for each user ({outcome.result.text})")


def ttft(reading: Reading) -> Outcome:
    """Time to first token: of a lone request, unless the question says how many there are."""
    if "prefix_hits" in reading.slots:
        if reading.slots & {"context", "concurrency"}:
            raise InputError(
                "cached prefixes with a context or requests at once", "say the prompt and a rate"
            )
        return load(reading.with_values({"rate": LONE_RATE}), "first_token")
    return figure(reading, "serving.time_to_first_token", concurrency=1)


def end_to_end(reading: Reading) -> Outcome:
    """Latency of a whole request: of a lone one, unless the question says how many there are."""
    return figure(reading, "serving.end_to_end_time", concurrency=1)


def cost(reading: Reading) -> Outcome:
    """Cost of an output token, of an input token, or of one that the prefix cache holds."""
    require_place(reading, "tariffs")
    if (rate := reading.get("token_rate")) is not None:
        if "tokens" in reading.slots:
            raise InputError("tokens, and tokens by the day", "say one of them")
        said = next(part.words for part in reading.mentions if part.slot == "token_rate")
        own = next((days for days, name in _PERIODS.items() if said.endswith(name)), 1.0)
        days = reading.get("days", reading.get("per_time", own))
        given = {"token_rate": None, "days": None, "per_time": days, "tokens": rate * days}
        reading = reading.with_values(given)
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
    else:
        outcome = figure(reading, f"econ.cost.per_{kind}_token")
    outcome = replace(outcome, assumed=(*_paid(reading), *outcome.assumed))
    if "days" in reading.slots:
        raise InputError("tokens and a time of serving", "say one of them")
    if reading.slots & {"tokens", "per_tokens"}:
        return for_tokens(reading, outcome, 1.0, "USD", kind)
    if "dollar" in reading.words():
        per_dollar = 1 / (outcome.result.value or math.nan)
        return replace(outcome, text=f"{per_dollar:,.0f} tokens per dollar ({outcome.result.text})")
    return outcome


def _deployment(reading: Reading) -> Outcome:
    """Cost of the deployment by the hour, or for a longer time."""
    if "model" not in reading.slots:
        raise InputError("a deployment of which model?", 'name one: "... of Llama 3.1 8B"')
    outcome = figure(reading, "econ.serving.rate")
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    days = reading.get("days", reading.get("per_time", 1 / 24))
    whole = days * (outcome.result.value or math.nan)
    period, unit = f"for {days:g} days", "USD"
    if "days" not in reading.slots:
        period = f"per {_PERIODS[days]}"
        unit = f"USD/{_PERIODS[days]}" if days <= 1 else "USD"
    text = f"{whole:,.6g} USD {period}: {outcome.text}"
    return replace(outcome, text=text, value=whole, unit=unit.replace("hour", "h"),
                   assumed=(*_paid(reading), *outcome.assumed))  # fmt: skip


def for_tokens(
    reading: Reading, outcome: Outcome, scale: float, unit: str, kind: str = "output"
) -> Outcome:
    """The figure of as many tokens as the question says, from that of one; `scale` gives the unit."""
    tokens = reading.get("tokens", reading.get("per_tokens"))
    if "requests" in reading.slots or _OF_A_REQUEST.search(reading.rest):
        if tokens is not None:
            raise InputError("tokens and requests", "say one of them")
        return _for_requests(reading, outcome, scale, unit)
    if tokens is None:
        return outcome
    whole = tokens * scale * (outcome.result.value or math.nan)
    period = ""
    if (days := reading.get("per_time")) is not None:
        period = f" per {_PERIODS[days]}" if days in _PERIODS else f" in {days:g} days"
    text = f"{whole:,.4g} {unit}{period}: {tokens:,.0f} {kind} tokens at {outcome.result.text}"
    if "tokens" not in reading.slots:
        # By a thousand or a million tokens: another way to say the same figure.
        return replace(outcome, text=text)
    return replace(outcome, text=text, value=whole, unit=unit)


def _for_requests(reading: Reading, outcome: Outcome, scale: float, unit: str) -> Outcome:
    """The figure of requests, from that of an output token: it counts their prompts, too."""
    requests = float(reading.get("requests", 1))
    tokens = (
        serving_case(reading.with_values({"requests": None})).value("serving.output") or math.nan
    )
    whole = requests * tokens * scale * (outcome.result.value or math.nan)
    text = (
        f"{whole:,.4g} {unit}: {count(round(requests), 'request')} of {tokens:,.0f} output tokens at "
        f"{outcome.result.text}"
    )
    return replace(outcome, text=text, value=whole, unit=unit)


def _cheapest_within_slo(reading: Reading) -> Outcome:
    loaded = () if "load" in reading.slots else (_FULL,)
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
    text = f"{whole:,.4g} USD: {requests:,} requests at {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="USD")


def load(reading: Reading, figure: str = "") -> Outcome:
    """Latency at an arrival rate."""
    words = reading.text
    if (percentile := reading.get("percentile", "p50")) not in _PERCENTILES:
        raise InputError(f"{percentile}: expected p50, p90 or p99", "ask for the next one")
    if not figure:
        first, between = (
            "ttft" in words or "first token" in words,
            "tpot" in words or "itl" in words,
        )
        figure = "first_token" if first else "output_token" if between else "end_to_end"
    command = PredictLoad(
        model_of(reading), accelerator_of(reading), (float(reading.get("rate")),), figure,
        percentile, _load_options(reading),
    )  # fmt: skip
    result = command.run()
    assumed = list(assumptions(reading, "serving"))
    if not reading.slots & {"prompt", "output", "context"}:
        assumed.append(SHORT)
    if reading.get("rate") == LONE_RATE:
        assumed.append(f"an idle server: {LONE_RATE:g} requests/s")
    return Outcome(
        f"{result.meaning}: {result.text}",
        result,
        assumed=tuple(assumed),
        notes=tuple(result.notes),
    )


def _load_options(reading: Reading) -> tuple[tuple[str, Any], ...]:
    options: list[tuple[str, Any]] = [
        (slot, reading.get(slot)) for slot in ("prompt", "output") if reading.get(slot) is not None
    ]
    tensor = reading.get("tensor") or gpus_of(reading)
    if tensor is None:
        tensor, pipeline = serving_case(reading, lone=True).layout
        if pipeline > 1:
            raise InputError("predict-load has no pipeline stages", "name GPUs with more memory")
    if tensor > 1:
        options.append(("tensor", int(tensor)))
    for slot, name in (
        ("format", "dtype"),
        ("kv_format", "kv_dtype"),
        ("engine", "engine"),
        ("prefix_hits", "prefix_hits"),
    ):
        if reading.get(slot) is not None:
            options.append((name, reading.get(slot)))
    for slot in ("ttft_limit", "tpot_limit"):
        if reading.get(slot) is not None:
            options.append((f"{slot}_ms", 1e3 * reading.get(slot)))
    return tuple(options)


def capacity(reading: Reading) -> Outcome:
    """The rate of requests that an instance completes: saturated, or within a service level."""
    if reading.slots & {"ttft_limit", "tpot_limit"}:
        case = serving_case(reading)
        result = most_within_limits(reading, case)
        lengths = () if reading.slots & {"prompt", "output", "context"} else (SHORT,)
        return Outcome(
            f"{result.meaning}: {result.text}",
            result,
            assumed=(*unsaid_limits(reading), *lengths, *case.assumed),
        )
    case = serving_case(reading.with_values({"concurrency": 256}))
    result = case.resolve("serving.request_rate").run()
    refuse_misfit(reading, result)
    assumed = (*unsaid_lengths(reading), _SATURATED, *case.assumed)
    outcome = Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)
    period = next((name for name in ("minute", "hour") if name in reading.words()), "")
    if not period and "per_time" not in reading.slots:
        return outcome
    seconds = _SECONDS_OF[period] if period else 86400 * reading.get("per_time")
    each = period or _PERIODS[reading.get("per_time")]
    text = f"{seconds * (result.value or math.nan):,.0f} requests per {each}: {result.text}"
    return replace(outcome, text=text)


def limit(reading: Reading) -> Outcome:
    """What bounds most of a step: memory, compute, launch, network or host."""
    prefill = "prompt" in reading.slots or "prefill" in reading.rest
    if prefill and reading.slots & {"concurrency", "context", "output"}:
        raise InputError("a step is a prefill or a decode", "ask for one of them")
    lengths = dict.fromkeys(("concurrency", "context", "prompt", "output", "load"))
    case = serving_case(reading.with_values(lengths), lone=True)
    tensor, pipeline = case.layout
    assumed = list(case.assumed)
    options: list[tuple[str, Any]]
    if prefill:
        options = [("sequences", 0), ("prefill_tokens", int(reading.get("prompt", 1024)))]
        what = f"prefill of {options[1][1]:,} tokens"
    else:
        context = int(reading.get("context", 1024))
        sequences = reading.get("concurrency")
        if sequences is None:
            held = requests_held(
                case.given(serving__prompt=f"{context} token", serving__output="1 token")
            )
            sequences = max(1, min(64, held))
            assumed.append(f"{sequences} requests at once")
        options = [("sequences", int(sequences)), ("context", context)]
        what = f"decode of {count(options[0][1], 'sequence')} at context {options[1][1]:,}"
    if tensor * pipeline > 1:
        options += [("tensor", tensor)] + ([("pipeline", pipeline)] if pipeline > 1 else [])
    for slot, name in (("format", "dtype"), ("kv_format", "kv_dtype"), ("engine", "engine")):
        if reading.get(slot) is not None:
            options.append((name, reading.get(slot)))
    result = Predict(model_of(reading), accelerator_of(reading), tuple(options)).run()
    return Outcome(f"{result.text} limits the {what}", result, assumed=tuple(assumed),
                   notes=tuple(result.notes), choice=result.text)  # fmt: skip
