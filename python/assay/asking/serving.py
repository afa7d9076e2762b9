"""Answers about serving: memory, latency, throughput, load, cost and energy of tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from assay.asking.cases import (
    Case,
    accelerator_of,
    assumptions,
    gpus_of,
    is_held,
    layout_of,
    memory,
    model_of,
    require_place,
    serving_case,
)
from assay.asking.commands import Minimize, Result
from assay.asking.outcome import Outcome
from assay.asking.predictions import Predict, PredictLoad
from assay.asking.reading import Reading
from assay.errors import InputError
from assay.plurals import count

CONCURRENCIES: Final = "1,2,4,8,12,16,24,32,48,64,96,128,160,192,256"
"""Numbers of requests that are tried under a service level."""
LONE_RATE: Final = 0.1
"""Requests per second at which a server is idle but for one request."""


def _figure(reading: Reading, target: str, **defaults: Any) -> Outcome:
    """One variable of the serving scenario."""
    reading = reading.with_values(
        {slot: value for slot, value in defaults.items() if slot not in reading.slots}
    )
    case = serving_case(reading)
    command = case.resolve(target, intervals=not reading.points_only)
    result = replace(command, explains=reading.explains).run()
    return _outcome(result, (*_workload(reading), *case.assumed))


def _outcome(result: Result, assumed: tuple[str, ...]) -> Outcome:
    if result.value is None:
        raise InputError(
            f"{result.target} needs {count(len(result.missing), 'more input')}: "
            f"{', '.join(result.missing[:4])}"
        )
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)


def _workload(reading: Reading) -> tuple[str, ...]:
    """Lengths and requests that the scenario has and the question does not say."""
    lines = []
    if not reading.slots & {"prompt", "output", "context"}:
        lines.append("1,024 tokens in, 256 out")
    if "concurrency" not in reading.slots:
        lines.append("64 concurrent requests")
    return tuple(lines)


def throughput(reading: Reading) -> Outcome:
    """Output tokens per second."""
    return _figure(reading, "serving.throughput")


def tpot(reading: Reading) -> Outcome:
    """Time per output token, and what a user sees of it."""
    return _figure(reading, "serving.time_per_output_token")


def ttft(reading: Reading) -> Outcome:
    """Time to first token: of a lone request, unless the question says how many there are."""
    if "prefix_hits" in reading.slots:
        return load(reading.with_values({"rate": LONE_RATE}), "first_token")
    return _figure(reading, "serving.time_to_first_token", concurrency=1)


def end_to_end(reading: Reading) -> Outcome:
    """Latency of a whole request."""
    return _figure(reading, "serving.end_to_end_time")


def cost(reading: Reading) -> Outcome:
    """Cost of an output token, of an input token, or of one that the prefix cache holds."""
    require_place(reading, "tariffs")
    for kind in ("cached", "input"):
        if kind in reading.words():
            return _figure(reading, f"econ.cost.per_{kind}_token")
    if reading.slots & {"tpot_limit", "ttft_limit"} and "concurrency" not in reading.slots:
        return _cheapest_within_slo(reading)
    return _figure(reading, "econ.cost.per_output_token")


def _cheapest_within_slo(reading: Reading) -> Outcome:
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
        *_lengths(reading),
        "the cheapest layout and number of requests within the limits",
        *case.assumed,
    )
    return Outcome(
        f"{result.meaning}: {result.text}", result, assumed=assumed, notes=tuple(result.notes)
    )


def _lengths(reading: Reading) -> tuple[str, ...]:
    return tuple(line for line in _workload(reading) if "tokens" in line)


def request_cost(reading: Reading) -> Outcome:
    """Cost of one request."""
    return _figure(reading, "econ.cost.per_request")


def efficiency(reading: Reading) -> Outcome:
    """Energy of an output token, and its inverse."""
    outcome = _figure(reading, "econ.energy.per_output_token")
    per_joule = 1 / (outcome.result.value or math.nan)
    text = f"{per_joule:.3g} tokens/J, that is tokens/s a watt at the meter ({outcome.result.text})"
    return replace(outcome, text=text)


def energy(reading: Reading) -> Outcome:
    """Energy of an output token at the meter."""
    return _figure(reading, "econ.energy.per_output_token")


def emissions(reading: Reading) -> Outcome:
    """Emissions of an output token."""
    require_place(reading, "grids")
    return _figure(reading, "carbon.per_output_token")


def water(reading: Reading) -> Outcome:
    """Water of an output token."""
    require_place(reading, "grids")
    return _figure(reading, "carbon.water.per_output_token")


def power(reading: Reading) -> Outcome:
    """Power at the meter of the deployment."""
    return _figure(reading, "econ.serving.dc_power")


def weights(reading: Reading) -> Outcome:
    """Bytes of the weights of one copy of the model."""
    case = serving_case(reading, fits=False)
    result = case.resolve("serving.weight_memory", intervals=False).run()
    split = f", on each of {case.layout[0] * case.layout[1]} GPUs" if case.layout != (1, 1) else ""
    return Outcome(f"weights: {result.text}{split}", result, assumed=_model_only(case))


def _model_only(case: Case) -> tuple[str, ...]:
    """Assumptions without the accelerator, where memory does not depend on it."""
    return tuple(line for line in case.assumed if not line.startswith("accelerator"))


def kv_cache(reading: Reading) -> Outcome:
    """Bytes of the KV cache: of a token, of a context, or of several requests of it."""
    if (name := reading.get("format")) is not None and "kv_format" not in reading.slots:
        reading = reading.with_values({"kv_format": name, "format": None})
    requests = reading.get("concurrency")
    if not reading.slots & {"context", "prompt", "output"}:
        case = serving_case(reading, fits=False)
        result = case.resolve("serving.kv.bytes_per_token", intervals=False).run()
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    case = serving_case(reading.with_values({"concurrency": None}), fits=False)
    result = case.resolve("serving.kv.request_memory", intervals=False).run()
    if requests is None or result.value is None:
        return Outcome(f"{result.meaning}: {result.text}", result, assumed=_model_only(case))
    whole = requests * result.value
    text = f"{whole:.4g} {result.unit}: {requests:,} requests of {result.text} each"
    return Outcome(text, result, assumed=_model_only(case), value=whole, unit=result.unit)


def fit(reading: Reading) -> Outcome:
    """Whether a model fits on the GPUs."""
    gpus = gpus_of(reading) or 1
    case = serving_case(reading.with_values({"gpus": gpus, "nodes": None}))
    result = case.resolve("serving.kv.max_concurrency", "--constraints", intervals=False).run()
    broken = dict(result.violated)
    sizes = memory(case)
    held = is_held(sizes) and not {"serving.fits_memory", "serving.heads_divide"} & broken.keys()
    machine = f"{gpus} x {accelerator_of(reading)}"
    share = sizes["serving.weight_memory"] / 1e9
    if not held:
        reason = broken.get("serving.heads_divide", f"its weights take {share:.4g} GB of each GPU")
        return Outcome(f"no: {model_of(reading)} does not fit on {machine}; {reason}", result,
                       assumed=case.assumed, verdict="no")  # fmt: skip
    requests = math.floor(result.value or 0)
    text = (
        f"yes: {model_of(reading)} fits on {machine}; weights take {share:.4g} GB of each, and the "
        f"KV cache holds {count(requests, 'request')} of {_tokens_of(case):,.0f} tokens"
    )
    return Outcome(text, result, assumed=case.assumed, verdict="yes")


def _tokens_of(case: Case) -> float:
    prompt, output = case.values("serving.prompt", "serving.output")
    return (prompt or 0) + (output or 0)


def fewest_gpus(reading: Reading) -> Outcome:
    """The fewest GPUs that hold a model."""
    lone = "concurrency" not in reading.slots
    case = serving_case(reading.with_values({"gpus": None, "nodes": None}), lone=lone)
    if not lone:
        case = replace(
            case, assign=tuple(text for text in case.assign if "serving.concurrency" not in text)
        )
    result = case.resolve("serving.kv.max_concurrency", "--constraints", intervals=False).run()
    gpus = case.layout[0] * case.layout[1]
    text = (
        f"{gpus} x {accelerator_of(reading)}: the fewest of 1, 2, 4, 8, 16, 32 and 64 that hold "
        f"{model_of(reading)} and a request"
    )
    return Outcome(text, result, assumed=case.assumed, value=gpus, unit="GPU")


def users(reading: Reading) -> Outcome:
    """Requests at once: those that the service level allows, or those that the KV cache holds."""
    if reading.slots & {"tpot_limit", "ttft_limit"}:
        case = serving_case(reading)
        command = Minimize(
            "serving.batch", (f"serving.concurrency={CONCURRENCIES} request",), case.preset,
            case.includes, case.assign, case.variant, case.offer, maximize=True,
        )  # fmt: skip
        result = command.run()
        text = (
            f"{result.value:,.0f} users at once within the limits, of those tried: {CONCURRENCIES}"
        )
        return Outcome(text, result, assumed=(*_lengths(reading), *case.assumed))
    gpus = gpus_of(reading) or 1
    case = serving_case(reading.with_values({"gpus": gpus, "nodes": None}))
    result = case.resolve("serving.kv.max_concurrency", intervals=False).run()
    if "serving.fits_memory" in dict(result.violated):
        return fit(reading)
    text = f"the KV cache holds {math.floor(result.value or 0):,} requests of {_tokens_of(case):,.0f} tokens at once"
    return Outcome(text, result, assumed=(*_lengths(reading), *case.assumed))


def load(reading: Reading, figure: str = "") -> Outcome:
    """Latency at an arrival rate."""
    words = reading.text
    if not figure:
        first, between = (
            "ttft" in words or "first token" in words,
            "tpot" in words or "itl" in words,
        )
        figure = "first_token" if first else "output_token" if between else "end_to_end"
    command = PredictLoad(
        model_of(reading), accelerator_of(reading), (float(reading.get("rate")),), figure,
        reading.get("percentile", "p50"), _load_options(reading),
    )  # fmt: skip
    result = command.run()
    assumed = list(assumptions(reading, "serving"))
    if not reading.slots & {"prompt", "output", "context"}:
        assumed.append("1,024 tokens in, 128 out")
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
    """The rate of requests that an instance completes when it is saturated."""
    case = serving_case(reading.with_values({"concurrency": 256}))
    result = case.resolve("serving.request_rate").run()
    assumed = (*_lengths(reading), "256 requests at once: saturated", *case.assumed)
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)


def replicas(reading: Reading) -> Outcome:
    """Replicas, GPUs or nodes for a rate of requests within a service level."""
    reading = reading.with_values({"concurrency": None})
    limits = (
        []
        if reading.slots & {"ttft_limit", "tpot_limit"}
        else ["TTFT within 1 s, TPOT within 50 ms"]
    )
    case = serving_case(reading)
    if not reading.slots & {"prompt", "output", "context"}:
        case = case.given(serving__prompt="1024 token", serving__output="128 token")
        limits.append("1,024 tokens in, 128 out")
    command = Minimize(
        "serving.goodput", (f"serving.concurrency={CONCURRENCIES} request",), case.preset,
        case.includes, case.assign, case.variant, case.offer, maximize=True,
    )  # fmt: skip
    result = command.run()
    each = result.value or math.nan
    instances = math.ceil(float(reading.get("rate")) / each)
    tensor, pipeline = case.layout
    gpus = instances * tensor * pipeline
    nodes = math.ceil(gpus / 8)
    unit, value = "replica", instances
    if "node" in reading.rest:
        unit, value = "node", nodes
    elif "gpu" in reading.rest or "card" in reading.rest:
        unit, value = "GPU", gpus
    text = (
        f"{count(instances, 'replica')} of {count(tensor * pipeline, 'GPU')}: {count(gpus, 'GPU')}, "
        f"{count(nodes, 'node')} of 8; each does {result.text} within the limits"
    )
    return Outcome(text, result, assumed=(*limits, *case.assumed), value=value, unit=unit)


def limit(reading: Reading) -> Outcome:
    """What bounds most of a step: memory, compute, launch, network or host."""
    prefill = "prompt" in reading.slots or "prefill" in reading.rest
    options: list[tuple[str, Any]]
    if prefill:
        options = [("sequences", 0), ("prefill_tokens", int(reading.get("prompt", 1024)))]
        what = f"prefill of {options[1][1]:,} tokens"
    else:
        options = [
            ("sequences", int(reading.get("concurrency", 64))),
            ("context", int(reading.get("context", 1024))),
        ]
        what = f"decode of {count(options[0][1], 'sequence')} at context {options[1][1]:,}"
    gpus = gpus_of(reading)
    if gpus is not None and gpus > 1:
        tensor, pipeline = layout_of(gpus)
        options += [("tensor", tensor)] + ([("pipeline", pipeline)] if pipeline > 1 else [])
    for slot, name in (("format", "dtype"), ("kv_format", "kv_dtype"), ("engine", "engine")):
        if reading.get(slot) is not None:
            options.append((name, reading.get(slot)))
    result = Predict(model_of(reading), accelerator_of(reading), tuple(options)).run()
    return Outcome(f"{result.text} limits the {what}", result, assumed=assumptions(reading, "serving"),
                   notes=tuple(result.notes), choice=result.text)  # fmt: skip


def speed_gpus(reading: Reading) -> Outcome:
    """GPUs for a number of output tokens per second."""
    case = serving_case(reading)
    result = case.resolve("serving.throughput").run()
    instances = math.ceil(float(reading.get("speed")) / (result.value or math.nan))
    gpus = instances * case.layout[0] * case.layout[1]
    text = f"{count(gpus, 'GPU')}: {count(instances, 'replica')}, each with {result.text}"
    return Outcome(
        text, result, assumed=(*_workload(reading), *case.assumed), value=gpus, unit="GPU"
    )
