"""Answers about serving: latency, load, capacity, and what limits a step."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any, Final

from assay.asking.cases import (
    ASSUMED_REQUESTS,
    SHORT,
    accelerator_of,
    assumptions,
    gpus_of,
    model_of,
    serving_case,
    unsaid_workload,
)
from assay.asking.commands import Result
from assay.asking.layouts import requests_held
from assay.asking.memory import fewest_gpus, fit
from assay.asking.outcome import Outcome
from assay.asking.predictions import Predict, PredictLoad
from assay.asking.reading import Reading
from assay.asking.spreading import Spread, of_each, spread
from assay.errors import AssayError, InputError
from assay.plurals import count

_PERCENTILES: Final = ("p50", "p90", "p99")
MOST_AT_ONCE: Final = 256
SATURATED: Final = f"{MOST_AT_ONCE} requests at once: saturated"
FULL: Final = "servers busy all of the time (100 % load)"
_BY_LOAD: Final = frozenset((
    "econ.cost.per_output_token", "econ.cost.per_input_token", "econ.cost.per_cached_token",
    "econ.cost.per_request", "econ.cost.per_generated_token",
    "econ.energy.per_output_token", "carbon.per_output_token",
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
    raise misfit(reading) or InputError(f"one instance over these GPUs: {broken[0]}: does not hold")


def misfit(reading: Reading) -> InputError | None:
    """That the GPUs do not hold the model, and what does; None where they hold it."""
    sizes = ("model", "accelerator", "gpus", "nodes", "tensor", "format", "kv_format")
    only = reading.with_values({slot: None for slot in reading.slots if slot not in sizes})
    verdict = fit(only)
    if verdict.verdict != "no":
        return None
    hint = "fewer weights, by a smaller format"
    with contextlib.suppress(AssayError):
        hint = f"it takes {fewest_gpus(only.with_values({'tensor': None})).text}"
    return InputError(verdict.text.removeprefix("no: "), hint)


def figure(reading: Reading, target: str, **defaults: Any) -> Outcome:
    """One variable of the serving scenario."""
    lone = "concurrency" in defaults and "concurrency" not in reading.slots
    reading = reading.with_values(
        {slot: value for slot, value in defaults.items() if slot not in reading.slots}
    )
    loaded: tuple[str, ...] = ("one request at a time",) if lone else ()
    if target in _BY_LOAD and "load" not in reading.slots:
        # As `assay predict` prices: the scenario's own load would double what a reader can check.
        reading, loaded = reading.with_values({"load": 1.0}), (*loaded, FULL)
    of_one = spread(reading) if target in _PER_TOKEN else Spread(reading)
    # A token of several replicas is a token of one.
    reading, loaded = of_one.reading, (*loaded, *of_one.said)
    case = serving_case(reading)
    if "concurrency" not in reading.slots:
        held = requests_held(case)
        if 1 <= held < ASSUMED_REQUESTS:
            reading = reading.with_values({"concurrency": held})
            loaded = (*loaded, f"{count(held, 'request')} at once: as many as fit")
            case = serving_case(reading)
    command = case.resolve(target, intervals=not reading.points_only)
    result = replace(command, explains=reading.explains).run()
    refuse_misfit(reading, result)
    said = of_each(of_one, case.assumed)
    return _outcome(result, (*unsaid_workload(reading), *loaded, *said))


def _outcome(result: Result, assumed: tuple[str, ...]) -> Outcome:
    if result.value is None:
        paths = [path for path in result.command.includes if path.startswith("accelerators/")]
        of = f" of {paths[0].partition('/')[2]}" if paths else ""
        raise InputError(
            f"{result.target}{of} needs {count(len(result.missing), 'more input')}: "
            f"{', '.join(result.missing[:4])}"
        )
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)


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
